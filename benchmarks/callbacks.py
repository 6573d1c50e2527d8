"""Do failing callbacks delay a neighbour's schedules, and a flood of schedules callbacks? What does
a callback cost?

    python -m benchmarks.callbacks [refused hanging flood cost] [--seconds 30] [--rounds 3]
                                   [--failing 50000] [--flood 100000] [--rate 100]
                                   [--called 10000]

refused   `--failing` schedules of one account have ended, and their callbacks go to a port that
          refuses: how late `--rate` schedules a second of a neighbour are, in turn with rounds
          where as many ended without callbacks
hanging   the same with a target that accepts and does not answer within a callback's time limit
flood     how soon after its request each of `--rate` schedules a second is reported, alone and
          while `--flood` schedules of another account are due
cost      CPU of worker and store, and memory, for each of `--called` schedules that are due at one
          moment and whose callbacks are delivered at once, less those of as many without callbacks

All run on one machine, so there is one clock, and one worker.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from benchmarks.lateness import Lateness, arrivals_ms, lateness
from benchmarks.memory import used_bytes
from benchmarks.support import stage
from benchmarks.support.beside import (
    LEAD_MS,
    Ask,
    connected,
    lateness_of,
    schedule_paced,
    sleep_until,
)
from benchmarks.support.payload import executed, new_account, request
from benchmarks.support.rounds import warn_of_noise
from scheduler.callbacks import Callback
from scheduler.models import Request
from scheduler.store import Store, keys
from scheduler.store.callback_state import open_callback

_TIMEOUT_MS = 30_000  # of a callback
_AT_ONCE = 1000
_BEFORE_MS = 100


class Paced(NamedTuple):
    """The account whose schedules come at a steady rate, and when each is due (ms)."""

    account_id: str
    due: dict[str, int]


def refused(options: argparse.Namespace) -> None:
    _beside_failing(options, "refused", f"http://127.0.0.1:{stage.free_port()}/ended")


def hanging(options: argparse.Namespace) -> None:
    with stage.own_target("--answer-after-ms", str(2 * _TIMEOUT_MS)) as silent:
        _beside_failing(options, "hanging", silent.url)


def _beside_failing(options: argparse.Namespace, name: str, url: str) -> None:
    ratios = []
    for number in range(1, options.rounds + 1):
        # Each goes first in turn.
        urls = (None, url) if number % 2 else (url, None)
        found = {each: _neighbour(options, each) for each in urls}
        (alone, _), (beside, tried) = found[None], found[url]
        ratios.append({"p50": beside.p50 / alone.p50, "p99": beside.p99 / alone.p99})
        print(
            f"{name}, round {number}: lateness of the neighbour p50 {alone.p50:.2f} ms, p99 "
            f"{alone.p99:.2f} ms alone; {beside.p50:.2f} and {beside.p99:.2f} beside "
            f"{options.failing} failing callbacks, of which {tried} attempts were made meanwhile",
            flush=True,
        )
    _sum_up(ratios)


def _neighbour(options: argparse.Namespace, url: str | None) -> tuple[Lateness, int]:
    """How late its schedules were, and how many callbacks were attempted meanwhile."""
    tried = 0

    def plan(ask: Ask, target: str, other: str) -> dict[str, int]:
        nonlocal tried
        failing = ask(lambda store: _ended(store, other, url, options.failing))
        found: Paced = ask(lambda store: _paced(store, target, None, options))
        before = ask(lambda store: _attempts(store, failing))
        sleep_until(max(found.due.values()) + 2000)
        tried = ask(lambda store: _attempts(store, failing)) - before
        return found.due

    return lateness_of(plan), tried


async def _ended(store: Store, url: str, callback_url: str | None, count: int) -> str:
    """An account with so many schedules that have ended, and their callbacks."""
    account_id = (await new_account(store, "failing")).account_id
    await _fill(store, account_id, request(url, store.clock.now_ms()), count, callback_url)
    await executed(store, account_id)
    return account_id


async def _fill(
    store: Store, account_id: str, due: Request, count: int, callback_url: str | None = None
) -> None:
    if callback_url is not None:
        due = replace(due, callback=Callback(callback_url))
    for start in range(0, count, _AT_ONCE):
        await store.schedules.create_all(account_id, [due] * min(_AT_ONCE, count - start))


async def _attempts(store: Store, account_id: str) -> int:
    """How many attempts of an account's pending callbacks were made."""
    base = keys.account(account_id)
    schedules = await store.server.read("ZRANGE", base + keys.CALLBACKS, 0, -1)
    tried = 0
    for start in range(0, len(schedules), _AT_ONCE):
        some = [each.decode() for each in schedules[start : start + _AT_ONCE]]
        states = await store.server.reads(
            [("HGET", base + keys.SCHEDULE + each, "c") for each in some]
        )
        tried += sum(open_callback(each).attempts for each in states)
    return tried


async def _paced(
    store: Store, url: str, callback_url: str | None, options: argparse.Namespace, besides: int = 0
) -> Paced:
    """Begins when as many besides can have been stored as well."""
    account_id = (await new_account(store, "paced")).account_id
    count = options.rate * options.seconds
    begin_ms = store.clock.now_ms() + LEAD_MS + count + besides // 4
    callback = callback_url and Callback(callback_url)

    def make(due_ms: int) -> Request:
        return replace(request(url, due_ms), callback=callback or None)

    moments = range(begin_ms, begin_ms + 1000 * options.seconds)
    return Paced(account_id, await schedule_paced(store, account_id, make, options.rate, moments))


