"""What the figures mean. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from cli.bench.rounds import PROCESSES, Round, Stretch

# How full a process is to be at most: what is above it comes late, or waits.
FULL = 0.7
# Of all cores, or of one: from here on it is that which held up all else.
_SATURATED = 0.85
MILLION = 1_000_000


class Figure(NamedTuple):
    """A median, and between what the rounds lay."""

    median: float
    least: float
    most: float

    @property
    def spread(self) -> float:
        return (self.most - self.least) / self.median if self.median else 0.0

    @classmethod
    def of(cls, values: Iterable[float]) -> Figure:
        found = sorted(values)
        return cls(statistics.median(found), found[0], found[-1])


class Carried(NamedTuple):
    """What was done a second, the CPU time each took by process (0: not known here), and what held
    it up: a process, "machine" where all cores were in use, or "waiting"."""

    per_second: Figure
    each_us: dict[str, float]
    busy: dict[str, float]
    others: float
    saturated: str


class Needed(NamedTuple):
    """For a rate, each process on a core of its own that is at most `FULL`."""

    rate: float
    apis: int
    workers: int
    store_cores: float


class Findings(NamedTuple):
    rounds: int
    cores: int
    accept: Carried
    fire: Carried
    lateness_rate: float
    p50_ms: Figure
    p99_ms: Figure
    bytes_each: Figure
    needed: Needed

    @property
    def noise(self) -> list[str]:
        """What is to be said before anybody believes them."""
        told = []
        others = max(self.accept.others, self.fire.others)
        if others > 0.1 * self.cores:
            told.append(
                f"Other programs, or other guests of this machine, used {others:.1f} of its"
                f" {self.cores} cores meanwhile: an idle one does better."
            )
        spread = max(self.accept.per_second.spread, self.fire.per_second.spread)
        if spread > 0.3:
            told.append(f"The rounds differ by {100 * spread:.0f} %: compare ratios, not rates.")
        return told


def findings(done: Sequence[Round], cores: int, rate: float) -> Findings:
    accept = _carried([each.accept for each in done], cores)
    fire = _carried([each.fire for each in done], cores)
    return Findings(
        len(done),
        cores,
        accept,
        fire,
        done[0].lateness.per_second,
        Figure.of(each.lateness.p50_ms for each in done),
        Figure.of(each.lateness.p99_ms for each in done),
        Figure.of(each.bytes_each for each in done),
        needed(accept, fire, rate),
    )


def needed(accept: Carried, fire: Carried, rate: float) -> Needed:
    """For as many accepted a second as are fired. CPU where it is known: rates of a machine that is
    shared by all processes are too low for one that is not."""
    return Needed(
        rate,
        math.ceil(rate / FULL / alone(accept, "api")),
        math.ceil(rate / FULL / alone(fire, "worker")),
        rate * (accept.each_us["store"] + fire.each_us["store"]) / 1e6 / FULL,
    )


def alone(carried: Carried, process: str) -> float:
    """How many a second such a process would do with a core of its own."""
    each_us = carried.each_us[process]
    return 1e6 / each_us if each_us else carried.per_second.median


def _carried(parts: Sequence[Stretch], cores: int) -> Carried:
    busy = {name: statistics.median(p.busy[name] for p in parts) for name in PROCESSES}
    others = statistics.median(p.others for p in parts)
    return Carried(
        Figure.of(p.per_second for p in parts),
        {name: statistics.median(p.each_us[name] for p in parts) for name in PROCESSES},
        busy,
        others,
        _saturated(busy, others, cores),
    )


def _saturated(busy: dict[str, float], others: float, cores: int) -> str:
    busiest = max(busy, key=lambda name: busy[name])
    if busy[busiest] >= _SATURATED:
        return busiest
    return "machine" if sum(busy.values()) + others >= _SATURATED * cores else "waiting"
