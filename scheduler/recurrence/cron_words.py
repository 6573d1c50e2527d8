"""A cron expression as an English sentence, made of the sets of minutes, hours and days that its
times follow from: a sentence is true of each time, or there is none. Pure.

It is about the clock of the zone. `Every 2 hours by the clock` is 00:00, 02:00 and so on, also on a
day on which the clocks change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache

from cronsim import CronSim

from scheduler.recurrence.cron import EPOCH, is_by_the_clock

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
_NTH = {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth", CronSim.LAST: "last"}
_MOST_TIMES, _MOST_LISTED = 4, 12

Phrase = Callable[[int], str]


class _NoSentence(Exception):
    """The expression says it better: a list would be too long, or an interval is none in an hour
    that the clock shows twice."""


@lru_cache(maxsize=1024)
def described(cron: str) -> str:
    """`At 09:00 on weekdays`, of a normalised expression; `By 0 9 */2 * *`, where a sentence would
    be too long or untrue. 15 us for a new one."""
    fields = CronSim(cron, EPOCH)
    try:
        when = _time_of_day(cron, sorted(fields.minutes), sorted(fields.hours))
        days, month = _days(fields), _months(sorted(fields.months))
    except _NoSentence:
        return f"By {cron}"
    return when + month + days if ", or " in days else when + days + month


def _time_of_day(cron: str, minutes: Sequence[int], hours: Sequence[int]) -> str:
    if len(minutes) * len(hours) <= _MOST_TIMES:
        return f"At {_listed(_clock(hour, minute) for hour in hours for minute in minutes)}"
    if _step(hours, 24) is not None and not is_by_the_clock(cron):
        raise _NoSentence
    if len(minutes) == 1:
        return _once_an_hour(minutes[0], hours)
    every = _step(minutes, 60)
    if every is None:
        of = "each hour" if len(hours) == 24 else f"the hours {_spans(hours, str)}"
        return f"At minutes {_spans(minutes, str)} of {of}"
    how_often = "Every minute" if every == 1 else f"Every {every} minutes"
    if len(hours) == 24:
        return how_often
    if _is_a_run(hours):
        return f"{how_often} from {_clock(hours[0], 0)} to {_clock(hours[-1], 59)}"
    return f"{how_often} in the hours {_spans(hours, str)}"


def _once_an_hour(minute: int, hours: Sequence[int]) -> str:
    every = _step(hours, 24)
    if every == 1:
        return "Every hour" if minute == 0 else f"At minute {minute} of each hour"
    if every is not None and minute == 0:
        return f"Every {every} hours by the clock"
    if _is_a_run(hours):
        return f"Every hour from {_clock(hours[0], minute)} to {_clock(hours[-1], minute)}"
    return f"At minute {minute} of the hours {_spans(hours, str)}"


def _days(fields: CronSim) -> str:
    in_month = _days_of_the_month(fields.days)
    in_week = _days_of_the_week(fields.weekdays)
    if not fields.day_and:
        return f", {in_month}, or {in_week}" if in_month and in_week else ""
    if in_month and in_week:
        return f", {in_month}, and only {in_week}"
    if in_week.endswith("of the month"):
        return f", {in_week}"
    return f", {in_month}" if in_month else f" {in_week}" * bool(in_week)


def _days_of_the_month(days: Collection[int]) -> str:
    """`on days 1 to 7 and on the last day of the month`; "" of all."""
    numbers = {day for day in days if day > 0}
    if len(numbers) == 31:
        return ""
    parts = [f"on day{'s' * (len(numbers) > 1)} {_spans(numbers, str)}"] if numbers else []
    parts += ["on the last day"] * (CronSim.LAST in days)
    parts += ["on the last weekday"] * (CronSim.LAST_WEEKDAY in days)
    return f"{' and '.join(parts)} of the month"


def _days_of_the_week(days: Collection[int | tuple[int, int]]) -> str:
    """`on Monday and Wednesday`, `on Sunday and on the last Friday of the month`; "" of all."""
    plain = {(day - 1) % 7 for day in days if isinstance(day, int)}
    if len(plain) == 7:
        return ""
    nth = {(each[1], (each[0] - 1) % 7) for each in days if isinstance(each, tuple)}
    parts = [f"on {_spans(plain, _weekday)}"] if plain else []
    if plain == {0, 1, 2, 3, 4}:
        parts = ["on weekdays"]
    parts += [f"on the {_NTH[each]} {_weekday(day)}" for each, day in sorted(nth, key=_in_order)]
    if len(parts) > _MOST_LISTED:
        raise _NoSentence
    return " and ".join(parts) + " of the month" * bool(nth)


def _in_order(nth: tuple[int, int]) -> tuple[int, int]:
    return nth[0] if nth[0] > 0 else 6, nth[1]


def _months(months: Sequence[int]) -> str:
    if len(months) == 12:
        return ""
    from_to = len(months) > 2 and _is_a_run(months)
    return f", {'from' if from_to else 'in'} {_spans(months, _month)}"


def _step(values: Sequence[int], width: int) -> int | None:
    """`values` are each so many from 0 on, which the width is a multiple of."""
    every, rest = divmod(width, len(values))
    return every if rest == 0 and list(values) == list(range(0, width, every)) else None


def _is_a_run(values: Sequence[int]) -> bool:
    return values[-1] - values[0] == len(values) - 1


def _spans(values: Collection[int], name: Phrase) -> str:
    """`1`, `1 and 15`, `1 to 7`."""
    ordered = sorted(values)
    if len(ordered) > 2 and _is_a_run(ordered):
        return f"{name(ordered[0])} to {name(ordered[-1])}"
    if len(ordered) > _MOST_LISTED:
        raise _NoSentence
    return _listed(map(name, ordered))


def _listed(words: Iterable[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


def _weekday(day: int) -> str:
    return _DAYS[day]


def _month(month: int) -> str:
    return _MONTHS[month - 1]


def _clock(hour: int, minute: int) -> str:
    return f"{hour:02}:{minute:02}"
