"""Daylight saving: ten zones over five years, against times that zoneinfo gives by hand. cronsim
takes no part in what is expected: hours and minutes are given beside each expression."""

from __future__ import annotations

import subprocess
import sys
import zoneinfo
from bisect import bisect_left, bisect_right
from datetime import UTC, date, datetime, timedelta
from functools import cache
from itertools import product
from typing import NamedTuple

import pytest
from cronsim import CronSim

from scheduler.recurrence.recurrence import Missed, Timing, missed_between, next_slot, upcoming
from scheduler.times import parse_iso8601

ZONES = (
    "Africa/Cairo",  # at midnight
    "Africa/Casablanca",  # around each Ramadan
    "America/Havana",  # at midnight and at 1:00
    "America/New_York",
    "America/Santiago",  # the other half of the year, at midnight
    "Antarctica/Troll",  # by two hours
    "Asia/Kolkata",  # never; half an hour off
    "Australia/Lord_Howe",  # by half an hour
    "Europe/Berlin",
    "Pacific/Chatham",  # 45 minutes off
)
FIRST, LAST = datetime(2026, 1, 1, tzinfo=UTC), datetime(2031, 1, 1, tzinfo=UTC)
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
ALL, SUNDAY = range(7), (6,)  # as Python counts


class Case(NamedTuple):
    cron: str
    hours: range
    minutes: range
    weekdays: range | tuple[int, ...] = ALL


FIXED = (
    Case("0-59/30 0-3 * * *", range(4), range(0, 60, 30)),
    Case("30 2 * * SUN", range(2, 3), range(30, 31), SUNDAY),
    Case("15 0 * * *", range(1), range(15, 16)),
)
BY_THE_CLOCK = (
    Case("*/15 * * * *", range(24), range(0, 60, 15)),
    Case("*/10 1-3 * * *", range(1, 4), range(0, 60, 10)),
    Case("0 */2 * * *", range(0, 24, 2), range(1)),
    Case("*/20 0,2 * * SUN", range(0, 3, 2), range(0, 60, 20), SUNDAY),
)


def ms(moment: datetime) -> int:
    return int(moment.timestamp()) * 1000


def shown(zone: zoneinfo.ZoneInfo, moment: datetime) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None, fold=0)


@cache
def changes(name: str) -> list[datetime]:
    """Of the offset: the first minute of each new one, by looking at every minute of such hours."""
    zone, found, moment = zoneinfo.ZoneInfo(name), [], FIRST
    while moment < LAST:
        later = moment + timedelta(hours=1)
        if later.astimezone(zone).utcoffset() != moment.astimezone(zone).utcoffset():
            before = moment.astimezone(zone).utcoffset()
            while moment.astimezone(zone).utcoffset() == before:
                moment += MINUTE
            found.append(moment)
        moment = later
    return found


def once_each_day(name: str, case: Case) -> list[int]:
    """The first minute at which the clock shows the time, or would have shown it already."""
    zone, found, day = zoneinfo.ZoneInfo(name), set(), date(2025, 12, 30)
    gaps = {}  # what the clock leaves out: from, to, when
    for change in changes(name):
        before, after = shown(zone, change - MINUTE) + MINUTE, shown(zone, change)
        if after > before:
            gaps[change] = (before, after)
    while day <= date(2031, 1, 3):
        if day.weekday() in case.weekdays:
            for hour, minute in product(case.hours, case.minutes):
                wall = datetime(day.year, day.month, day.day, hour, minute)  # noqa: DTZ001
                skipped = [at for at, (start, end) in gaps.items() if start <= wall < end]
                first = min(
                    moment
                    for fold in (0, 1)
                    for moment in [wall.replace(tzinfo=zone, fold=fold).astimezone(UTC)]
                )
                found.add(skipped[0] if skipped else first)
        day += DAY
    return sorted(ms(moment) for moment in found if FIRST < moment < LAST)