def flood(options: argparse.Namespace) -> None:
    ratios = []
    for number in range(1, options.rounds + 1):
        (alone, _), (beside, flood_s) = (_reported(options, each) for each in (0, options.flood))
        ratios.append({"p50": beside.p50 / alone.p50, "p99": beside.p99 / alone.p99})
        print(
            f"flood, round {number}: reported after p50 {alone.p50:.1f} ms, p99 {alone.p99:.1f} ms "
            f"alone; {beside.p50:.1f} and {beside.p99:.1f}, at most {beside.most:.1f}, beside "
            f"{options.flood} due schedules, which took {flood_s:.0f} s of {options.seconds}",
            flush=True,
        )
    _sum_up(ratios)


def _reported(options: argparse.Namespace, count: int) -> tuple[Lateness, float]:
    """How long after each paced schedule's request its callback came; how long a flood of so many,
    which is due as the first of them, took."""
    with tempfile.TemporaryDirectory(prefix="pd-bench-") as home:
        fired, reported = Path(home) / "fired", Path(home) / "reported"
        with (
            stage.valkey() as server,
            stage.logging_target(fired) as target,
            stage.logging_target(reported) as receiver,
            stage.target() as other,
            stage.worker(server.url),
            connected(server.url) as ask,
        ):
            crowd = ask(lambda store: new_account(store, "flood")).account_id
            paced = ask(lambda store: _paced(store, target.url, receiver.url, options, count))
            begin_ms = min(paced.due.values())
            ask(lambda store: _fill(store, crowd, request(other.url, begin_ms), count))
            if time.time() * 1000 > begin_ms:
                raise SystemExit("The flood was not stored in time; take a smaller one.")
            sleep_until(begin_ms)
            ask(lambda store: executed(store, crowd))
            took_s = time.time() - begin_ms / 1000
            sleep_until(max(paced.due.values()))
            stage.until(
                lambda: not ask(lambda store: _left(store, paced.account_id)), "all callbacks"
            )
        fired_ms = {each: int(ms) for each, ms in arrivals_ms(fired).items()}
        return lateness(arrivals_ms(reported), fired_ms), took_s


def cost(options: argparse.Namespace) -> None:
    rounds = []
    for number in range(1, options.rounds + 1):
        without, with_one = (_cost(options.called, is_called=each) for each in (False, True))
        more = {name: with_one[name] - without[name] for name in without}
        rounds.append(more)
        figures = ", ".join(f"{name} {value:.1f}" for name, value in more.items())
        print(f"cost, round {number}: a callback takes {figures}", flush=True)
    for name in rounds[0]:
        print(f"median: {name} {statistics.median(each[name] for each in rounds):.1f}")
    warn_of_noise(rounds)


def _cost(count: int, *, is_called: bool) -> dict[str, float]:
    """For each schedule."""
    with (
        stage.valkey() as server,
        stage.target() as target,
        stage.worker(server.url) as worker,
        connected(server.url) as ask,
    ):

        async def measured(store: Store) -> dict[str, float]:
            account_id = (await new_account(store, "called")).account_id
            before_bytes = await used_bytes(store)
            due_ms = store.clock.now_ms() + LEAD_MS + count // 4
            url = target.url if is_called else None
            await _fill(store, account_id, request(target.url, due_ms), count, url)
            await asyncio.sleep(max(0.0, due_ms - store.clock.now_ms() - _BEFORE_MS) / 1000)
            worker_s, store_s = worker.cpu_s(), server.cpu_s()
            while await _left(store, account_id):
                await asyncio.sleep(0.02)
            worker_s, store_s = worker.cpu_s() - worker_s, server.cpu_s() - store_s
            more_bytes = await used_bytes(store) - before_bytes
            return {
                "worker us": worker_s * 1e6 / count,
                "store us": store_s * 1e6 / count,
                "bytes": more_bytes / count,
            }

        found: dict[str, float] = ask(measured)
        return found


async def _left(store: Store, account_id: str) -> int:
    """How many of an account's schedules have not ended, or are not yet reported."""
    base = keys.account(account_id)
    sets = (keys.WAITING, keys.CALLBACKS)
    return sum([int(await store.server.read("ZCARD", base + name)) for name in sets])


def _sum_up(ratios: list[dict[str, float]]) -> None:
    for name in ("p50", "p99"):
        median = statistics.median(each[name] for each in ratios)
        print(f"median of the ratios of {name} {median:.2f}")
    warn_of_noise(ratios)


PARTS = {each.__name__: each for each in (refused, hanging, flood, cost)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="by default all")
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--failing", type=int, default=50_000)
    parser.add_argument("--flood", type=int, default=100_000)
    parser.add_argument("--rate", type=int, default=100)
    parser.add_argument("--called", type=int, default=10_000)
    options = parser.parse_args()
    for part in options.parts or PARTS:
        PARTS[part](options)


if __name__ == "__main__":
    main()
