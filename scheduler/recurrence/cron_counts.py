"""How many times of a cron expression lie between two moments. Pure.

An outage leaves each rule with times that it has missed, and 10,000 take 0.1 s to walk through.
These steps are days: 0.1 ms after a day.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, tzinfo
from itertools import takewhile

from cronsim import CronSim

from scheduler.recurrence.cron import EPOCH, MINUTE, is_by_the_clock, next_change, offset_at, times

_DAY = timedelta(days=1)


def count(cron: str, zone: tzinfo, after_minute: int, until_minute: int, most: int) -> int:
    """Of the `times` of a normalised expression later than one minute and up to another, `most` at
    most. Where clocks change, it walks through the times of two days."""
    found, after, until = 0, EPOCH + after_minute * MINUTE, EPOCH + until_minute * MINUTE
    for begin, end, is_even in _stretches(cron, zone, after, until):
        if is_even:
            offset = offset_at(zone, end)
            found += _shown(cron, begin + offset, end + offset, most - found)
        else:
            found += _walked(cron, zone, begin, end)
        if found >= most:
            return most
    return found


def _stretches(
    cron: str, zone: tzinfo, after: datetime, until: datetime
) -> Iterator[tuple[datetime, datetime, bool]]:
    """Parts of (after, until], and whether all of each goes by one offset, and its times with it.
    Fixed times near a change of the clocks are moved or left out."""
    margin = timedelta() if is_by_the_clock(cron) else _DAY
    while after < until:
        change = next_change(zone, after - margin + MINUTE, until + margin)
        if change is None:
            yield after, until, True
            return
        even_until = min(change - MINUTE - margin, until)
        if even_until > after:
            yield after, even_until, True
            after = even_until
        uneven_until = min(change - MINUTE + margin, until)
        if uneven_until > after:
            yield after, uneven_until, False
            after = uneven_until


def _walked(cron: str, zone: tzinfo, after: datetime, until: datetime) -> int:
    last, later = (until - EPOCH) // MINUTE, times(cron, zone, (after - EPOCH) // MINUTE)
    return sum(1 for _ in takewhile(lambda minute: minute <= last, later))


def _shown(cron: str, after: datetime, until: datetime, most: int) -> int:
    """How many minutes of a clock without changes fit, later than one and up to another."""
    clock = CronSim(cron, after)
    minutes, hours = clock.minutes, clock.hours

    def up_to(at: datetime) -> int:
        full = sum(1 for hour in hours if hour < at.hour) * len(minutes)
        return full + (at.hour in hours) * sum(1 for minute in minutes if minute <= at.minute)

    found, each_day = 0, len(hours) * len(minutes)
    for day in CronSim(" ".join(("0", "0", *cron.split()[2:])), _midnight(after) - MINUTE):
        if day > until or found >= most:
            break
        found += up_to(until) if day == _midnight(until) else each_day
        found -= up_to(after) if day == _midnight(after) else 0
    return found


def _midnight(at: datetime) -> datetime:
    return at.replace(hour=0, minute=0)
