"""How long replaying many dead letters takes over HTTP, and cancelling as many.

    python -m benchmarks.replay [--items 10000]

Starts a Valkey of its own (every write on disk before it is answered) and one API process. Stores
`--items` schedules of one account (about 190 bytes of request each), has all of them fail, replays
them by a filter, 1,000 a call, and cancels what came of that the same way.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import httpx
import uvloop

from benchmarks.support import stage
from benchmarks.support.payload import fail_all, new_account
from scheduler.runtime.settings import Settings
from scheduler.store import Store

_URL = "https://example.com/hooks/replayed"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--items", type=int, default=10_000)
    options = parser.parse_args()
    with stage.valkey() as store, stage.api(store.url) as api:
        uvloop.run(_measure(options.items, store.url, api))


async def _measure(items: int, redis_url: str, api: stage.Running) -> None:
    headers = {"x-api-key": await _fail(items, redis_url)}
    async with httpx.AsyncClient(base_url=api.url, headers=headers, timeout=60) as client:
        for path, status in (("/schedule/replay", "failed"), ("/schedule/cancel", "scheduled")):
            before_s = api.cpu_s()
            calls_ms = await _all(client, path, status, items)
            cpu_ms = (api.cpu_s() - before_s) * 1000
            print(f"POST {path}, {items:,} in {len(calls_ms)} calls: {sum(calls_ms):,.0f} ms")
            print(f"  a call: p50 {statistics.median(calls_ms):.0f} ms, worst {max(calls_ms):.0f}")
            print(f"  {cpu_ms / items * 1000:.0f} us CPU of the API each")


async def _all(client: httpx.AsyncClient, path: str, status: str, items: int) -> list[float]:
    """How long each call took, to the end of the list."""
    body: dict[str, Any] = {"status": status}
    calls_ms, done = [], 0
    while True:
        began_s = time.perf_counter()
        answer = await client.post(path, json=body)
        calls_ms.append((time.perf_counter() - began_s) * 1000)
        found = answer.raise_for_status().json()
        done += sum("code" not in each for each in found["schedules"])
        if found["nextCursor"] is None:
            break
        body["cursor"] = found["nextCursor"]
    if done != items:
        raise AssertionError(f"{done} of {items} were done")
    return calls_ms


async def _fail(items: int, redis_url: str) -> str:
    """An account with so many dead letters; its key."""
    store = await Store.open(Settings(redis_url=redis_url))
    account = await new_account(store, "replay")
    _, key = await store.api_keys.create(account.account_id, "benchmark")
    await fail_all(store, account.account_id, _URL, items)
    await store.aclose()
    return key


if __name__ == "__main__":
    main()
