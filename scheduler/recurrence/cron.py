"""Cron expressions on the clock of a time zone, read as Debian's cron reads them. Pure.

An expression whose minutes and hours are both fixed fires once on each day that it names: a time
that the clock skips comes right after the gap, one that it shows twice comes the first time. One
whose minutes or hours begin with `*` goes by the clock: not in a gap, and twice in a fold.

cronsim finds the times on a clock that never changes, and this module puts them on a zone's: given
a zone, cronsim 2.8 leaves out times where clocks change by half an hour (Lord Howe), and returns an
earlier time when asked in the second of two equal hours.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo

from cronsim import CronSim

from scheduler.recurrence.cron_refusals import why_not

LONGEST = 256  # characters

MINUTE = timedelta(minutes=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)
# Offsets are compared at this distance: no zone changes twice within it.
_PROBE = timedelta(days=7)


def normalised(text: str) -> str:
    """Upper case, one space between fields. Raises ValueError with a sentence that says why."""
    if len(text) > LONGEST:
        raise ValueError(f"It may have {LONGEST} characters at most.")
    if why := why_not(text):
        raise ValueError(why)
    return " ".join(text.upper().split())


def may_take_long(cron: str) -> bool:
    """Whether finding the next time may cross decades, 20 ms: a day of the month and one of the
    week must both fit, or a fifth Monday lie in one month. Others come within 8 years: 0.3 ms."""
    _, _, day, month, weekday = cron.split()
    both = "*" not in (day, weekday) and (day[0] == "*" or weekday[0] == "*")
    return both or ("#" in weekday and month != "*")


def times(cron: str, zone: tzinfo, after_minute: int) -> Iterator[int]:
    """The moments of a normalised expression, each later than the one before, in minutes since the
    epoch. They end where none comes within 50 years, and in the year 9999."""
    after = EPOCH + after_minute * MINUTE
    try:
        for moment in (_by_the_clock if is_by_the_clock(cron) else _fixed)(cron, zone, after):
            yield (moment - EPOCH) // MINUTE
    except OverflowError:
        return


def is_by_the_clock(cron: str) -> bool:
    minute, hour = cron.split()[:2]
    return minute[0] == "*" or hour[0] == "*"


def _fixed(cron: str, zone: tzinfo, after: datetime) -> Iterator[datetime]:
    for wall in CronSim(cron, after + offset_at(zone, after)):
        shown = wall
        moment = _first_shown(zone, shown)
        while moment + offset_at(zone, moment) != shown:  # never shown: in a gap
            shown += MINUTE
            moment = _first_shown(zone, shown)
        if moment > after:  # two times in one gap are one moment
            after = moment
            yield moment


def _by_the_clock(cron: str, zone: tzinfo, after: datetime) -> Iterator[datetime]:
    offset = offset_at(zone, after)
    past = after + offset  # no time lies between this and `wall`
    wall = next(found := CronSim(cron, past), None)
    while wall is not None:
        change = next_change(zone, after, wall - offset)
        if change is None:
            after = wall - offset
            yield after
            past, wall = wall, next(found, None)
            continue
        after, offset = change, offset_at(zone, change)
        shown = change + offset
        if not past < shown <= wall:  # times are shown again, or were skipped
            past = shown - MINUTE
            wall = next(found := CronSim(cron, past), None)


def next_change(zone: tzinfo, after: datetime, until: datetime) -> datetime | None:
    """The first minute in (after, until] with another offset than `after` has."""
    offset = offset_at(zone, after)
    while after < until:
        later = min(after + _PROBE, until)
        if offset_at(zone, later) == offset:
            after = later
            continue
        while later - after > MINUTE:
            middle = after + (later - after) // (2 * MINUTE) * MINUTE
            if offset_at(zone, middle) == offset:
                after = middle
            else:
                later = middle
        return later
    return None


def offset_at(zone: tzinfo, moment: datetime) -> timedelta:
    """At a moment in UTC, as all but the clock's own are here."""
    return moment.replace(tzinfo=UTC).astimezone(zone).utcoffset() or timedelta()


def _first_shown(zone: tzinfo, wall: datetime) -> datetime:
    return wall.replace(tzinfo=zone).astimezone(UTC).replace(tzinfo=None)
