"""The rounds: accept, fire, be punctual, and again. They are short and interleaved, because a
machine drifts: compared figures are measured within seconds."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import AsyncIterator
from itertools import cycle
from typing import NamedTuple

from cli.bench.load import creating, load, stored_request
from cli.bench.stage import Setup
from scheduler.errors import PostdateError
from scheduler.times import parse_iso8601

ROUNDS = 5
PROCESSES = ("client", "api", "store", "worker")
_ACCEPT_SHARE, _FIRE_SHARE, _LATENESS_SHARE = 0.4, 0.3, 0.3
_FAR_MS = 30 * 86_400_000
_POLL_S = 0.02
_LEAST = 100
_MOST_FIRED = 20_000
_STORED_AT_ONCE = 1000
# Lateness is measured at a rate that leaves the worker idle most of the time.
_EASY = 0.2
_PUNCTUAL_RATES = (20, 500)
_TRIES = 3


class Measurement(NamedTuple):
    """A part of a round: how many a second, CPU time of each (us) by process, and the part of a
    core that each process had (a store's servers: one of them)."""

    per_second: float
    each_us: dict[str, float]
    busy: dict[str, float]


class Lateness(NamedTuple):
    per_second: float
    p50_ms: float
    p99_ms: float


class Round(NamedTuple):
    accept: Measurement
    bytes_each: float
    fire: Measurement
    lateness: Lateness


async def rounds(stage: Setup, seconds: float) -> AsyncIterator[Round]:
    """Yields each round as it is done; the first one warms up before.

    `seconds` are for all rounds; storing the schedules comes on top. Raises PostdateError if
    a process dies or refuses its work.
    """
    pids = stage.api.pid, stage.worker.pid
    each_s = seconds / ROUNDS
    warm, _ = await _accept(stage, min(0.5, each_s))
    wanted = int(warm.per_second * each_s * _FIRE_SHARE)
    count = min(max(wanted, _LEAST), _MOST_FIRED)
    fired = await _fire(stage, _LEAST)
    for _ in range(ROUNDS):
        accept, bytes_each = await _accept(stage, each_s * _ACCEPT_SHARE)
        fired = await _fire(stage, count)
        late = await _be_punctual(stage, fired.per_second, each_s * _LATENESS_SHARE)
        if (stage.api.pid, stage.worker.pid) != pids:
            raise PostdateError("A process of the bench died while it was measured.")
        yield Round(accept, bytes_each, fired, late)


async def _accept(stage: Setup, seconds: float) -> tuple[Measurement, float]:
    """Also returns the memory that each of them takes while it waits."""
    due_ms = stage.store.clock.now_ms() + _FAR_MS
    before = await stage.store.system.spent()
    began = await stage.cpu_s()
    requests = [creating(key, due_ms) for key in stage.keys]
    accepted, took_s = await load(stage.port, requests, seconds)
    ended = await stage.cpu_s()
    after = await stage.store.system.spent()
    grown_bytes = after.used_bytes - before.used_bytes
    stretch = _stretch(stage, began, ended, accepted, took_s)
    return stretch, grown_bytes / accepted


async def _fire(stage: Setup, count: int) -> Measurement:
    """A backlog: stored on hold, all due, then released. Timed between first and last arrival."""
    await stage.store.hold.begin()
    now_ms = stage.store.clock.now_ms()
    await _store_all(stage, [now_ms] * count)
    stage.target.expect(count)
    began = await stage.cpu_s()
    await stage.store.hold.end()
    arrivals = await stage.target.all_came()
    await _recorded(stage)
    ended = await stage.cpu_s()
    took_s = (arrivals[-1][0] - arrivals[0][0]) / 1e9
    return _stretch(stage, began, ended, count, took_s)


async def _be_punctual(stage: Setup, fires_per_second: float, seconds: float) -> Lateness:
    """Evenly spread, at a rate that is easy."""
    least, most = _PUNCTUAL_RATES
    rate = min(most, max(least, int(fires_per_second * _EASY)))
    count = max(20, int(rate * seconds))
    ahead_ms = 300 + count
    for _ in range(_TRIES):
        begin_ms = stage.store.clock.now_ms() + ahead_ms
        stage.target.expect(count)
        await _store_all(stage, [begin_ms + n * 1000 // rate for n in range(count)])
        in_time = stage.store.clock.now_ms() < begin_ms
        arrivals = await stage.target.all_came()
        await _recorded(stage)
        if in_time:
            late = [at_ns / 1e6 - parse_iso8601(due.decode()) for at_ns, due in arrivals]
            p = statistics.quantiles(late, n=100, method="inclusive")
            return Lateness(rate, p[49], p[98])
        ahead_ms *= 3
    raise PostdateError("This machine is too busy to be measured: it stored too slowly.")


async def _store_all(stage: Setup, moments_ms: list[int]) -> None:
    """Writes to the store directly: the API is not part of this measurement."""
    create, accounts = stage.store.schedules.create, stage.firing
    for start in range(0, len(moments_ms), _STORED_AT_ONCE):
        some = zip(moments_ms[start : start + _STORED_AT_ONCE], cycle(accounts), strict=False)
        await asyncio.gather(
            *(create(account, stored_request(stage.target.url, ms)) for ms, account in some)
        )


async def _recorded(stage: Setup) -> None:
    """Returns once every outcome is in the store."""
    for account_id in stage.firing:
        while True:
            pulse = await stage.store.overview.pulse(account_id)
            if not pulse.waiting and not pulse.executing:
                break
            await asyncio.sleep(_POLL_S)


def _stretch(
    stage: Setup, began: dict[str, float], ended: dict[str, float], count: int, took_s: float
) -> Measurement:
    """CPU time is of the whole time between the two looks, the rate of `took_s` alone."""
    spent_s = {name: ended[name] - began[name] for name in PROCESSES}
    a_server_s = spent_s | {"store": spent_s["store"] / stage.measured.servers}
    return Measurement(
        count / took_s,
        {name: max(0.0, each_s) * 1e6 / count for name, each_s in spent_s.items()},
        {name: min(1.0, max(0.0, each_s) / took_s) for name, each_s in a_server_s.items()},
    )
