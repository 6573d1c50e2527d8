"""When a rule's occurrences are due: its slots, in milliseconds since the epoch. Pure."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import tzinfo
from functools import lru_cache
from itertools import islice, takewhile
from typing import TypeVar

import msgspec

from scheduler.durations import format_duration
from scheduler.errors import FieldError, InvalidRequest, Unreadable
from scheduler.recurrence import cron as crons
from scheduler.recurrence import zones
from scheduler.recurrence.cron_counts import count
from scheduler.recurrence.cron_refusals import NEVER
from scheduler.recurrence.cron_words import described
from scheduler.times import are_moments, format_iso8601

T = TypeVar("T")
TZDATA_VERSION = zones.VERSION
SHORTEST_EVERY_MS, LONGEST_EVERY_MS = 1000, 366 * 86_400_000
MOST_MISSED = 10_000

_MINUTE_MS = 60_000
# Searches that may cross decades: one at a time, so that they take turns with the event loop.
_searches = ThreadPoolExecutor(1, thread_name_prefix="recurrence")


class Timing(msgspec.Struct, array_like=True, frozen=True):
    """By `cron` on the clock of `zone`, or each `every_ms` from `anchor_ms` on: one of the two; and
    so much later each time as `delay_ms` says, which only QStash's calls set."""

    cron: str | None = None
    every_ms: int | None = None
    zone: str = "UTC"
    starts_at_ms: int | None = None
    ends_at_ms: int | None = None
    expires_after_ms: int | None = None
    anchor_ms: int = 0
    delay_ms: int = 0

    @property
    def times(self) -> Timing:
        """All that its slots follow from, but for their end: an interval knows no time zone."""
        others = {"ends_at_ms": None, "expires_after_ms": None}
        if self.cron is None:
            return msgspec.structs.replace(self, **others, zone="UTC")
        return msgspec.structs.replace(self, **others, anchor_ms=0)


class Missed(msgspec.Struct, frozen=True):
    """So many slots, and the first of them. By cron, a `count` of `MOST_MISSED` means at least so
    many."""

    first_ms: int | None
    count: int

    def __add__(self, later: Missed) -> Missed:
        first_ms = later.first_ms if self.first_ms is None else self.first_ms
        return Missed(first_ms, self.count + later.count)


NONE_MISSED = Missed(None, 0)


def faults(timing: Timing) -> list[FieldError]:
    """Of its fields: cron, every, timeZone, endsAt. It does not search: `first_slot` does."""
    found = []
    if (timing.cron is None) == (timing.every_ms is None):
        found.append(FieldError("cron", "Exactly one of cron and every is needed."))
    if timing.cron is not None:
        try:
            crons.normalised(timing.cron)
        except ValueError as error:
            found.append(FieldError("cron", str(error)))
    every_ms, starts_at_ms, ends_at_ms = timing.every_ms, timing.starts_at_ms, timing.ends_at_ms
    if every_ms is not None and not SHORTEST_EVERY_MS <= every_ms <= LONGEST_EVERY_MS:
        found.append(FieldError("every", "It must be from 1s to 366d."))
    if zones.zone_named(timing.zone) is None:
        found.append(FieldError("timeZone", zones.why_no_zone(timing.zone)))
    if starts_at_ms is not None and ends_at_ms is not None and ends_at_ms < starts_at_ms:
        found.append(FieldError("endsAt", "It must not be before startsAt."))
    return found


def checked(timing: Timing) -> Timing:
    """The same, its cron normalised. Raises InvalidRequest with its `faults`."""
    if found := faults(timing):
        raise InvalidRequest(found)
    if timing.cron is None:
        return timing
    return msgspec.structs.replace(timing, cron=crons.normalised(timing.cron))


async def first_slot(timing: Timing, now_ms: int) -> int:
    """The first after now. Raises InvalidRequest, which names cron or endsAt, if there is none."""
    first_ms = await following(msgspec.structs.replace(timing, ends_at_ms=None), now_ms)
    if first_ms is None:
        raise _invalid("every" if timing.cron is None else "cron", NEVER)
    if timing.ends_at_ms is not None and timing.ends_at_ms < first_ms:
        raise _invalid("endsAt", f"It is before the first time, {format_iso8601(first_ms)}.")
    return first_ms


def _invalid(field: str, message: str) -> InvalidRequest:
    return InvalidRequest([FieldError(field, message)])


def next_slot(timing: Timing, after_ms: int) -> int | None:
    """The first slot after `after_ms`, from `startsAt` to `endsAt`; None if none is left, or comes
    within 50 years. Blocking: up to 20 ms if it `may_take_long`. Raises Unreadable for a time zone
    that only another tzdata has."""
    after_ms = _not_before_start(timing, after_ms)
    if timing.cron is None:
        slot_ms: int | None = _next_interval(timing, after_ms)
    else:
        slot_ms = _next_time(timing.cron, timing.zone, _minute(timing, after_ms))
        slot_ms = None if slot_ms is None else slot_ms + timing.delay_ms
    return slot_ms if slot_ms is not None and _is_within(timing, slot_ms) else None


