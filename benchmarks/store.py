"""What does the store cost: a create, a claim, an ack, a page of the log, statistics? Does it grow?

    python -m benchmarks.store [--waiting 10000 4000000] [--logged 10000 1000000]

For each pair of `--waiting` and `--logged` a server is filled with so many schedules that wait (for
years) and so many log entries of one account. Then rounds of 64 creates, claims and acks, through
the store as API and workers do, and pages and statistics; each by the CPU
time that the server's main thread took (reading the command, running it, writing the append-only
file and the reply). The figures of the pairs stand side by side, with the last as a multiple of
the first.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Awaitable, Callable
from typing import Any

import uvloop

from benchmarks.support import stage
from benchmarks.support.payload import new_account, request
from benchmarks.support.rounds import in_blocks, warn_of_noise
from scheduler.models import LogStatus, Outcome, Request, Status
from scheduler.runtime.settings import Settings
from scheduler.store import Store, keys
from scheduler.store.lifecycle.end.end_rows import Ack
from scheduler.store.log.logs import LogQuery

URLS = [f"https://example.com/hooks/{n:04}" for n in range(100)]
OUTCOME = Outcome(Status.COMPLETED, 200, 42, "")
ROUNDS = 150
AT_ONCE = 64
FAR_MS = 2**42
DAY_MS = 86_400_000


async def fill(store: Store, account_id: str, waiting: int, logged: int) -> None:
    """Schedules that wait for years, in no order; and executions, by claims and acks."""
    for start in range(0, waiting, 1000):
        requests = [
            request(URLS[n % len(URLS)], FAR_MS + n * 7919 % 1_000_003 * 1000)
            for n in range(start, min(waiting, start + 1000))
        ]
        await store.schedules.create_all(account_id, requests)
    for start in range(0, logged, 1000):
        count = min(1000, logged - start)
        due = [request(URLS[n % len(URLS)], store.clock.now_ms()) for n in range(count)]
        await store.schedules.create_all(account_id, due)
        await execute(store, account_id)


async def execute(store: Store, account_id: str) -> None:
    """Claims and acks all that is due."""
    shard = int(account_id.split("_")[1])
    while True:
        batch = await store.claims.claim(shard, lease_ms=15_000, most=128)
        if not batch.invocations:
            return
        await store.ends.ack(shard, [Ack(each, OUTCOME, 3) for each in batch.invocations])


class Costs:
    """CPU time (us) of the server's main thread for each thing, one call after the other."""

    def __init__(self, server: stage.Running) -> None:
        self._server = server
        self.found: dict[str, list[float]] = {}

    async def of(self, name: str, items: int, act: Callable[[], Awaitable[Any]]) -> Any:
        began_ns = self._server.main_thread_ns()
        result = await act()
        spent_us = (self._server.main_thread_ns() - began_ns) / 1000
        self.found.setdefault(name, []).append(spent_us / items)
        return result


async def measure(server: stage.Running, waiting: int, logged: int) -> dict[str, list[float]]:
    """Of each thing the CPU (us) in five stretches of rounds."""
    store = await Store.open(Settings(redis_url=server.url, shards=1))
    try:
        account_id = (await new_account(store, "store")).account_id
        await fill(store, account_id, waiting, logged)
        costs = Costs(server)
        for _ in range(ROUNDS):
            await one_round(store, account_id, costs)
        return {name: in_blocks(values) for name, values in costs.found.items()}
    finally:
        await store.aclose()


async def one_round(store: Store, account_id: str, costs: Costs) -> None:
    now_ms = store.clock.now_ms()
    due: list[Request] = [request(URLS[n], now_ms) for n in range(AT_ONCE)]
    await costs.of("create", AT_ONCE, lambda: store.schedules.create_all(account_id, due))
    batch = await costs.of(
        "claim", AT_ONCE, lambda: store.claims.claim(0, lease_ms=15_000, most=AT_ONCE)
    )
    assert len(batch.invocations) == AT_ONCE
    acks = [Ack(each, OUTCOME, 3) for each in batch.invocations]
    await costs.of("ack", AT_ONCE, lambda: store.ends.ack(0, acks))
    page = LogQuery(limit=50)
    await costs.of("page of the log", 1, lambda: store.logs.page(account_id, page))
    one_url = LogQuery(limit=50, url=URLS[7], statuses=(LogStatus.COMPLETED,))
    await store.server.call("DEL", keys.account(account_id) + keys.SCANS)  # or it searched too much
    await costs.of("page of one URL", 1, lambda: store.logs.page(account_id, one_url))
    await costs.of(
        "statistics", 1, lambda: store.stats.usage(account_id, now_ms - 30 * DAY_MS, now_ms)
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--waiting", type=int, nargs="+", default=[10_000])
    options.add_argument("--logged", type=int, nargs="+", default=[10_000])
    chosen = options.parse_args()
    columns = []
    for waiting, logged in zip(chosen.waiting, chosen.logged, strict=True):
        with stage.valkey() as server:
            columns.append(uvloop.run(measure(server, waiting, logged)))
    sizes = [f"{w:,}/{n:,}" for w, n in zip(chosen.waiting, chosen.logged, strict=True)]
    print(f"{'us of the server, waiting/logged':36}" + "".join(f"{size:>22}" for size in sizes))
    for name in columns[0]:
        values = [statistics.median(column[name]) for column in columns]
        ratio = f"   {values[-1] / values[0]:.2f}x" if len(values) > 1 else ""
        print(f"{name:36}" + "".join(f"{value:22.1f}" for value in values) + ratio)
    for size, column in zip(sizes, columns, strict=True):
        stretches = zip(*column.values(), strict=True)
        warn_of_noise([dict(zip(column, each, strict=True)) for each in stretches], size)


if __name__ == "__main__":
    main()
