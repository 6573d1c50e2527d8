"""Which client fires fastest? The same POST to a local target, one process, every client in turn.

    python -m benchmarks.wire                  # the table
    python -m benchmarks.wire --profile        # cProfile of our own

The target is nginx if it is installed, else `benchmarks.target`. Clients are interleaved, round
by round, because a machine's speed drifts by more than they differ: compare
the medians' ratios of one run, not the figures of two. `firer` is everything that the worker does
for a fire: parse, judge, render, pool, deadline, wire, outcome. A client that is not installed
is left out, with a note. CPU is that of this process, user and system.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import cProfile
import importlib
import importlib.util
import ipaddress
import math
import pstats
import re
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import uvloop

from benchmarks.support import stage
from benchmarks.support.rounds import warn_of_noise
from scheduler.ids import new_schedule_ids
from scheduler.models import Invocation, Outcome, Request, Status
from scheduler.runtime.settings import Settings
from worker.send.firer import Firer

BODY = b'{"event":"reminder","userId":"u_1842","text":"Your trial ends tomorrow","n":12}'
HEADERS = {"Content-Type": "application/json", "X-Source": "benchmark"}


class Measured(NamedTuple):
    """One round of one client."""

    per_second: float
    cpu_us: float


Round = Callable[[str, int, int], Awaitable[None]]
"""Sends `count` requests to a URL, `in_flight` at a time; raises if one was not answered 200."""


class _Burst:
    """Keeps `in_flight` fires going until `count` are done."""

    def __init__(self, firer: Firer, url: str, count: int, in_flight: int) -> None:
        self.firer = firer
        self.request = Request(0, "POST", url, HEADERS, BODY)
        self.left_to_start = count
        self.left_to_end = count
        self.in_flight = in_flight
        self.failure = ""
        self.over = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        for _ in range(self.in_flight):
            self.start_one()
        await self.over
        if self.failure:
            raise RuntimeError(self.failure)

    def start_one(self) -> None:
        if self.left_to_start:
            self.left_to_start -= 1
            invocation = Invocation(0, "acc_00_x", SCHEDULE_ID, "1", 1, math.inf, self.request, 0)
            self.firer.fire(invocation, self.ended)

    def ended(self, invocation: Invocation, outcome: Outcome, sent_at_s: float) -> None:
        if outcome.status is not Status.COMPLETED:
            self.failure = outcome.error_message
        self.left_to_end -= 1
        if self.left_to_end:
            self.start_one()
        else:
            self.over.set_result(None)


SCHEDULE_ID = new_schedule_ids(1, 0)[0]


async def firer(url: str, count: int, in_flight: int) -> None:
    ours = Firer(
        Settings(allow_targets=(ipaddress.ip_network("127.0.0.0/8"),)),
        sign=lambda _: b"",
        unsent=lambda _: None,
        resent=lambda _: None,
        unsure=lambda _: None,
    )
    await _Burst(ours, url, count, in_flight).run()
    await ours.aclose()


async def aiohttp(url: str, count: int, in_flight: int) -> None:
    library = importlib.import_module("aiohttp")

    async with library.ClientSession(connector=library.TCPConnector(limit=0)) as session:

        async def one() -> None:
            async with session.post(url, data=BODY, headers=HEADERS) as answer:
                await answer.read()
                if answer.status != 200:
                    raise RuntimeError(str(answer.status))

        await _side_by_side(one, count, in_flight)


async def httpx(url: str, count: int, in_flight: int) -> None:
    library = importlib.import_module("httpx")

    limits = library.Limits(max_connections=in_flight, max_keepalive_connections=in_flight)
    async with library.AsyncClient(limits=limits, timeout=30, trust_env=False) as client:

        async def one() -> None:
            (await client.post(url, content=BODY, headers=HEADERS)).raise_for_status()

        await _side_by_side(one, count, in_flight)


async def _side_by_side(one: Callable[[], Awaitable[None]], count: int, in_flight: int) -> None:
    left = iter(range(count))

    async def lane() -> None:
        for _ in left:
            await one()

    await asyncio.gather(*(lane() for _ in range(in_flight)))


class Client(NamedTuple):
    """A row of the table; slow ones send fewer requests a round."""

    name: str
    library: str
    round: Round
    in_flight: int
    share: float


CLIENTS = (
    Client("firer", "worker", firer, 256, 1.0),
    Client("aiohttp", "aiohttp", aiohttp, 256, 0.2),
    Client("httpx", "httpx", httpx, 64, 0.02),
)


def measure(client: Client, url: str, count: int) -> Measured:
    count = max(1, int(count * client.share))
    started, cpu = time.perf_counter(), time.process_time()
    uvloop.run(client.round(url, count, client.in_flight))  # type: ignore[arg-type]
    elapsed, cpu = time.perf_counter() - started, time.process_time() - cpu
    return Measured(count / elapsed, cpu / count * 1e6)


def table(url: str, count: int, rounds: int) -> None:
    clients = [client for client in CLIENTS if importlib.util.find_spec(client.library)]
    for client in CLIENTS:
        if client not in clients:
            print(f"{client.name}: not installed, left out")
    results: dict[str, list[Measured]] = {client.name: [] for client in clients}
    for _ in range(rounds):
        for client in clients:
            results[client.name].append(measure(client, url, count))
    _print_table(clients, results)


def _print_table(clients: list[Client], results: dict[str, list[Measured]]) -> None:
    first = statistics.median(m.per_second for m in results[clients[0].name])
    print(f"{'client':10} {'in flight':>9} {'requests/s':>20} {'CPU each, us':>16} {'ratio':>6}")
    for client in clients:
        speeds = [m.per_second for m in results[client.name]]
        cpu = [m.cpu_us for m in results[client.name]]
        middle = statistics.median(speeds)
        spread = f"{middle:,.0f} ({min(speeds):,.0f}-{max(speeds):,.0f})"
        used = f"{statistics.median(cpu):.1f} ({min(cpu):.1f}-{max(cpu):.1f})"
        print(
            f"{client.name:10} {client.in_flight:9} {spread:>20} {used:>16} {middle / first:6.2f}"
        )
        warn_of_noise([each._asdict() for each in results[client.name]], client.name)


def profile(url: str, count: int) -> None:
    profiler = cProfile.Profile()
    profiler.enable()
    uvloop.run(firer(url, count, 256))
    profiler.disable()
    pstats.Stats(profiler).sort_stats("tottime").print_stats(25)


def main() -> None:
    options = argparse.ArgumentParser(description=re.split(r"\n\n", __doc__ or "")[0])
    options.add_argument("--count", type=int, default=100_000, help="requests a round, ours")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--url", help="fire at this instead of a target of our own")
    options.add_argument("--profile", action="store_true")
    chosen = options.parse_args()
    with contextlib.ExitStack() as stack:
        url = chosen.url or stack.enter_context(stage.target()).url
        if chosen.profile:
            profile(url, chosen.count)
        else:
            table(url, chosen.count, chosen.rounds)


if __name__ == "__main__":
    main()
