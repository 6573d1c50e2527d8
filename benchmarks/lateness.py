"""How late do requests reach their target when they are spread evenly over time?

    python -m benchmarks.lateness [--rates 50 500 2000] [--seconds 10]

For each rate, schedules are stored ahead and spread evenly, one every 1/rate seconds. The target
(`benchmarks.target`) notes its clock when a request is whole; lateness is that less triggerAt.
All run on one machine, so there is one clock. What would be negative came early.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
from pathlib import Path
from typing import NamedTuple

import uvloop

from benchmarks import stage
from benchmarks.payload import executed, new_account, request, schedule_all
from scheduler.settings import Settings
from scheduler.store import Store

IDLE_S = 2.0


class Spread(NamedTuple):
    """triggerAt (ms) by schedule id; and what the worker took of a core, while it fired and while
    it waited."""

    due: dict[str, int]
    firing: float
    idle: float


async def spread(
    redis_url: str, url: str, rate: int, seconds: int, worker: stage.Running
) -> Spread:
    """Stores and awaits them."""
    store = await Store.open(Settings(redis_url=redis_url))
    try:
        account = await new_account(store, f"rate-{rate}")
        count = rate * seconds
        begin_ms = store.clock.now_ms() + 1500 + int(1000 * IDLE_S) + count // 8
        moments = [begin_ms + i * 1000 // rate for i in range(count)]
        requests = [request(url, ms) for ms in moments]
        created = await schedule_all(store, account.account_id, requests)
        if store.clock.now_ms() > begin_ms - 1000 * IDLE_S:
            raise SystemExit("The schedules were not stored in time; take fewer.")
        await asyncio.sleep((begin_ms - store.clock.now_ms()) / 1000 - IDLE_S)
        before_s = worker.cpu_s()
        await asyncio.sleep(IDLE_S)
        began_s = worker.cpu_s()
        await executed(store, account.account_id)
        return Spread(
            dict(zip(created, moments, strict=True)),
            (worker.cpu_s() - began_s) / seconds,
            (began_s - before_s) / IDLE_S,
        )
    finally:
        await store.aclose()


def measure(rate: int, seconds: int) -> str:
    with tempfile.TemporaryDirectory(prefix="pd-bench-") as home:
        log = Path(home) / "received"
        with (
            stage.valkey() as server,
            stage.logging_target(log) as target,
            stage.worker(server.url) as worker,
        ):
            due, firing, idle = uvloop.run(spread(server.url, target.url, rate, seconds, worker))
        late = sorted(int(ns) / 1e6 - due[schedule] for ns, schedule in map(str.split, log.open()))
    if len(late) != len(due):
        raise SystemExit(f"{len(due)} were due, {len(late)} came.")
    p = statistics.quantiles(late, n=1000, method="inclusive")
    return (
        f"{rate:6}/s   lateness ms: least {late[0]:.2f}  p50 {p[499]:.2f}  p95 {p[949]:.2f}  "
        f"p99 {p[989]:.2f}  p99.9 {p[998]:.2f}  most {late[-1]:.2f}   "
        f"worker {100 * firing:.0f} % of a core, {100 * idle:.1f} % idle"
    )


def main() -> None:
    options = argparse.ArgumentParser(description="Measures how late requests arrive.")
    options.add_argument("--rates", type=int, nargs="+", default=[50, 500, 2000])
    options.add_argument("--seconds", type=int, default=10)
    chosen = options.parse_args()
    for rate in chosen.rates:
        print(measure(rate, chosen.seconds), flush=True)


if __name__ == "__main__":
    main()
