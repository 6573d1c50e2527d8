"""Turns measurements into figures, numbers of processes and text. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

import msgspec

from cli.bench.rounds import PROCESSES, Measurement, Round

# How full a process may be: above it requests are late, or wait.
FULL = 0.7
# Of all cores, or of one: from here on it is that which held up all else.
_SATURATED = 0.85
_NAMES = {"client": "the client", "api": "the API", "store": "the store", "worker": "the worker"}


class Figure(msgspec.Struct, frozen=True):
    """The median of the rounds, and their least and most."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Figure:
        found = sorted(values)
        return cls(statistics.median(found), found[0], found[-1])


class Carried(msgspec.Struct, frozen=True, rename="camel"):
    """How many a second, CPU time of each by process (0: unknown here), the part of a core that
    each process had, and the bottleneck: a process, "machine" where these had all cores, or
    "waiting"."""

    per_second: Figure
    cpu_us_each: dict[str, float]
    core_share: dict[str, float]
    saturated: str


class Punctual(msgspec.Struct, frozen=True, rename="camel"):
    per_second: float
    p50_ms: Figure
    p99_ms: Figure


class Needed(msgspec.Struct, frozen=True, rename="camel"):
    """For a rate: processes with a core of their own, each at most `FULL`."""

    per_second: float
    api_processes: int
    workers: int
    store_cores: float


class SizingReport(msgspec.Struct, frozen=True, rename="camel"):
    """As `--json` prints them."""

    rounds: int
    cores: int
    accept: Carried
    fire: Carried
    lateness: Punctual
    waiting_bytes_each: Figure
    needed: Needed


def findings(done: Sequence[Round], cores: int, rate: float) -> SizingReport:
    accept = _carried([each.accept for each in done], cores)
    fire = _carried([each.fire for each in done], cores)
    return SizingReport(
        len(done),
        cores,
        accept,
        fire,
        Punctual(
            done[0].lateness.per_second,
            Figure.of(each.lateness.p50_ms for each in done),
            Figure.of(each.lateness.p99_ms for each in done),
        ),
        Figure.of(each.bytes_each for each in done),
        needed(accept, fire, rate),
    )


def needed(accept: Carried, fire: Carried, rate: float) -> Needed:
    """For as many accepted a second as are fired. It divides CPU times where they are known: on a
    machine that all processes share, rates are too low."""
    return Needed(
        rate,
        math.ceil(rate / FULL / alone(accept, "api")),
        math.ceil(rate / FULL / alone(fire, "worker")),
        rate * (accept.cpu_us_each["store"] + fire.cpu_us_each["store"]) / 1e6 / FULL,
    )


def alone(carried: Carried, process: str) -> float:
    """How many a second this process would do with a core of its own."""
    each_us = carried.cpu_us_each[process]
    return 1e6 / each_us if each_us else carried.per_second.median


def _carried(parts: Sequence[Measurement], cores: int) -> Carried:
    busy = {name: statistics.median(p.busy[name] for p in parts) for name in PROCESSES}
    return Carried(
        Figure.of(p.per_second for p in parts),
        {name: statistics.median(p.each_us[name] for p in parts) for name in PROCESSES},
        busy,
        _saturated(busy, cores),
    )


def _saturated(busy: dict[str, float], cores: int) -> str:
    busiest = max(busy, key=lambda name: busy[name])
    if busy[busiest] >= _SATURATED:
        return busiest
    return "machine" if sum(busy.values()) >= _SATURATED * cores else "waiting"


def as_text(found: SizingReport) -> str:
    late, each, need = found.lateness.p99_ms, found.waiting_bytes_each, found.needed
    million_mib = each.median * 1_000_000 / 2**20
    nodes = math.ceil(need.store_cores)
    cluster = f" A server has one for its commands: a cluster of {nodes} nodes." * (nodes > 1)
    return f"""\
Medians of {found.rounds} rounds, and between what these lay.

accepted   {_rate(found.accept.per_second)}
           {_costs(found.accept, "client", "api", "store")}
           {_bottleneck(found.accept, found.cores)}
fired      {_rate(found.fire.per_second)}
           {_costs(found.fire, "worker", "store", "client")}
           {_bottleneck(found.fire, found.cores)}
late       p50 {found.lateness.p50_ms.median:.1f} ms, p99 {late.median:.1f} ms \
({late.least:.1f} to {late.most:.1f}), at {found.lateness.per_second:.0f} a second
memory     {each.median:,.0f} bytes for each that waits: {million_mib:,.0f} MiB a million

With a core each an API process accepts {alone(found.accept, "api"):,.0f} a second, and a worker \
fires {alone(found.fire, "worker"):,.0f}.
For {need.per_second:,.0f} a second, accepted and fired, at {100 * FULL:.0f} % of each core: \
API processes: {need.api_processes:,}, workers: {need.workers:,}, cores of the store: \
{need.store_cores:.2f}.{cluster}"""


def _rate(figure: Figure) -> str:
    return f"{figure.median:,.0f} a second ({figure.least:,.0f} to {figure.most:,.0f})"


def _costs(carried: Carried, *names: str) -> str:
    costs = [
        f"{_NAMES[n]} {carried.cpu_us_each[n]:.0f} us" for n in names if carried.cpu_us_each[n]
    ]
    return "CPU each: " + ", ".join(costs)


def _bottleneck(carried: Carried, cores: int) -> str:
    busiest = max(carried.core_share, key=lambda name: carried.core_share[name])
    share = f"{_NAMES[busiest]} had {100 * carried.core_share[busiest]:.0f} % of a core"
    what = {
        "machine": f"the machine, whose {cores} cores were all in use",
        "waiting": "none, all waited for one another, the disk or other programs",
    }
    return f"saturated first: {what.get(carried.saturated, _NAMES[busiest])}; {share}"
