"""How much do lanes delay schedules in no lane, or in another one?

    python -m benchmarks.lane_costs [free idle waiting held] [--seconds 30] [--rounds 3]
                                    [--throttled 50000] [--lanes 10000] [--waiting 1000000]

free      lateness in a lane without limits, alone and beside 200 lanes of one account with
          `--throttled` due, of which each starts one in 10 s, 50 ms after the lane before it: all
          at once would be a burst of 200, which delays others without lanes as well
idle      the part of a core that store and worker take, without lanes and with `--lanes` set
waiting   latency of create, list and GET without and with `--waiting` due in a paused lane of the
          same account, call for call in turn; how soon after its resume the first one starts
held      what the store takes for a page of 100 due schedules in 100 lanes, each of 100, and how
          much more to say what holds each: by its own count of commands, and of CPU time

Each starts servers of its own. All run on one machine, so there is one clock.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from benchmarks.lanes import limit
from benchmarks.lateness import arrivals_ms
from benchmarks.support import stage
from benchmarks.support.beside import LEAD_MS, Ask, connected, lateness_of, schedule_paced
from benchmarks.support.payload import new_account, request, schedule_all
from benchmarks.support.rounds import warn_of_noise
from scheduler.lane_settings import LaneSettings, Pause
from scheduler.models import Request
from scheduler.store import Store
from scheduler.store.queries.listing import Selection

THROTTLED_LANES, FREE_RATE = 200, 100
_EVERY_MS = 10_000  # in which each throttled lane may start one
_CALLS = 200
_FAR_MS = 30 * 86_400_000
_PAGE = 100
_URL = "https://example.com/hook"


def free(options: argparse.Namespace) -> None:
    """Without and with the throttled lanes, in turn."""
    ratios = []
    for number in range(1, options.rounds + 1):
        alone, beside = (_free(options, throttled) for throttled in (0, options.throttled))
        ratios.append(beside / alone)
        print(
            f"free lane, round {number}: p99 {alone:.2f} ms alone, {beside:.2f} ms beside "
            f"{THROTTLED_LANES} lanes with {options.throttled} due",
            flush=True,
        )
    print(f"median of the ratios {statistics.median(ratios):.2f} (at most 1.10)")
    warn_of_noise([{"ratio": each} for each in ratios])


def _free(options: argparse.Namespace, throttled: int) -> float:
    def plan(ask: Ask, url: str, other: str) -> dict[str, int]:
        due: dict[str, int] = ask(lambda store: _beside(store, url, other, throttled, options))
        return due

    return lateness_of(plan).p99


async def _beside(
    store: Store, url: str, other: str, throttled: int, options: argparse.Namespace
) -> dict[str, int]:
    """Returns triggerAt (ms) of those in the free lane, by id."""
    account_id = (await new_account(store, "lanes")).account_id
    begin_ms = 0
    if throttled:
        lanes = [f"throttled-{n}" for n in range(THROTTLED_LANES)]
        for lane in lanes:
            await limit(store, account_id, lane, rate=1, per_ms=_EVERY_MS)
        begin_ms = store.clock.now_ms() + LEAD_MS
        turns = range(begin_ms, begin_ms + _EVERY_MS, _EVERY_MS // THROTTLED_LANES)
        fillers = [request(other, at_ms, lane) for at_ms, lane in zip(turns, lanes, strict=True)]
        await schedule_all(store, account_id, (fillers * (throttled // len(lanes) + 1))[:throttled])
        begin_ms += _EVERY_MS  # by then something of each is due
    count = FREE_RATE * options.seconds
    begin_ms = max(begin_ms, store.clock.now_ms()) + LEAD_MS + count
    moments = range(begin_ms, begin_ms + 1000 * options.seconds)
    return await schedule_paced(
        store, account_id, lambda ms: request(url, ms, "free"), FREE_RATE, moments
    )


def idle(options: argparse.Namespace) -> None:
    for number in range(1, options.rounds + 1):
        with (
            stage.valkey() as server,
            stage.worker(server.url) as worker,
            connected(server.url) as ask,
        ):
            account_id = ask(lambda store: new_account(store, "lanes")).account_id
            shares = [cpu_shares([server, worker], options.seconds)]
            ask(lambda store, owner=account_id: _set_many(store, owner, options.lanes))
            shares.append(cpu_shares([server, worker], options.seconds))
        (store_0, worker_0), (store_n, worker_n) = shares
        print(
            f"idle, round {number}, without lanes and with {options.lanes} set: store "
            f"{store_0:.2%} and {store_n:.2%} of a core, worker {worker_0:.2%} and {worker_n:.2%}",
            flush=True,
        )


async def _set_many(store: Store, account_id: str, count: int) -> None:
    for n in range(count):
        await limit(store, account_id, f"lane-{n}", rate=100, per_ms=1000, parallelism=5)


def cpu_shares(processes: list[stage.Running], seconds: float) -> list[float]:
    """The part of a core that each takes, after a rest."""
    time.sleep(2.0)
    before = [each.cpu_s() for each in processes]
    time.sleep(seconds)
    return [(each.cpu_s() - was) / seconds for each, was in zip(processes, before, strict=True)]


class Caller:
    """One kept connection to an API."""

    def __init__(self, url: str, key: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc)
        self._key = key

    def call(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        text = None if body is None else json.dumps(body)
        self._connection.request(method, path, text, {"x-api-key": self._key})
        answer = self._connection.getresponse()
        found = answer.read()
        if answer.status >= 300:
            raise SystemExit(f"{method} {path} was answered {answer.status}: {found.decode()}")
        return dict(json.loads(found))


def waiting(options: argparse.Namespace) -> None:
    with contextlib.ExitStack() as stack:
        log = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pd-bench-"))) / "log"
        callers, stores = [], [stack.enter_context(stage.valkey()) for _ in range(2)]
        ended = contextlib.ExitStack()
        url = ended.enter_context(stage.logging_target(log)).url
        stack.push(ended)
        for store, count in zip(stores, (0, options.waiting), strict=True):
            api = stack.enter_context(stage.api(store.url))
            stack.enter_context(stage.worker(store.url, metrics_port=0))
            with connected(store.url) as ask:
                owner = ask(lambda store: new_account(store, "lanes")).account_id
                key = ask(lambda store, owner=owner: store.api_keys.create(owner, "lanes"))[1]
                callers.append(Caller(api.url, key))
                callers[-1].call("PUT", "/lanes/paused", {"rate": 100, "per": "1s"})
                callers[-1].call("PATCH", "/lanes/paused", {"paused": True})
                ask(lambda store, owner=owner, count=count: _fill(store, owner, url, count))
        _compare(callers, options)
        resumed_ns = time.time_ns()
        callers[-1].call("PATCH", "/lanes/paused", {"paused": False})
        time.sleep(2)
        ended.close()
        first_ms = min(arrivals_ms(log).values(), default=float("inf"))
        print(f"the first one starts {first_ms - resumed_ns / 1e6:.1f} ms after the resume is sent")


async def _fill(store: Store, account_id: str, url: str, count: int) -> None:
    due = request(url, store.clock.now_ms(), "paused")
    for start in range(0, count, 1000):
        some: list[Request] = [due] * min(1000, count - start)
        await store.schedules.create_all(account_id, some)


def _compare(callers: list[Caller], options: argparse.Namespace) -> None:
    """The same call to both, in turn; the first is the one where nothing waits."""
    far = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + _FAR_MS / 1000))
    body = {"targetUrl": "https://example.com/hook", "triggerAt": far}
    ids = [caller.call("POST", "/schedule", body)["scheduleId"] for caller in callers]
    calls: dict[str, Callable[[int], tuple[str, str, object]]] = {
        "create": lambda _: ("POST", "/schedule", body),
        "list": lambda _: ("GET", "/schedule?limit=50", None),
        "GET": lambda place: ("GET", f"/schedule/{ids[place]}", None),
        "GET of the lane": lambda _: ("GET", "/lanes/paused", None),
    }
    for name, of in calls.items():
        rounds = [_in_turn(callers, of) for _ in range(options.rounds)]
        (p50, p99), (p50_n, p99_n) = (
            [statistics.median(each[place][cut] for each in rounds) for cut in (49, 98)]
            for place in range(2)
        )
        print(
            f"{name}: p50 {p50:.2f} ms, p99 {p99:.2f} ms with nothing waiting; {p50_n:.2f} and "
            f"{p99_n:.2f} with {options.waiting} in a paused lane",
            flush=True,
        )


def _in_turn(
    callers: list[Caller], of: Callable[[int], tuple[str, str, object]]
) -> list[list[float]]:
    """Of each caller the percentiles (ms)."""
    took: list[list[float]] = [[] for _ in callers]
    for _ in range(_CALLS):
        for place, caller in enumerate(callers):
            began_s = time.perf_counter()
            caller.call(*of(place))
            took[place].append((time.perf_counter() - began_s) * 1000)
    return [statistics.quantiles(each, n=100, method="inclusive") for each in took]


def held(options: argparse.Namespace) -> None:
    """Pages without and with it, in turn."""
    settings = {
        "no settings": None,
        "rate and parallelism": LaneSettings(rate=1, per_ms=86_400_000, parallelism=1),
        "a pause": LaneSettings(pause=Pause("benchmark")),
    }
    with stage.valkey() as server, connected(server.url) as ask:
        for name, limits in settings.items():
            owner = ask(lambda store, name=name: new_account(store, name)).account_id
            ask(lambda store, owner=owner, limits=limits: _fill_lanes(store, owner, limits))
            plain, told = ask(lambda store, owner=owner: _spent_on(store, owner, options.rounds))
            print(
                f"held, lanes with {name}: {plain.commands:.0f} us of commands, {plain.cpu:.0f} us "
                f"of CPU a page; {told.commands:.0f} and {told.cpu:.0f} us more with heldBy",
                flush=True,
            )


async def _fill_lanes(store: Store, account_id: str, limits: LaneSettings | None) -> None:
    now_ms = store.clock.now_ms()
    for n in range(_PAGE):
        lane = f"lane-{n}"
        await schedule_all(
            store, account_id, (request(_URL, now_ms - k * _PAGE - n, lane) for k in range(_PAGE))
        )
        if limits is not None:
            await store.lanes.change(account_id, lane, lambda _: limits)


class Spent(NamedTuple):
    """The store's time (us) for one page."""

    commands: float
    cpu: float


