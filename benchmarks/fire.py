"""How many due schedules a second does one worker process fire, log and count?

    python -m benchmarks.fire [--count 20000] [--rounds 5] [--workers 1] [--accounts 1]

Each round stores `count` schedules that are all due at one moment, divided among the accounts,
waits for that moment, and takes the time from it until the last outcome is recorded, by the store's
clock. CPU is of the worker and of the store from 100 ms before, user and system, per fire. The
target is nginx if it is installed, else `benchmarks.target`; every write is on disk before it is
answered.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import statistics
from typing import NamedTuple

import uvloop

from benchmarks.support import stage
from benchmarks.support.payload import executed, new_account, request, schedule_all
from benchmarks.support.rounds import warn_of_noise
from scheduler.models import Account
from scheduler.runtime.settings import Settings
from scheduler.store import Store, keys

_BEFORE_MS = 100


class Measured(NamedTuple):
    per_second: float
    worker_us: float
    store_us: float


async def one_round(
    url: str,
    count: int,
    name: str,
    server: stage.Running,
    workers: list[stage.Running],
    accounts: int = 1,
) -> Measured:
    store = await Store.open(Settings(redis_url=server.url))
    try:
        owners = [await new_account(store, f"{name}-{number}") for number in range(accounts)]
        due_ms = store.clock.now_ms() + 2000 + count // 8
        each_has = [request(url, due_ms)] * (count // accounts)
        for owner in owners:
            await schedule_all(store, owner.account_id, each_has)
        if store.clock.now_ms() > due_ms:
            raise SystemExit("The schedules were not stored in time; take fewer.")
        # Until the first claim it looks fifty times a second, which is of no fire.
        await asyncio.sleep((due_ms - _BEFORE_MS - store.clock.now_ms()) / 1000)
        worker_s, store_s = sum(w.cpu_s() for w in workers), server.cpu_s()
        for owner in owners:
            await executed(store, owner.account_id)
        worker_s, store_s = sum(w.cpu_s() for w in workers) - worker_s, server.cpu_s() - store_s
        took_ms = max([await last_outcome_ms(store, owner) for owner in owners]) - due_ms
        each = 1e6 / count
        return Measured(count * 1000 / took_ms, worker_s * each, store_s * each)
    finally:
        await store.aclose()


async def last_outcome_ms(store: Store, account: Account) -> int:
    """When the last one was recorded, by the store's clock."""
    log = keys.account(account.account_id) + "log"
    [(stream_id, _)] = await store.server.read("XREVRANGE", log, "+", "-", "COUNT", 1)
    return int(stream_id.split(b"-")[0])


def main() -> None:
    options = argparse.ArgumentParser(description="Fires due schedules as fast as it can.")
    options.add_argument("--count", type=int, default=20_000)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--workers", type=int, default=1)
    options.add_argument("--accounts", type=int, default=1)
    chosen = options.parse_args()
    if chosen.count % chosen.accounts:
        options.error("--count is to be divisible by --accounts.")
    rounds = []
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(stage.valkey())
        url = stack.enter_context(stage.target()).url
        workers = [stack.enter_context(stage.worker(server.url)) for _ in range(chosen.workers)]
        for number in range(chosen.rounds):
            name = f"round-{number}"
            found = uvloop.run(one_round(url, chosen.count, name, server, workers, chosen.accounts))
            rounds.append(found)
            print(line(f"round {number + 1}", found), flush=True)
    print(line("median", Measured(*map(statistics.median, zip(*rounds, strict=True)))))
    warn_of_noise([each._asdict() for each in rounds])


def line(name: str, found: Measured) -> str:
    per_second, worker_us, store_us = found
    return (
        f"{name:8} {per_second:8,.0f} fires/s   "
        f"CPU each: worker {worker_us:5.1f} us, store {store_us:5.1f} us"
    )


if __name__ == "__main__":
    main()