def shown_minutes(name: str, case: Case, start: datetime, end: datetime) -> list[int]:
    """Every minute between at which the clock shows such a time."""
    zone, found, moment = zoneinfo.ZoneInfo(name), [], start + MINUTE
    while moment < end:
        wall = shown(zone, moment)
        if (wall.hour in case.hours and wall.minute in case.minutes) and (
            wall.weekday() in case.weekdays
        ):
            found.append(ms(moment))
        moment += MINUTE
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", ZONES)
@pytest.mark.parametrize("case", FIXED, ids=lambda case: case.cron)
def test_a_fixed_time_comes_once_a_day(name: str, case: Case) -> None:
    timing, expected = Timing(cron=case.cron, zone=name), once_each_day(name, case)
    assert upcoming(timing, ms(FIRST), len(expected)) == expected
    after_each_change(timing, name, expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", ZONES)
@pytest.mark.parametrize("case", BY_THE_CLOCK, ids=lambda case: case.cron)
def test_a_repeated_time_goes_by_the_clock(name: str, case: Case) -> None:
    """Around each change, and on some days without one."""
    timing = Timing(cron=case.cron, zone=name)
    for change in [*changes(name), datetime(2027, 7, 4, tzinfo=UTC)]:
        start = change - DAY
        expected = shown_minutes(name, case, start, change + DAY)
        assert upcoming(timing, ms(start), len(expected)) == expected


def after_each_change(timing: Timing, name: str, expected: list[int]) -> None:
    """The next slot is the same whatever moment one asks at."""
    for change in changes(name):
        for minutes in range(-200, 200, 7):
            after = ms(change + minutes * MINUTE)
            later = bisect_right(expected, after)
            if later < len(expected):
                assert next_slot(timing, after) == expected[later]


@pytest.mark.slow
@pytest.mark.parametrize("name", ZONES)
@pytest.mark.parametrize("case", [*FIXED, *BY_THE_CLOCK], ids=lambda case: case.cron)
async def test_those_between_two_moments_are_counted_as_they_are_listed(
    name: str, case: Case
) -> None:
    """From before, amid and after each change, over hours and weeks."""
    timing = Timing(cron=case.cron, zone=name)
    for change in [*changes(name), datetime(2027, 7, 4, 12, tzinfo=UTC)][-3:]:
        within = Timing(cron=case.cron, zone=name, ends_at_ms=ms(change + 24 * DAY))
        listed = upcoming(within, ms(change - 3 * DAY), 3000)
        for hours in (-49, -25, -1, 0, 1, 26):
            after = ms(change + timedelta(hours=hours, minutes=7))
            for until in (after + 1, after + 5 * 3_600_000, after + 20 * 86_400_000):
                between = listed[bisect_right(listed, after) : bisect_left(listed, until)]
                expected = Missed(between[0] if between else None, len(between))
                assert await missed_between(timing, after, until) == expected


async def test_times_are_counted_in_steps_of_days(monkeypatch: pytest.MonkeyPatch) -> None:
    """10,000 rules of each minute, a day late, take a second and not two minutes."""
    steps, step = 0, CronSim.__next__

    def counted(clock: CronSim) -> datetime:
        nonlocal steps
        steps += 1
        return step(clock)

    monkeypatch.setattr(CronSim, "__next__", counted)
    for cron in ("* * * * *", "0-59 0-23 * * *"):
        steps, after = 0, ms(datetime(2026, 7, 4, 12, 7, tzinfo=UTC))
        timing = Timing(cron=cron, zone="Europe/Berlin")
        assert (await missed_between(timing, after, after + 86_400_001)).count == 1440
        assert steps <= 5


@pytest.mark.parametrize(
    ("zone", "cron", "after", "expected"),
    [
        # 2:00 to 3:00 is left out: right after it, and once.
        ("America/New_York", "30 2 * * *", "2027-03-14T00:00Z", "2027-03-14T07:00Z"),
        ("America/New_York", "30 2 * * *", "2027-03-14T07:00Z", "2027-03-15T06:30Z"),
        ("America/New_York", "*/30 2 * * *", "2027-03-14T00:00Z", "2027-03-15T06:00Z"),
        # 1:00 to 2:00 comes twice: once, and never in the past when asked in the second.
        ("America/New_York", "30 1 * * *", "2026-11-01T00:00Z", "2026-11-01T05:30Z"),
        ("America/New_York", "30 1 * * *", "2026-11-01T05:30Z", "2026-11-02T06:30Z"),
        ("America/New_York", "30 1 * * *", "2026-11-01T06:10Z", "2026-11-02T06:30Z"),
        ("America/New_York", "*/30 1 * * *", "2026-11-01T05:30Z", "2026-11-01T06:00Z"),
        # 1:30 to 2:00 comes twice, and 2:00 after it.
        ("Australia/Lord_Howe", "*/15 2 * * *", "2027-04-03T15:01Z", "2027-04-03T15:30Z"),
        # No midnight.
        ("Africa/Cairo", "0 0 * * *", "2027-04-29T12:00Z", "2027-04-29T22:00Z"),
    ],
)
def test_times_written_by_hand(zone: str, cron: str, after: str, expected: str) -> None:
    found = next_slot(Timing(cron=cron, zone=zone), parse_iso8601(after))
    assert found == parse_iso8601(expected)


def test_the_zones_are_those_of_the_package_alone() -> None:
    """A machine without time zones of its own has them all; one with others does not use them."""
    program = (
        "import sys, zoneinfo\n"
        "opened = []\n"
        "sys.addaudithook(lambda event, given: event == 'open' and opened.append(str(given[0])))\n"
        "from scheduler.recurrence.recurrence import Timing, next_slot\n"
        "next_slot(Timing(cron='0 9 * * *', zone='Asia/Kathmandu'), 0)\n"
        "assert zoneinfo.TZPATH == (), zoneinfo.TZPATH\n"
        "read = [path for path in opened if path.endswith('Kathmandu')]\n"
        "assert read and all('tzdata' in path for path in read), read\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
