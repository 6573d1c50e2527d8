"""The slots of a rule: its cron, interval, bounds, and the sentence that says them. Time zones:
test_recurrence_zones.py."""

from __future__ import annotations

import asyncio
import threading

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from scheduler.errors import InvalidRequest, Unreadable
from scheduler.recurrence import cron, recurrence
from scheduler.recurrence.recurrence import (
    MOST_MISSED,
    Missed,
    Timing,
    checked,
    describe,
    first_slot,
    missed_between,
    next_slot,
    upcoming,
)
from scheduler.times import format_iso8601, parse_iso8601

NOW = parse_iso8601("2026-11-23T03:00:00Z")  # a Monday
MINUTE_MS, DAY_MS = 60_000, 86_400_000


def texts(timing: Timing, most: int, after: int = NOW) -> list[str]:
    return [format_iso8601(slot_ms)[:16] for slot_ms in upcoming(timing, after, most)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0 9 * * 1-5", ["2026-11-23T09:00", "2026-11-24T09:00"]),
        ("0 9 * * sat,Sun", ["2026-11-28T09:00", "2026-11-29T09:00", "2026-12-05T09:00"]),
        ("0 9 * * 7", ["2026-11-29T09:00"]),
        ("0 9 * FEB-MAR *", ["2027-02-01T09:00", "2027-02-02T09:00"]),
        ("*/25 4 * * *", ["2026-11-23T04:00", "2026-11-23T04:25", "2026-11-23T04:50"]),
        ("5/20 4 * * *", ["2026-11-23T04:05", "2026-11-23T04:25", "2026-11-23T04:45"]),
        ("10-20/5 4 * * *", ["2026-11-23T04:10", "2026-11-23T04:15", "2026-11-23T04:20"]),
        ("0 0 L * *", ["2026-11-30T00:00", "2026-12-31T00:00", "2027-01-31T00:00"]),
        ("0 0 LW * *", ["2026-11-30T00:00", "2026-12-31T00:00", "2027-01-29T00:00"]),
        ("0 0 * * 5L", ["2026-11-27T00:00", "2026-12-25T00:00", "2027-01-29T00:00"]),
        ("0 0 * * MON#2", ["2026-12-14T00:00", "2027-01-11T00:00"]),
        ("0 0 * * 1#5", ["2026-11-30T00:00", "2027-03-29T00:00"]),
        ("0 0 13 * FRI", ["2026-11-27T00:00", "2026-12-04T00:00", "2026-12-11T00:00"]),  # or
        ("0 0 */13 * FRI", ["2026-11-27T00:00", "2027-01-01T00:00"]),  # and: 1st, 14th or 27th
        ("0 0 29 2 *", ["2028-02-29T00:00", "2032-02-29T00:00"]),
        ("0 0 29 2 */6", ["2032-02-29T00:00", "2048-02-29T00:00"]),  # and a Saturday or Sunday
    ],
)
def test_cron_says_when(text: str, expected: list[str]) -> None:
    timing = checked(Timing(cron=text))
    assert texts(timing, len(expected)) == expected
    chained, after = [], NOW
    for _ in range(4):
        after = next_slot(timing, after) or 0
        chained.append(after)
    assert chained == upcoming(timing, NOW, 4)


