"""The bounds of a day: what may grow, how far, and what must not. Pure.

A day has two equal peaks, so that like is compared with like: what a process holds may be most at a
peak, but no more from the second one on than up to the first. What the store holds is bounded by
what the load implies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from benchmarks.day.look import Hour
from benchmarks.day.plan import ACCOUNTS, Plan, peaks

MIB = 2**20
_GROWTH = 1.2
_RSS_SLACK, _DESCRIPTORS_SLACK = 16 * MIB, 32
# Of the store: no more than these for each, as `benchmarks.memory` says, with the room that growing
# tables take.
_SCHEDULE_BYTES, _ENTRY_BYTES = 480, 200
_USED_PART, _USED_SLACK = 1.15, 64 * MIB
_RSS_PART, _STORE_SLACK = 1.25, 256 * MIB
# The append-only file is rewritten when it has doubled.
_AOF_PART = 2.5
_LATE_PART, _LATE_SLACK_MS = 2, 5
_PART = 1.02
_SEVERAL = 1000
# Keys of one account: 256 indexes of URLs and some of statuses; a rule has one as well.
_INDEXES = 264
_LAZY_HOURS = 1  # expired keys may wait so long for their removal


class Bound(NamedTuple):
    """`value` is to be at most `most`."""

    name: str
    value: float
    most: float

    @property
    def holds(self) -> bool:
        return self.value <= self.most


def bounds(plan: Plan, hours: Sequence[Hour]) -> list[Bound]:
    """All of them, of a day's hours; the first of these was counted before the day began."""
    before, day = hours[0], hours[1:]
    first, second = peaks([each.rate for each in day])
    early, late = day[: first + 1], day[second:]
    found = [*_processes(early, late), *_bytes(hours), *_requests(day)]
    found.append(_entries(plan, before, day))
    found += [
        _keys(plan, kind, hours, early, late)
        for kind in sorted({kind for each in hours for kind in each.kinds})
    ]
    p99 = Bound(
        "p99 at the second peak, ms",
        day[second].p99_ms,
        _LATE_PART * day[first].p99_ms + _LATE_SLACK_MS,
    )
    return [*found, p99, Bound("earliest request, ms early", -min(e.least_ms for e in day), 0)]


def _processes(early: Sequence[Hour], late: Sequence[Hour]) -> Iterator[Bound]:
    """From the second peak on, against up to the first. (What the store holds is `_bytes`.)"""

    def compared(name: str, now: list[int], before: list[int], slack: int) -> Bound:
        return Bound(name, max(now), _GROWTH * max(before) + slack)

    for name in early[0].descriptors:
        now, before = ([each.descriptors[name] for each in some] for some in (late, early))
        yield compared(f"descriptors of the {name}", now, before, _DESCRIPTORS_SLACK)
    for name in ("API", "worker"):
        now, before = ([each.rss[name] for each in some] for some in (late, early))
        yield compared(f"RSS of the {name}", now, before, _RSS_SLACK)


def _bytes(hours: Sequence[Hour]) -> Iterator[Bound]:
    before = hours[0]

    def implied(each: Hour) -> float:
        """Bytes that the store may use for its schedules and log."""
        schedules = max(0, each.kinds["s"] - before.kinds["s"])
        entries = max(0, each.logged - before.logged)
        more = _SCHEDULE_BYTES * schedules + _ENTRY_BYTES * entries
        return _USED_PART * (before.used_bytes + more) + _USED_SLACK

    yield _worst("bytes that the store uses", hours, lambda e: e.used_bytes, implied)
    most = max(each.used_bytes for each in hours)
    rss = max(each.rss["store"] for each in hours)
    yield Bound("RSS of the store", rss, _RSS_PART * most + _STORE_SLACK)
    yield _worst(
        "bytes of the append-only file",
        hours,
        lambda e: e.aof_bytes,
        lambda e: _AOF_PART * e.aof_base_bytes + _STORE_SLACK,
    )


def _worst(
    name: str,
    hours: Sequence[Hour],
    of: Callable[[Hour], float],
    most: Callable[[Hour], float],
) -> Bound:
    """The hour that comes closest to its bound, or is furthest beyond."""
    worst = max(hours, key=lambda each: of(each) / most(each))
    return Bound(name, of(worst), most(worst))


def _requests(day: Sequence[Hour]) -> Iterator[Bound]:
    """All that was due came, and nothing twice but for retries. (How often the rules of every ten
    minutes are due depends on the moment of each step.)"""
    came = sum(count for each in day for kind, count in each.came.items() if kind != "burst")
    expected = sum(each.expected for each in day)
    attempts = came - sum(each.again for each in day)
    yield Bound("requests missing", expected - attempts, 0)
    yield Bound("requests too many", attempts - expected, 0)


def _entries(plan: Plan, before: Hour, day: Sequence[Hour]) -> Bound:
    """Those that were there are trimmed hour by hour, and an account has a most."""
    written, worst = 0.0, Bound("entries of the log", 0, 1)
    for number, each in enumerate(day, 1):
        written += _ended(each, day[number - 2] if number > 1 else before) + each.again
        left = before.logged * max(0.0, 1 - (number - 1 - _LAZY_HOURS) / plan.hours)
        most = min(ACCOUNTS * plan.log_most, left + written) * _PART + _SEVERAL
        now = Bound(worst.name, each.logged, most)
        worst = max(worst, now, key=lambda b: b.value / b.most)
    return worst


def _ended(each: Hour, before: Hour) -> int:
    return each.completed + each.failed - before.completed - before.failed + each.cancelled


def _keys(
    plan: Plan, kind: str, hours: Sequence[Hour], early: Sequence[Hour], late: Sequence[Hour]
) -> Bound:
    """Keys of one kind, in the hour that comes closest to its bound."""
    before, name = hours[0], f"keys {kind}"
    minutes = -(-plan.minute_ms // 60_000) + 1
    fixed = {
        "index": ACCOUNTS * _INDEXES + 2 * plan.rules,
        "once": sum(plan.due(hour, "single") for hour in range(plan.hours)),
        "minute": before.kinds.get("minute", 0) + ACCOUNTS * plan.hours * minutes,
        "hour": before.kinds.get("hour", 0) + ACCOUNTS * (plan.hours + 1),
        "day": before.kinds.get("day", 0) + ACCOUNTS * 2,
    }
    if kind == "s":
        most = _schedules(plan, hours)
        worst = max(range(len(hours)), key=lambda n: hours[n].kinds["s"] / most[n])
        return Bound(name, hours[worst].kinds["s"], most[worst])
    value = max(each.kinds.get(kind, 0) for each in late)
    usual = max(each.kinds.get(kind, 0) for each in (before, *early))
    return Bound(name, value, fixed.get(kind, usual + ACCOUNTS))


def _schedules(plan: Plan, hours: Sequence[Hour]) -> list[float]:
    """For each hour: what waits, and what has ended and is kept."""
    ended = [0, *(_ended(now, was) for was, now in pairwise(hours))]
    failed = [0, *(now.failed - was.failed for was, now in pairwise(hours))]

    def kept(counts: list[int], number: int, for_hours: int) -> int:
        return sum(counts[max(0, number - for_hours - _LAZY_HOURS) : number + 1])

    return [
        _PART
        * (
            each.waiting
            + kept(ended, number, plan.kept_hours)
            + kept(failed, number, plan.failed_hours)
        )
        + _SEVERAL
        for number, each in enumerate(hours)
    ]
