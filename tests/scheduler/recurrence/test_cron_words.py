"""A cron expression in words: an independent reader of the sentence finds the same times."""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.recurrence.cron import normalised, times
from scheduler.recurrence.cron_words import described

NOW = datetime(2026, 11, 23, 3, tzinfo=UTC)
SENTENCES = {
    "* * * * *": "Every minute",
    "*/5 * * * *": "Every 5 minutes",
    "0-59/5 * * * *": "Every 5 minutes",
    "*/45 * * * *": "At minutes 0 and 45 of each hour",
    "*/7 * * * *": "At minutes 0, 7, 14, 21, 28, 35, 42, 49 and 56 of each hour",
    "0-48/8 * * * *": "At minutes 0, 8, 16, 24, 32, 40 and 48 of each hour",
    "10-50/20 * * * *": "At minutes 10, 30 and 50 of each hour",
    "1-59/2 * * * *": "By 1-59/2 * * * *",
    # These are sent once in an hour that the clock shows twice.
    "0-59/5 0-23 * * *": "By 0-59/5 0-23 * * *",
    "0 0-23/2 * * *": "By 0 0-23/2 * * *",
    "0 0-23/6 * * *": "At 00:00, 06:00, 12:00 and 18:00",
    "0 * * * *": "Every hour",
    "0 * 1 * *": "Every hour, on day 1 of the month",
    "30 * * * *": "At minute 30 of each hour",
    "20-40 * * * *": "At minutes 20 to 40 of each hour",
    "0 */2 * * *": "Every 2 hours by the clock",
    "0 */5 * * *": "At minute 0 of the hours 0, 5, 10, 15 and 20",
    "30 */6 * * *": "At 00:30, 06:30, 12:30 and 18:30",
    "0 9-17 * * 1-5": "Every hour from 09:00 to 17:00 on weekdays",
    "*/15 9-17 * * *": "Every 15 minutes from 09:00 to 17:59",
    "* 3 * * *": "Every minute from 03:00 to 03:59",
    "*/30 */6 * * *": "Every 30 minutes in the hours 0, 6, 12 and 18",
    "0,30 9,17 * * *": "At 09:00, 09:30, 17:00 and 17:30",
    "0 9 * * */2": "At 09:00 on Tuesday, Thursday, Saturday and Sunday",
    "0 0 1,15 * *": "At 00:00, on days 1 and 15 of the month",
    "0 0 */2 * *": "By 0 0 */2 * *",
    "0 9 */2 * MON": "By 0 9 */2 * MON",
    "0 0 */13 * FRI": "At 00:00, on days 1, 14 and 27 of the month, and only on Friday",
    "0 0 13 * FRI": "At 00:00, on day 13 of the month, or on Friday",
    "0 0 1-31 * MON": "At 00:00",
    "0 9 L * MON-FRI": "At 09:00, on the last day of the month, or on weekdays",
    "0 8 LW,1 * *": "At 08:00, on day 1 and on the last weekday of the month",
    "0 0 * * 1,5L": "At 00:00, on Monday and on the last Friday of the month",
    "0 9 * * SUN": "At 09:00 on Sunday",
    "30 2 L * *": "At 02:30, on the last day of the month",
    "0 9 * * MON#2": "At 09:00, on the second Monday of the month",
    "0 9 * * SAT#1,SUN#1": "At 09:00, on the first Saturday and on the first Sunday of the month",
    "0 0 29 2 *": "At 00:00, on day 29 of the month, in February",
    "0 0 1 1,4,7,10 *": "At 00:00, on day 1 of the month, in January, April, July and October",
    "0 0 1-7 APR-SEP MON": "At 00:00, from April to September, on days 1 to 7 of the month, or on"
    " Monday",
}
DAYS = [*calendar.day_name]
MONTHS = [*calendar.month_name]
_NTH = {"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5}
_TIME = r"\d\d:\d\d"
_MONTH = f"(?:{'|'.join(MONTHS[1:])})"
IsDay = Callable[[date], bool]


@pytest.mark.parametrize(("cron", "sentence"), SENTENCES.items())
def test_the_sentence_says_when(cron: str, sentence: str) -> None:
    assert described(normalised(cron)) == sentence
    assert is_true(cron, sentence)


@pytest.mark.parametrize("change", ["2027-03-28T01:00:00", "2027-10-31T01:00:00"])
@pytest.mark.parametrize("every", [1, 2, 5, 15, 30, 60])
def test_an_interval_of_minutes_is_one_also_where_clocks_change(every: int, change: str) -> None:
    cron = "0 * * * *" if every == 60 else f"*/{every} * * * *"
    assert re.fullmatch(r"Every (\d+ )?(minutes?|hour)", described(cron))
    before = int(datetime.fromisoformat(f"{change}Z").timestamp()) // 60 - 180
    found = list(islice(times(cron, ZoneInfo("Europe/Berlin"), before), 360 // every))
    assert {later - one for one, later in pairwise(found)} == {every}


@pytest.mark.parametrize(
    ("cron", "sentence"),
    [
        ("*/45 * * * *", "Every 45 minutes"),
        ("0 */5 * * *", "Every 5 hours by the clock"),
        ("0 0 13 * FRI", "At 00:00, on day 13 of the month, and only on Friday"),
        ("0 9 * * 1-6", "At 09:00 on weekdays"),
        ("0 9 * * 5L", "At 09:00, on the fourth Friday of the month"),
    ],
)
def test_the_reader_sees_an_untrue_one(cron: str, sentence: str) -> None:
    assert not is_true(cron, sentence)


def _list_of(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(values, min_size=1, max_size=4).map(",".join)


def _field(first: int, last: int, *more: str) -> st.SearchStrategy[str]:
    number = st.integers(first, last)
    span = st.tuples(number, number).map(lambda ends: f"{min(ends)}-{max(ends)}")
    base = st.one_of(st.just("*"), number.map(str), span)
    step = st.tuples(base, st.integers(1, last)).map(lambda parts: f"{parts[0]}/{parts[1]}")
    return st.one_of(st.just("*"), _list_of(st.one_of(base, step, *map(st.just, more))))


_CRONS = st.tuples(
    _field(0, 59),
    _field(0, 23),
    _field(1, 31, "L", "LW"),
    _field(1, 12, "FEB", "JUN-AUG"),
    _field(0, 7, "5L", "7L", "MON#1", "0#5", "FRI", "MON-FRI"),
)


@given(_CRONS.map(" ".join))
def test_every_sentence_is_true_or_absent(cron: str) -> None:
    try:
        text = normalised(cron)
    except ValueError:
        return  # one value alone has no step; some dates never come
    sentence = described(text)
    assert sentence == f"By {text}" or is_true(text, sentence), sentence


def is_true(cron: str, sentence: str) -> bool:
    """Whether the next 1,000 times, or those of 40 years, are those that the sentence names."""
    if sentence.startswith("By "):
        return sentence == f"By {cron}"
    after = int(NOW.timestamp()) // 60
    until = after + 40 * 366 * 1440
    found = [each for each in islice(times(normalised(cron), UTC, after), 1000) if each <= until]
    return found == list(islice(_told(sentence), len(found)))


def _told(sentence: str) -> Iterator[int]:
    """The minutes that a sentence names, for 40 years; it knows nothing of crons."""
    day_times, is_day = _read(sentence)
    midnight = NOW.replace(hour=0)
    for number in range(40 * 366):
        day = midnight + timedelta(number)
        if is_day(day.date()):
            for minute in day_times:
                if (moment := day + timedelta(minutes=minute)) > NOW:
                    yield int(moment.timestamp()) // 60


def _read(sentence: str) -> tuple[list[int], IsDay]:
    months = {*range(1, 13)}
    if found := re.search(rf", (?:in|from) ({_MONTH}(?:(?:, | and | to ){_MONTH})*)", sentence):
        months = _values(found[1], MONTHS.index)
        sentence = sentence.replace(found[0], "")
    found = re.match(r"(.*?)(?:,? (on .*))?$", sentence)
    assert found
    day_times, days = _minutes(found[1]), found[2] or ""
    both = all if ", and only " in days else any
    parts = [_day(each) for each in re.split(", and only |, or ", days) if each]

    def is_day(day: date) -> bool:
        return day.month in months and (not parts or both(fits(day) for fits in parts))

    return day_times, is_day


def _minutes(text: str) -> list[int]:
    """Of a day."""
    every = range(1440)
    if re.fullmatch(rf"At {_TIME}(, {_TIME})*( and {_TIME})?", text):
        return [_of_day(each) for each in re.findall(_TIME, text)]
    span = re.search(rf" from ({_TIME}) to ({_TIME})$", text)
    if span:
        every = range(_of_day(span[1]), _of_day(span[2]) + 1)
        text = text.removesuffix(span[0])
    if text == "Every hour":
        return [*every[::60]]
    if by_clock := re.fullmatch(r"Every (\d+) hours by the clock", text):
        hours_between = int(by_clock[1])
        return [*every[:: 60 * hours_between]] if 24 % hours_between == 0 else []
    hours = {*range(24)}
    if within := re.search(r" (?:of|in) (?:each hour|the hours (.*))$", text):
        hours = _values(within[1], int) if within[1] else hours
        text = text.removesuffix(within[0])
    kept = [minute for minute in every if minute // 60 in hours]
    if text == "Every minute":
        return kept
    if interval := re.fullmatch(r"Every (\d+) minutes", text):
        gap = int(interval[1])
        return [minute for minute in kept if minute % gap == 0] if 60 % gap == 0 else []
    at = re.fullmatch(r"At minutes? (.*)", text)
    assert at, text
    numbers = _values(at[1], int)
    return [minute for minute in kept if minute % 60 in numbers]


def _day(text: str) -> IsDay:
    of_the_month = " of the month" in text
    text = text.removesuffix(" of the month")
    tests: list[IsDay] = []
    for part in re.split(r"(?:^| and )on ", text)[1:]:
        nth = re.fullmatch(r"the (\w+) (\w+)", part)
        if part == "weekdays":
            tests.append(lambda d: d.weekday() < 5)
        elif part == "the last day":
            tests.append(lambda d: d.day == _last_of(d))
        elif part == "the last weekday":
            tests.append(_is_last_weekday)
        elif nth:
            tests.append(_nth_of(nth[1], DAYS.index(nth[2])))
        elif part.startswith("day"):
            assert of_the_month
            tests.append(_among(lambda d: d.day, _values(part.partition(" ")[2], int)))
        else:
            tests.append(_among(lambda d: d.weekday(), _values(part, DAYS.index)))
    assert tests, text
    return lambda d: any(test(d) for test in tests)


def _among(of: Callable[[date], int], values: set[int]) -> IsDay:
    return lambda day: of(day) in values


def _nth_of(word: str, weekday: int) -> IsDay:
    if word == "last":
        return lambda d: d.weekday() == weekday and d.day + 7 > _last_of(d)
    return lambda d: d.weekday() == weekday and (d.day - 1) // 7 + 1 == _NTH[word]


def _values(text: str, number: Callable[[str], int]) -> set[int]:
    """Of `1 to 7` and of `1, 3 and 5`."""
    if " to " in text:
        first, last = map(number, text.split(" to "))
        return {*range(first, last + 1)}
    return {number(each) for each in re.split(r", | and ", text)}


def _of_day(text: str) -> int:
    return int(text[:2]) * 60 + int(text[3:])


def _last_of(day: date) -> int:
    return calendar.monthrange(day.year, day.month)[1]


def _is_last_weekday(day: date) -> bool:
    later = (date(day.year, day.month, n) for n in range(day.day + 1, _last_of(day) + 1))
    return day.weekday() < 5 and all(each.weekday() >= 5 for each in later)