@pytest.mark.parametrize(
    ("timing", "field", "message"),
    [
        (Timing(cron="@daily"), "cron", "@daily is written 0 0 * * * here"),
        (Timing(cron=""), "cron", "this has 0"),
        (Timing(cron="61 * * * *"), "cron", "The minute must be made of 0 to 59"),
        (Timing(cron="* 25 * * *"), "cron", "The hour must be made of 0 to 23"),
        (Timing(cron="* * 32 * *"), "cron", "The day of the month must"),
        (Timing(cron="* * 0 2 *"), "cron", "The day of the month must"),
        (Timing(cron="* * * 13 *"), "cron", "The month must"),
        (Timing(cron="* * * * MON#6"), "cron", "The day of the week must"),
        (Timing(cron="*/0 * * * *"), "cron", "The minute"),
        (Timing(cron="0 0 30 2 *"), "cron", "never comes"),
        (Timing(cron="0 0 31 4,6,9,11 *"), "cron", "never comes"),
        (Timing(), "cron", "Exactly one"),
        (Timing(cron="* * * * *", every_ms=60_000), "cron", "Exactly one"),
        (Timing(cron="* * * * *", zone="Europe/Atlantis"), "timeZone", "IANA"),
        (Timing(every_ms=999), "every", "from 1s to 366d"),
        (Timing(every_ms=366 * DAY_MS + 1), "every", "from 1s to 366d"),
        (Timing(every_ms=-1000), "every", "from 1s to 366d"),
        (Timing(every_ms=1000, starts_at_ms=NOW, ends_at_ms=NOW - 1), "endsAt", "startsAt"),
        (Timing(cron="0 0 */30 * MON#2"), "cron", "never comes"),  # a second Monday on the 1st
        (Timing(cron="0 9 * * *", ends_at_ms=NOW + 5), "endsAt", "2026-11-23T09:00:00.000Z"),
        (Timing(every_ms=DAY_MS, ends_at_ms=NOW, anchor_ms=NOW), "endsAt", "2026-11-24T03:00"),
        (Timing(cron="0 9 * * *", starts_at_ms=253_402_300_799_999), "cron", "never comes"),
    ],
)
async def test_a_rule_that_cannot_be_or_has_no_first_time_is_refused_with_its_field(
    timing: Timing, field: str, message: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        await first_slot(checked(timing), NOW)
    assert [detail.field for detail in caught.value.details] == [field]
    assert message in caught.value.details[0].message


async def test_the_first_time_may_be_the_last() -> None:
    nine = parse_iso8601("2026-11-23T09:00:00Z")
    timing = Timing(cron="0 9 * * *", ends_at_ms=nine)
    assert await first_slot(timing, NOW) == nine
    assert next_slot(timing, nine) is None
    assert upcoming(timing, NOW, 5) == [nine]


@pytest.mark.parametrize("after", [NOW - DAY_MS, NOW, NOW + 1, NOW + MINUTE_MS - 1])
def test_a_slot_is_later_than_the_time_asked_of_and_not_before_the_start(after: int) -> None:
    by_cron, by_interval = Timing(cron="* * * * *"), Timing(every_ms=MINUTE_MS, anchor_ms=NOW)
    if after >= NOW:
        assert next_slot(by_cron, after) == next_slot(by_interval, after) == NOW + MINUTE_MS
    starts = NOW + 5 * MINUTE_MS
    for timing in (by_cron, Timing(every_ms=MINUTE_MS, anchor_ms=starts)):
        late = Timing(timing.cron, timing.every_ms, "UTC", starts, anchor_ms=timing.anchor_ms)
        assert next_slot(late, after) == starts
        assert upcoming(late, after, 2) == [starts, starts + MINUTE_MS]


def test_an_interval_is_of_time_that_passes_whatever_the_clock_shows() -> None:
    """Over the end of daylight saving in New York, 2026-11-01T06:00Z: a day later it is 08:00."""
    anchor = parse_iso8601("2026-10-31T13:00:00.250Z")
    timing = Timing(every_ms=DAY_MS, zone="America/New_York", anchor_ms=anchor)
    assert upcoming(timing, anchor - 1, 3) == [anchor, anchor + DAY_MS, anchor + 2 * DAY_MS]
    assert next_slot(timing, anchor) == anchor + DAY_MS
    assert next_slot(timing, anchor - 30 * DAY_MS) == anchor
    assert next_slot(timing, anchor + DAY_MS - 1) == anchor + DAY_MS


@pytest.mark.parametrize(
    ("timing", "until", "expected"),
    [
        (Timing(cron="* * * * *"), NOW + MINUTE_MS, Missed(None, 0)),
        (Timing(cron="* * * * *"), NOW + MINUTE_MS + 1, Missed(NOW + MINUTE_MS, 1)),
        (Timing(cron="* * * * *"), NOW + DAY_MS, Missed(NOW + MINUTE_MS, 1439)),
        (Timing(cron="* * * * *"), NOW + 9 * DAY_MS, Missed(NOW + MINUTE_MS, MOST_MISSED)),
        (Timing(cron="0 0 29 2 */6"), NOW + 9 * DAY_MS, Missed(None, 0)),
        (Timing(every_ms=1000), NOW + 1000, Missed(None, 0)),
        (Timing(every_ms=1000), NOW + 1001, Missed(NOW + 1000, 1)),
        (Timing(every_ms=1000), NOW + DAY_MS, Missed(NOW + 1000, 86_399)),
        (Timing(every_ms=1000, ends_at_ms=NOW + 2500), NOW + DAY_MS, Missed(NOW + 1000, 2)),
        (Timing(cron="* * * * *", ends_at_ms=NOW), NOW + DAY_MS, Missed(None, 0)),
    ],
)
async def test_missed_slots_are_counted(timing: Timing, until: int, expected: Missed) -> None:
    assert await missed_between(timing, NOW, until) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("* * * * *", False),
        ("0 9 31 * *", False),
        ("0 0 29 2 *", False),
        ("0 0 13 * FRI", False),
        ("0 0 * * MON#5", False),
        ("0 0 * 2 MON#5", True),
        ("0 0 29 2 */6", True),
        ("0 0 */30 * MON#2", True),
    ],
)
async def test_a_search_that_may_take_long_leaves_the_event_loop_alone(
    text: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    where: list[threading.Thread] = []
    monkeypatch.setattr(
        recurrence, "next_slot", lambda *_: where.append(threading.current_thread())
    )
    await recurrence.following(Timing(cron=text), NOW)
    assert (where != [threading.current_thread()]) is expected


async def test_long_searches_take_turns() -> None:
    asked = [f"{minute} 0 */30 * MON#2" for minute in range(6)]
    await asyncio.gather(*(recurrence.following(Timing(cron=text), NOW) for text in asked))
    names = [thread.name for thread in threading.enumerate()]
    assert sum(name.startswith("recurrence") for name in names) == 1


def test_rules_that_are_due_together_share_one_search(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[int] = []
    times = cron.times
    monkeypatch.setattr(cron, "times", lambda *given: searched.append(1) or times(*given))
    recurrence._next_time.cache_clear()
    for late_ms in range(0, 1000, 10):  # each worker asks at a moment of its own
        next_slot(Timing(cron="0 9 * * *", expires_after_ms=late_ms), NOW + late_ms)
    assert len(searched) == 1
    assert recurrence._next_time.cache_info().maxsize == 4096


@pytest.mark.parametrize(
    ("timing", "sentence"),
    [
        (Timing(cron="0 9 * * 1-5", zone="America/New_York"), "At 09:00 on weekdays, New York"),
        (Timing(cron="0 9 * * 7"), "At 09:00 on Sunday, UTC"),
        (Timing(every_ms=5_400_000, zone="Asia/Tokyo"), "Every 1h30m"),
        (Timing("0 9 * * 7", delay_ms=10_000), "At 09:00 on Sunday, UTC, 10s later"),
        (Timing(every_ms=3_600_000, delay_ms=1500), "Every 1h, 1s500ms later"),
    ],
)
def test_the_sentence_names_the_zone(timing: Timing, sentence: str) -> None:
    assert describe(timing) == sentence


_PART = st.sampled_from(
    ["*", "1", "L", "LW", "MON", "7", "1-5", "*/2", "3/2", "5L", "MON#5", "1,3", "0", "30", "FEB"]
)


@given(st.one_of(st.text(max_size=40), st.lists(_PART, min_size=4, max_size=6).map(" ".join)))
@example("LW,5/2 * * * *")
@example("* * L/2 * *")
@example("1 1 1 1 \N{SUPERSCRIPT TWO}L")
@example("\u0661 * * * *")
def test_any_text_is_refused_or_has_a_next_time_and_a_sentence(text: str) -> None:
    try:
        timing = checked(Timing(cron=text))
    except InvalidRequest:
        return
    assert describe(timing)
    assert checked(timing) == timing
    slot_ms = next_slot(timing, NOW)
    assert slot_ms is None or slot_ms > NOW


def test_a_time_zone_of_a_later_tzdata_is_no_fault_of_the_rule() -> None:
    with pytest.raises(Unreadable, match="has no time zone Mars/Olympus"):
        next_slot(Timing(cron="* * * * *", zone="Mars/Olympus"), NOW)


@pytest.mark.parametrize("timing", [Timing("*/10 * * * *"), Timing(every_ms=90_000, anchor_ms=NOW)])
@given(after=st.integers(NOW, NOW + DAY_MS), delay=st.integers(1, DAY_MS))
@example(after=NOW, delay=10_000)
@example(after=NOW + 10_000, delay=10_000)
@example(after=NOW + 9_999, delay=10_000)
def test_a_delay_moves_each_slot_of_a_rule(timing: Timing, after: int, delay: int) -> None:
    later, moved = replace(timing, delay_ms=delay), after + delay
    assert upcoming(later, moved, 3) == [each + delay for each in upcoming(timing, after, 3)]
    assert next_slot(later, moved) == upcoming(later, moved, 1)[0] > moved
    until = moved + 3 * MINUTE_MS
    missed = asyncio.run(missed_between(timing, after, until - delay))
    expected = Missed(missed.first_ms and missed.first_ms + delay, missed.count)
    assert asyncio.run(missed_between(later, moved, until)) == expected
    assert later.times != timing.times
