"""How late are a neighbour's schedules while others read the log and the statistics?

    python -m benchmarks.readers [--rate 500] [--seconds 10] [--rounds 3] [--clients 8]
                                 [--plan scale] [--logged 10000]

Starts a store, an API process, a worker and a target. Each reading client has an account of its
own with `--logged` executions, spread over 30 days, and asks in turn for a page of the log, a page
of one URL and the statistics: the next when the last was answered, and after a 429 when Retry-After
has passed, so as fast as its plan allows. In each round the neighbour's schedules fire at `--rate`
once without readers and once beside them. Compare the ratio of the p99s.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

import aiohttp
import uvloop

from benchmarks.dashboard import past
from benchmarks.lateness import Lateness, Spread, arrivals_ms, lateness, spread
from benchmarks.support import stage
from benchmarks.support.history import fill
from benchmarks.support.rounds import warn_of_noise
from scheduler.models import Plan
from scheduler.runtime.settings import Settings
from scheduler.store import Store

TARGET_RATIO = 1.5
_URL = "https://api.example.com/hooks/0007"  # `past` has it


class Stretch(NamedTuple):
    """The neighbour's schedules, reads a second, and the part of a core that store and API had."""

    fired: Spread
    reads_per_second: float
    store: float
    api: float


class Scene(NamedTuple):
    """What runs, and a key for each reader."""

    store: stage.Running
    api: stage.Running
    worker: stage.Running
    target: stage.Running
    keys: list[str]

    async def stretch(self, rate: int, seconds: int, name: str, keys: list[str]) -> Stretch:
        """One stretch, with a reader for each key, from before the first schedule is due."""
        answers = Counter[int]()
        busy = (self.store, self.api)
        began_s, before_s = asyncio.get_running_loop().time(), [each.cpu_s() for each in busy]
        async with reading(self.api.url, keys, answers):
            fired = await spread(self.store.url, self.target.url, rate, seconds, self.worker, name)
        took_s = asyncio.get_running_loop().time() - began_s
        cores = ((e.cpu_s() - was_s) / took_s for e, was_s in zip(busy, before_s, strict=True))
        if unexpected := answers.keys() - {200, 429}:
            raise SystemExit(f"Readers were answered {sorted(unexpected)}.")
        return Stretch(fired, answers[200] / took_s, *cores)


@contextlib.asynccontextmanager
async def reading(url: str, keys: list[str], answers: Counter[int]) -> AsyncIterator[None]:
    """Counts the answers by status."""
    async with aiohttp.ClientSession(url) as session:
        tasks = [asyncio.create_task(read(session, key, answers)) for key in keys]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
    if broken := [each for each in ended if not isinstance(each, asyncio.CancelledError)]:
        raise SystemExit(f"A reader broke off: {broken[0]!r}")


async def read(session: aiohttp.ClientSession, key: str, answers: Counter[int]) -> None:
    """Goes through the log page by page, and begins anew at its end."""
    page: dict[str, str] = {}
    for number in itertools.count():
        path, query = (
            ("/stats/logs", page),
            ("/stats/logs", {"targetUrl": _URL}),
            ("/stats", {}),
        )[number % 3]
        async with session.get(path, params=query, headers={"x-api-key": key}) as answer:
            body = await answer.json()
        answers[answer.status] += 1
        if answer.status == 429:
            await asyncio.sleep(int(answer.headers["Retry-After"]))
        elif query is page:
            page = {"cursor": body["nextCursor"]} if body["nextCursor"] else {}


async def readers(redis_url: str, clients: int, plan: Plan, logged: int) -> list[str]:
    """A key of each reader's account."""
    store, keys = await Store.open(Settings(redis_url=redis_url)), []
    try:
        for number in range(clients):
            account = await store.accounts.create(f"reader-{number}", credits=1, plan=plan)
            await fill(store, account.account_id, past(logged, store.clock.now_ms()))
            keys.append((await store.api_keys.create(account.account_id, "reader"))[1])
        return keys
    finally:
        await store.aclose()


def measure(chosen: argparse.Namespace) -> dict[str, list[tuple[Stretch, Lateness]]]:
    """All rounds, quiet and read in turn."""
    found: dict[str, list[Stretch]] = {"quiet": [], "read": []}
    with tempfile.TemporaryDirectory(prefix="pd-bench-") as home:
        log = Path(home) / "received"
        with (
            stage.valkey() as store,
            stage.logging_target(log) as target,
            stage.api(store.url, log_level="warning") as api,
            stage.worker(store.url, log_level="warning") as worker,
        ):
            keys = uvloop.run(readers(store.url, chosen.clients, chosen.plan, chosen.logged))
            scene = Scene(store, api, worker, target, keys)
            for number in range(chosen.rounds):
                for name, stretches in found.items():
                    at_work = keys if name == "read" else []
                    asked = scene.stretch(chosen.rate, chosen.seconds, f"{name}-{number}", at_work)
                    stretches.append(uvloop.run(asked))
                    print(f"round {number + 1}  {name}", flush=True)
        arrived = arrivals_ms(log)  # it is written when the target stops
    return {
        name: [(each, lateness(arrived, each.fired.due)) for each in stretches]
        for name, stretches in found.items()
    }


def report(name: str, rounds: list[tuple[Stretch, Lateness]]) -> None:
    stretches, late = zip(*rounds, strict=True)
    print(
        f"{name:6} lateness ms: p50 {median(each.p50 for each in late):.2f}  "
        f"p99 {median(each.p99 for each in late):.2f}   "
        f"{median(each.reads_per_second for each in stretches):7,.0f} reads/s   "
        f"of a core: store {median(each.store for each in stretches):.0%}, "
        f"API {median(each.api for each in stretches):.0%}"
    )
    warn_of_noise([{"p50": each.p50, "p99": each.p99} for each in late], name)


def main() -> None:
    options = argparse.ArgumentParser(description="Measures lateness beside readers.")
    options.add_argument("--rate", type=int, default=500)
    options.add_argument("--seconds", type=int, default=10)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--clients", type=int, default=8)
    options.add_argument("--plan", type=Plan, default=Plan.SCALE, choices=list(Plan))
    options.add_argument("--logged", type=int, default=10_000, help="of each account")
    chosen = options.parse_args()
    found = measure(chosen)
    print(f"\nMedians at {chosen.rate}/s; {chosen.clients} readers, plan {chosen.plan}:")
    for name, rounds in found.items():
        report(name, rounds)
    pairs = zip(found["quiet"], found["read"], strict=True)
    ratios = [{"ratio": read.p99 / quiet.p99} for (_, quiet), (_, read) in pairs]
    ratio = median(each["ratio"] for each in ratios)
    print(f"Ratio of the p99s: {ratio:.2f} (at most {TARGET_RATIO})")
    warn_of_noise(ratios)


if __name__ == "__main__":
    main()
