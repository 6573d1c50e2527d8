"""How long POST /schedule/batch takes for 1,000 schedules, over HTTP.

    python -m benchmarks.batch [--items 1000] [--rounds 50]

Starts a Valkey of its own (every write on disk before it is answered) and one API process. Times
each batch from its first byte sent to the last byte of its answer, and in turn with it the same
number of single creates on 64 connections, which is what a client without batches would do.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time

import httpx
import msgspec
import uvloop

from benchmarks.support import stage
from benchmarks.support.payload import BODY, HEADERS, new_account
from benchmarks.support.rounds import in_blocks, warn_of_noise
from scheduler.runtime.settings import Settings
from scheduler.store import Store
from scheduler.times import format_iso8601

TARGET_MS = 100
_CONNECTIONS = 64
_DAY_MS = 86_400_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--items", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=50)
    options = parser.parse_args()
    with stage.valkey() as store, stage.api(store.url) as api:
        uvloop.run(_measure(options, store.url, api))


async def _measure(options: argparse.Namespace, redis_url: str, api: stage.Running) -> None:
    single = _single()
    batch = b'{"schedules":[' + b",".join([single] * options.items) + b"]}"
    headers = {"x-api-key": await _key(redis_url)}
    limits = httpx.Limits(max_connections=_CONNECTIONS)
    batches_ms, singles_ms, cpu_ms = [], [], []
    async with httpx.AsyncClient(base_url=api.url, headers=headers, limits=limits) as client:
        for number in range(options.rounds):
            before_s = api.cpu_s()
            batches_ms.append(await _timed(_batch(client, batch, options.items)))
            cpu_ms.append((api.cpu_s() - before_s) * 1000)
            if number % 10 == 0:  # they take long enough
                singles_ms.append(await _timed(_singles(client, single, options.items)))
    cuts = statistics.quantiles(batches_ms, n=100, method="inclusive")
    print(f"a batch of {options.items:,}, {len(batch):,} bytes, {options.rounds} times:")
    print(f"  p50 {cuts[49]:.1f} ms  p99 {cuts[98]:.1f} ms  (target: well under {TARGET_MS} ms)")
    print(f"  {statistics.mean(cpu_ms):.1f} ms CPU of the API each")
    print(f"as many single creates on {_CONNECTIONS} connections:")
    print(f"  p50 {statistics.median(singles_ms):.0f} ms")
    warn_of_noise([{"ms": each} for each in in_blocks(batches_ms)], "batches")
    warn_of_noise([{"ms": each} for each in singles_ms], "single creates")


async def _timed(work: object) -> float:
    began_s = time.perf_counter()
    await work  # type: ignore[misc]
    return (time.perf_counter() - began_s) * 1000


async def _batch(client: httpx.AsyncClient, content: bytes, items: int) -> None:
    answer = await client.post("/schedule/batch", content=content)
    assert answer.status_code == 200, answer.text
    assert answer.content.count(b'"scheduleId"') == items


async def _singles(client: httpx.AsyncClient, content: bytes, items: int) -> None:
    answers = await asyncio.gather(
        *(client.post("/schedule", content=content) for _ in range(items))
    )
    assert {answer.status_code for answer in answers} == {201}


def _single() -> bytes:
    due_ms = time.time_ns() // 1_000_000 + 30 * _DAY_MS
    payload = {
        "targetUrl": "https://example.com/webhooks/orders",
        "triggerAt": format_iso8601(due_ms),
        "targetHeaders": HEADERS,
        "targetBody": msgspec.Raw(BODY),
    }
    return msgspec.json.encode(payload)


async def _key(redis_url: str) -> str:
    store = await Store.open(Settings(redis_url=redis_url))
    try:
        account = await new_account(store, "bulk")
        return (await store.api_keys.create(account.account_id, "bulk"))[1]
    finally:
        await store.aclose()


if __name__ == "__main__":
    main()