@lru_cache(maxsize=4096)  # 2 MB at most; rules that are due together mostly share their answer
def _next_time(cron: str, zone: str, after_minute: int) -> int | None:
    return next(iter(_times(cron, zone, after_minute)), None)


@lru_cache(maxsize=1024)  # rules that an outage held up together share their answer as well
def _count(cron: str, zone: str, after_minute: int, until_minute: int) -> int:
    return count(cron, _zone_named(zone), after_minute, until_minute, MOST_MISSED)


def upcoming(timing: Timing, after_ms: int, most: int) -> list[int]:
    """The next slots, at most so many. Blocking, as `next_slot` for each."""
    after_ms = _not_before_start(timing, after_ms)
    slots: Iterable[int]
    if timing.cron is None:
        slots = range(_next_interval(timing, after_ms), 2**63, timing.every_ms or 1)
    else:
        times = _times(timing.cron, timing.zone, _minute(timing, after_ms))
        slots = (time_ms + timing.delay_ms for time_ms in times)
    return list(islice(takewhile(lambda slot_ms: _is_within(timing, slot_ms), slots), most))


async def following(timing: Timing, after_ms: int) -> int | None:
    """`next_slot`, off the event loop if it may take long."""
    return await _searched(timing, next_slot, timing, after_ms)


async def soon(timing: Timing, after_ms: int, most: int) -> list[int]:
    """`upcoming`, off the event loop if it may take long."""
    return await _searched(timing, upcoming, timing, after_ms, most)


async def missed_between(timing: Timing, slot_ms: int, until_ms: int) -> Missed:
    """The slots after `slot_ms` and before `until_ms`."""
    last_ms = until_ms - 1 if timing.ends_at_ms is None else min(timing.ends_at_ms, until_ms - 1)
    within = msgspec.structs.replace(timing, ends_at_ms=last_ms)
    first_ms = await following(within, slot_ms)
    if first_ms is None:
        return NONE_MISSED
    if timing.cron is None:
        return Missed(first_ms, (last_ms - first_ms) // (timing.every_ms or 1) + 1)
    from_minute = _minute(timing, _not_before_start(timing, slot_ms))
    what = (timing.cron, timing.zone, from_minute, _minute(timing, last_ms))
    return Missed(first_ms, await _in_thread(_count, *what))


async def _searched(timing: Timing, function: Callable[..., T], *arguments: object) -> T:
    if timing.cron is not None and crons.may_take_long(timing.cron):
        return await _in_thread(function, *arguments)
    return function(*arguments)


async def _in_thread(function: Callable[..., T], *arguments: object) -> T:
    return await asyncio.get_running_loop().run_in_executor(_searches, function, *arguments)


def _not_before_start(timing: Timing, after_ms: int) -> int:
    return after_ms if timing.starts_at_ms is None else max(after_ms, timing.starts_at_ms - 1)


def _minute(timing: Timing, slot_ms: int) -> int:
    """The minute of the cron's clock that such a slot comes from, or the one before."""
    return (slot_ms - timing.delay_ms) // _MINUTE_MS


def _is_within(timing: Timing, slot_ms: int) -> bool:
    return are_moments(slot_ms) and (timing.ends_at_ms is None or slot_ms <= timing.ends_at_ms)


def _next_interval(timing: Timing, after_ms: int) -> int:
    every_ms = timing.every_ms or 1
    first_ms = timing.anchor_ms + timing.delay_ms
    passed = (after_ms - first_ms) // every_ms + 1
    return first_ms + max(passed, 0) * every_ms


def _times(cron: str, zone_name: str, after_minute: int) -> Iterable[int]:
    zone = _zone_named(zone_name)
    return (minute * _MINUTE_MS for minute in crons.times(cron, zone, after_minute))


def _zone_named(name: str) -> tzinfo:
    """Raises Unreadable."""
    zone = zones.zone_named(name)
    if zone is None:
        raise Unreadable(f"tzdata {TZDATA_VERSION} has no time zone {name}")
    return zone


def describe(timing: Timing) -> str:
    """`At 09:00 on weekdays, New York`; `Every 1h30m`; `Every hour, UTC, 10s later`."""
    later = f", {format_duration(timing.delay_ms)} later" if timing.delay_ms else ""
    if timing.cron is None:
        return f"Every {format_duration(timing.every_ms or 0)}{later}"
    place = timing.zone.rpartition("/")[2].replace("_", " ")
    return f"{described(timing.cron)}, {place}{later}"
