"""How late do requests reach their target when they are spread evenly over time?

    python -m benchmarks.lateness [--rates 50 500 2000] [--seconds 10]

For each rate, schedules are stored ahead and spread evenly, one every 1/rate seconds. The target
(`benchmarks.target`) notes its clock when a request is whole; lateness is that less triggerAt.
All run on one machine, so there is one clock. What would be negative came early.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

import uvloop

from benchmarks import stage
from benchmarks.payload import executed, new_account, request, schedule_all
from scheduler.settings import Settings
from scheduler.store import Store


async def spread(redis_url: str, url: str, rate: int, seconds: int) -> dict[str, int]:
    """Stores and awaits them; returns triggerAt (ms) by schedule id."""
    store = await Store.open(Settings(redis_url=redis_url))
    try:
        account = await new_account(store, f"rate-{rate}")
        count = rate * seconds
        begin_ms = store.clock.now_ms() + 1500 + count // 8
        moments = [begin_ms + i * 1000 // rate for i in range(count)]
        requests = [request(url, ms) for ms in moments]
        created = await schedule_all(store, account.account_id, requests)
        if store.clock.now_ms() > begin_ms:
            raise SystemExit("The schedules were not stored in time; take fewer.")
        await executed(store, account.account_id)
        return dict(zip(created, moments, strict=True))
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
            due = uvloop.run(spread(server.url, target.url, rate, seconds))
            worker_us = worker.cpu_s() * 1e6 / len(due)
        late = sorted(int(ns) / 1e6 - due[schedule] for ns, schedule in map(str.split, log.open()))
    if len(late) != len(due):
        raise SystemExit(f"{len(due)} were due, {len(late)} came.")
    p = statistics.quantiles(late, n=1000, method="inclusive")
    return (
        f"{rate:6}/s   lateness ms: least {late[0]:.2f}  p50 {p[499]:.2f}  p95 {p[949]:.2f}  "
        f"p99 {p[989]:.2f}  p99.9 {p[998]:.2f}  most {late[-1]:.2f}   "
        f"worker {worker_us:.0f} us CPU each, start-up and waiting included"
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
