"""How late do requests reach their target when they are spread evenly over time?

    python -m benchmarks.lateness [--rates 50 500 2000] [--seconds 10] [--rounds 3]

In each round and for each rate, schedules are stored ahead and spread evenly, one every 1/rate
seconds. The target (`benchmarks.target`) notes its clock when a request is whole; lateness is that
less triggerAt. All run on one machine, so there is one clock. A negative one came early.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
from pathlib import Path
from typing import NamedTuple

import uvloop

from benchmarks.support import stage
from benchmarks.support.payload import executed, new_account, request, schedule_all
from benchmarks.support.rounds import warn_of_noise
from scheduler.runtime.settings import Settings
from scheduler.store import Store

IDLE_S = 2.0


class Spread(NamedTuple):
    """triggerAt (ms) by schedule id; and what the worker took of a core, while it fired and while
    it waited."""

    due: dict[str, int]
    firing: float
    idle: float


class Lateness(NamedTuple):
    """How late (ms) the requests of one round came."""

    least: float
    p50: float
    p95: float
    p99: float
    p999: float
    most: float


async def spread(
    redis_url: str, url: str, rate: int, seconds: int, worker: stage.Running, name: str = "rate"
) -> Spread:
    """Stores them for an account of that name, and awaits them."""
    store = await Store.open(Settings(redis_url=redis_url))
    try:
        account = await new_account(store, name)
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


def lateness(arrived_ms: dict[str, float], due: dict[str, int]) -> Lateness:
    """Ends the benchmark if one of them did not come."""
    late = sorted(arrived_ms[each] - ms for each, ms in due.items() if each in arrived_ms)
    if len(late) != len(due):
        raise SystemExit(f"{len(due)} were due, {len(late)} came.")
    p = statistics.quantiles(late, n=1000, method="inclusive")
    return Lateness(late[0], p[499], p[949], p[989], p[998], late[-1])


def arrivals_ms(log: Path) -> dict[str, float]:
    """When each schedule's request was whole, by the log of `benchmarks.target`."""
    lines = log.read_text().splitlines()
    return {schedule: int(ns) / 1e6 for ns, schedule in map(str.split, lines)}


def measure(rate: int, seconds: int) -> tuple[Lateness, Spread]:
    with tempfile.TemporaryDirectory(prefix="pd-bench-") as home:
        log = Path(home) / "received"
        with (
            stage.valkey() as server,
            stage.logging_target(log) as target,
            stage.worker(server.url) as worker,
        ):
            found = uvloop.run(spread(server.url, target.url, rate, seconds, worker))
        return lateness(arrivals_ms(log), found.due), found


def line(rate: int, late: Lateness, firing: float, idle: float) -> str:
    return (
        f"{rate:6}/s   lateness ms: least {late.least:.2f}  p50 {late.p50:.2f}  "
        f"p95 {late.p95:.2f}  p99 {late.p99:.2f}  p99.9 {late.p999:.2f}  most {late.most:.2f}   "
        f"worker {100 * firing:.0f} % of a core, {100 * idle:.1f} % idle"
    )


def main() -> None:
    options = argparse.ArgumentParser(description="Measures how late requests arrive.")
    options.add_argument("--rates", type=int, nargs="+", default=[50, 500, 2000])
    options.add_argument("--seconds", type=int, default=10)
    options.add_argument("--rounds", type=int, default=3)
    chosen = options.parse_args()
    found: dict[int, list[tuple[Lateness, Spread]]] = {rate: [] for rate in chosen.rates}
    for _ in range(chosen.rounds):
        for rate, rounds in found.items():
            late, worker = measure(rate, chosen.seconds)
            rounds.append((late, worker))
            print(line(rate, late, worker.firing, worker.idle), flush=True)
    print("medians:")
    for rate, rounds in found.items():
        late = Lateness(*map(statistics.median, zip(*(late for late, _ in rounds), strict=True)))
        firing = statistics.median(worker.firing for _, worker in rounds)
        idle = statistics.median(worker.idle for _, worker in rounds)
        print(line(rate, late, firing, idle))
        warn_of_noise([{"p50": each.p50, "p99": each.p99} for each, _ in rounds], f"{rate}/s")


if __name__ == "__main__":
    main()
