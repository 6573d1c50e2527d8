"""How many schedules a second the Python client creates, against plain aiohttp doing the same.

    python -m benchmarks.client [--creates 2000] [--rounds 5] [--concurrent 100]

Starts a Valkey of its own (every write on disk before it is answered) and one API process. In turn,
so many callers at once create schedules, each the next one when its last was answered: by plain
aiohttp, by AsyncPostdate, by AsyncPostdate over httpx's own pool, and by a Buffer, that one also
with all of its callers at once. With `pip install httpx-aiohttp` that takes part as well. The
ratios are what to compare between machines and hours.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import importlib.util
import os
import statistics
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import aiohttp
import httpx

from benchmarks.support import stage
from benchmarks.support.payload import HEADERS, new_account
from benchmarks.support.rounds import warn_of_noise
from postdate import AsyncPostdate, Buffer, Created
from scheduler.runtime.settings import Settings
from scheduler.store import Store

TARGET_RATIO = 0.5
_TIMEOUT = httpx.Timeout(30, pool=None)
_URL = "https://example.com/webhooks/orders"
_BODY = {"order": "ord_8412", "action": "remind", "attempt": 1}

Create = Callable[[], Awaitable[object]]


class Way(NamedTuple):
    """One way to create a schedule, and how many callers use it at once."""

    create: Create
    concurrent: int


class Measured(NamedTuple):
    """What one round found; the CPU is that of the client's process."""

    rate: float
    cpu_us: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--creates", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--concurrent", type=int, default=100)
    options = parser.parse_args()
    with stage.valkey() as store, stage.api(store.url) as api:
        asyncio.run(_measure(options, store.url, api.url))


async def _measure(options: argparse.Namespace, redis_url: str, url: str) -> None:
    key = await key_of_new_account(redis_url)
    async with contextlib.AsyncExitStack() as stack:
        ways = await _ways(stack, url, key, options)
        found: dict[str, list[Measured]] = {name: [] for name in ways}
        for way in ways.values():
            await _round(way, way.concurrent)  # warms up
        for number in range(1, options.rounds + 1):
            for name, way in ways.items():
                found[name].append(await _round(way, options.creates))
                print(f"round {number}  {name:18}{_line(found[name][-1])}", flush=True)
    _report(found, options.concurrent)


async def _ways(
    stack: contextlib.AsyncExitStack, url: str, key: str, options: argparse.Namespace
) -> dict[str, Way]:
    concurrent = options.concurrent
    session = await stack.enter_async_context(aiohttp.ClientSession())

    async def client(http: httpx.AsyncClient | None = None) -> AsyncPostdate:
        if http is not None:
            await stack.enter_async_context(http)
        return await stack.enter_async_context(AsyncPostdate(url, key, http=http))

    ours = await client()
    pooled = await client(httpx.AsyncClient(timeout=_TIMEOUT))
    buffer = await stack.enter_async_context(Buffer(ours))
    ways = {
        "aiohttp": Way(_plain(session, url, key), concurrent),
        "AsyncPostdate": Way(_by(ours), concurrent),
        "over httpx": Way(_by(pooled), concurrent),
        "Buffer": Way(_by(buffer), concurrent),
        "Buffer, all": Way(_by(buffer), options.creates),
    }
    if importlib.util.find_spec("httpx_aiohttp"):
        transport = importlib.import_module("httpx_aiohttp").AiohttpTransport()
        bridged = await client(httpx.AsyncClient(transport=transport, timeout=_TIMEOUT))
        ways["over httpx-aiohttp"] = Way(_by(bridged), concurrent)
    return ways


def _by(scheduler: AsyncPostdate | Buffer) -> Create:
    async def create() -> Created:
        return await scheduler.schedule(
            _URL, in_=timedelta(days=30), json=_BODY, method="POST", headers=HEADERS
        )

    return create


def _plain(session: aiohttp.ClientSession, url: str, key: str) -> Create:
    """What the client sends, with nothing of what makes it one."""

    async def create() -> None:
        due = datetime.now(UTC) + timedelta(days=30)
        payload = {
            "targetUrl": _URL,
            "triggerAt": due.isoformat(),
            "targetMethod": "POST",
            "targetHeaders": HEADERS,
            "targetBody": _BODY,
        }
        headers = {"x-api-key": key, "idempotency-key": os.urandom(16).hex()}
        async with session.post(url + "/schedule", json=payload, headers=headers) as answer:
            assert answer.status == 201, await answer.text()
            assert (await answer.json())["scheduleId"]

    return create


async def _round(way: Way, creates: int) -> Measured:
    left = iter(range(creates))

    async def caller() -> None:
        for _ in left:
            await way.create()

    began_s, before_s = time.perf_counter(), time.process_time()
    await asyncio.gather(*(caller() for _ in range(way.concurrent)))
    took_s, spent_s = time.perf_counter() - began_s, time.process_time() - before_s
    return Measured(creates / took_s, spent_s / creates * 1e6)


def _report(found: dict[str, list[Measured]], concurrent: int) -> None:
    medians = {name: statistics.median(m.rate for m in runs) for name, runs in found.items()}
    print(f"\n{concurrent} concurrent callers, medians:")
    for name, runs in found.items():
        ratio = medians[name] / medians["aiohttp"]
        cpu_us = statistics.median(m.cpu_us for m in runs)
        print(f"{name:18}{_line(Measured(medians[name], cpu_us))}  ratio {ratio:5.2f}")
        warn_of_noise([each._asdict() for each in runs], name)
    print(f"(target: AsyncPostdate at least {TARGET_RATIO})")


def _line(measured: Measured) -> str:
    return f"{measured.rate:9,.0f}/s  {measured.cpu_us:6.0f} us CPU each"


async def key_of_new_account(redis_url: str) -> str:
    store = await Store.open(Settings(redis_url=redis_url))
    try:
        account = await new_account(store, "bulk")
        return (await store.api_keys.create(account.account_id, "bulk"))[1]
    finally:
        await store.aclose()


if __name__ == "__main__":
    main()
