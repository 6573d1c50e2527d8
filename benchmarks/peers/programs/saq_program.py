"""SAQ: `work` fires due jobs, `add` stores them."""

from __future__ import annotations

import os
from typing import Any

import aiohttp
import orjson
import plan as plans
import uvloop
from redis import asyncio as redis
from saq import Worker
from saq.queue.redis import RedisQueue

# Ten by default; 50 were half as fast here, 400 no faster.
CONCURRENCY = int(os.environ.get("CONCURRENCY", "200"))
# Each that waits for work holds a connection, and redis-py's pool would refuse the 101st.
_CONNECTIONS = 2 * CONCURRENCY + 100


def queue_of(plan: plans.Plan) -> RedisQueue:
    client = redis.from_url(f"unix://{plan.socket}", max_connections=_CONNECTIONS)
    return RedisQueue(client, dump=orjson.dumps, load=orjson.loads, max_concurrent_ops=CONCURRENCY)


async def send(ctx: dict[str, Any], *, url: str, headers: dict[str, str], body: str) -> None:
    async with ctx["http"].post(url, data=body, headers=headers) as answer:
        await answer.read()
        answer.raise_for_status()


async def start(ctx: dict[str, Any]) -> None:
    ctx["http"] = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=CONCURRENCY))
    plans.ready()


async def stop(ctx: dict[str, Any]) -> None:
    await ctx["http"].close()


async def work(plan: plans.Plan) -> None:
    # It looks for due jobs once a second; its lock cannot be shorter.
    worker: Worker[Any] = Worker(
        queue_of(plan), [send], concurrency=CONCURRENCY, startup=start, shutdown=stop
    )
    await worker.start()


async def add(plan: plans.Plan) -> None:
    queue = queue_of(plan)
    await queue.connect()

    async def one(number: int) -> None:
        await queue.enqueue(
            "send",
            url=plan.url_of(number),
            headers=plan.headers,
            body=plan.body,
            # Documented as whole seconds; fractions work, and make it less late.
            scheduled=plan.due_at_ms(number) / 1000,
            retries=2,  # with the default of one, it is not sent again if its worker dies
            ttl=-1,  # no result is kept
        )

    await plans.add_all(plan, one)
    await queue.disconnect()


if __name__ == "__main__":
    role, given = plans.read()
    uvloop.run(work(given) if role == "work" else add(given))