async def _spent_on(store: Store, account_id: str, rounds: int) -> tuple[Spent, Spent]:
    """Of a page, and of saying what holds its schedules: the medians of rounds."""
    page = await store.unended.page(account_id, Selection(limit=_PAGE))
    found: tuple[list[Spent], list[Spent]] = ([], [])
    for _ in range(rounds):
        for place, spent in enumerate(found):
            before = await _used_us(store)
            for _ in range(_CALLS):
                if place:
                    await store.holders.told(account_id, page.schedules)
                else:
                    await store.unended.page(account_id, Selection(limit=_PAGE))
            after = await _used_us(store)
            used = ((b - a) / _CALLS for a, b in zip(before, after, strict=True))
            spent.append(Spent(*used))
    plain, told = (Spent(*map(statistics.median, zip(*each, strict=True))) for each in found)
    return plain, told


async def _used_us(store: Store) -> Spent:
    """By all commands but INFO, and by the server."""
    commands, cpu = await store.server.info("commandstats"), await store.server.info("cpu")
    counts = (
        each.partition("usec=")[2].partition(",")[0]
        for name, each in commands.items()
        if name != "cmdstat_info"
    )
    seconds = (float(cpu[f"used_cpu_{each}"]) for each in ("user", "sys"))
    return Spent(sum(map(float, counts)), 1e6 * sum(seconds))


PARTS = {each.__name__: each for each in (free, idle, waiting, held)}


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures what lanes cost others.")
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="by default all")
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--throttled", type=int, default=50_000)
    parser.add_argument("--lanes", type=int, default=10_000)
    parser.add_argument("--waiting", type=int, default=1_000_000)
    options = parser.parse_args()
    for part in options.parts or PARTS:
        PARTS[part](options)


if __name__ == "__main__":
    main()
