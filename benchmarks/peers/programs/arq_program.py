"""arq: `work` fires due jobs, `add` stores them."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Any

import aiohttp
import plan as plans
import uvloop
from arq import create_pool
from arq.connections import RedisSettings
from arq.worker import Worker, func

# By default it polls twice a second and takes ten at a time: at most twenty a second. These values
# were the fastest and least late of those tried.
CONCURRENCY = int(os.environ.get("CONCURRENCY", "1000"))
POLL_DELAY_S = 0.001


async def send(ctx: dict[str, Any], url: str, headers: dict[str, str], body: str) -> None:
    async with ctx["http"].post(url, data=body, headers=headers) as answer:
        await answer.read()
        answer.raise_for_status()


async def start(ctx: dict[str, Any]) -> None:
    ctx["http"] = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=CONCURRENCY))
    plans.ready()


async def stop(ctx: dict[str, Any]) -> None:
    await ctx["http"].close()


async def work(plan: plans.Plan) -> None:
    worker = Worker(
        [func(send, keep_result=0)],
        redis_settings=RedisSettings(unix_socket_path=plan.socket),
        on_startup=start,
        on_shutdown=stop,
        max_jobs=CONCURRENCY,
        poll_delay=POLL_DELAY_S,
        keep_result=0,
    )
    try:
        await worker.async_run()
    finally:
        await worker.close()


async def add(plan: plans.Plan) -> None:
    pool = await create_pool(RedisSettings(unix_socket_path=plan.socket))

    async def one(number: int) -> None:
        due = datetime.fromtimestamp(plan.due_at_ms(number) / 1000, UTC)
        url = plan.url_of(number)
        await pool.enqueue_job("send", url, plan.headers, plan.body, _defer_until=due)

    await plans.add_all(plan, one)
    await pool.aclose()


if __name__ == "__main__":
    role, given = plans.read()
    uvloop.run(work(given) if role == "work" else add(given))
