"""Why a text is no cron expression, and what to write instead: many people come from another cron.
Pure. docs/reference/recurring.md has the table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from cronsim import CronSim, CronSimError

NEVER = "This date never comes."

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  # a clock's time, of no zone


class _Field(NamedTuple):
    """`of`: the attribute of a CronSim. `only`: what a step does that selects one value."""

    name: str
    first: int
    last: int
    of: str
    more: str
    only: str
    unit: str = ""


_FIELDS = (
    _Field("minute", 0, 59, "minutes", "", "minute {} of each hour", "m"),
    _Field("hour", 0, 23, "hours", "", "hour {} of each day", "h"),
    _Field(
        "day of the month",
        1,
        31,
        "days",
        ", L (the last day) and LW (the last weekday)",
        "day {} of each month",
        "d",
    ),
    _Field("month", 1, 12, "months", " and JAN to DEC", "month {} of each year"),
    _Field(
        "day of the week",
        0,
        7,
        "weekdays",
        " and SUN to SAT, 5L (the last Friday) and MON#2 (the second Monday)",
        "day {} of each week",
    ),
)
_MONTH, _DAY_OF_THE_WEEK = _FIELDS[3:]
_MACROS = {
    "@YEARLY": "0 0 1 1 *",
    "@ANNUALLY": "0 0 1 1 *",
    "@MONTHLY": "0 0 1 * *",
    "@WEEKLY": "0 0 * * 0",
    "@DAILY": "0 0 * * *",
    "@MIDNIGHT": "0 0 * * *",
    "@HOURLY": "0 * * * *",
}
_NAMES = {
    _MONTH: "JANUARY FEBRUARY MARCH APRIL MAY JUNE JULY AUGUST SEPTEMBER OCTOBER NOVEMBER DECEMBER",
    _DAY_OF_THE_WEEK: "SUNDAY MONDAY TUESDAY WEDNESDAY THURSDAY FRIDAY SATURDAY",
}
_ZONE = re.compile(r"\s*(?:CRON_)?TZ=(\S+)", re.IGNORECASE)
_EVERY = re.compile(r"\s*@EVERY\s+(\S+)\s*", re.IGNORECASE)
_RATE = re.compile(r"\s*RATE\(\s*(\d+)\s+(M|H|D)\w*\s*\)\s*", re.IGNORECASE)
_CALL = re.compile(r"\s*CRON\((.*)\)\s*", re.IGNORECASE)
_YEAR = re.compile(r"\d{4}")
_RANGE = re.compile(r"(\w+)-(\w+)")
_LONG_NAME = re.compile(r"[A-Z]{4,}")


def fault_of(fields: Sequence[str]) -> str | None:
    """What cronsim finds; it names one field."""
    try:
        CronSim(" ".join(fields), _EPOCH)
    except CronSimError as error:
        return str(error)
    return None


def why_not(text: str) -> str | None:
    """A sentence with the way out, of a text that is no cron expression or does not mean what it
    seems to; None of a good one."""
    if why := _as_a_whole(text):
        return why
    fields = text.upper().split()
    if len(fields) != len(_FIELDS):
        return _wrong_count(fields)
    if fault_of(fields) is None:
        return next(filter(None, map(_idle_step, _FIELDS, fields)), None)
    whys = (_why_field(*each) for each in zip(_FIELDS, fields, strict=True))
    # 30 February: each field is good, but none of these months has such a day.
    return next(filter(None, whys), NEVER)


def _as_a_whole(text: str) -> str | None:
    if zone := _ZONE.match(text):
        return f"Give the time zone in its own field, timeZone: {zone[1]}."
    if every := _EVERY.fullmatch(text):
        return f"Give every instead of cron: {every[1]}."
    if rate := _RATE.fullmatch(text):
        return f"Give every instead of cron: {rate[1]}{rate[2].lower()}."
    if call := _CALL.fullmatch(text):
        return f"Leave out cron( and ). {why_not(call[1]) or ''}".strip()
    macro = text.strip().upper()
    if macro in _MACROS:
        return f"{macro.lower()} is written {_MACROS[macro]} here."
    if macro == "@REBOOT":
        return "No machine starts here: give five fields, or every instead."
    return None


def _wrong_count(fields: list[str]) -> str:
    said = (
        "It must have five fields: minute, hour, day of the month, month, day of the week;"
        f" this has {len(fields)}."
    )
    if len(fields) not in (6, 7):
        return said
    has_year = len(fields) == 7 or "?" in (fields[2], fields[4]) or _YEAR.search(fields[5])
    has_seconds = len(fields) == 7 or not has_year
    five = [field.replace("?", "*") for field in fields[has_seconds : has_seconds + 5]]
    said += " Leave out the first, the seconds" if has_seconds else " Leave out the last, the year"
    said += ", and the last, the year" * bool(has_seconds and has_year)
    said += f": {' '.join(five)}." if fault_of(five) is None else "."
    if has_seconds and fields[0] not in ("0", "00"):
        said += " For less than a minute give every instead."
    if "?" in fields and re.search(r"\d", five[4]):
        said += " Here Sunday is 0 or 7, Monday is 1."
    return said


def _why_field(field: _Field, text: str) -> str | None:
    """None of a field that is good by itself."""
    if _fits(field, text):
        return _idle_step(field, text)
    terms = text.split(",")
    found = [_better(field, term) for term in terms]
    for why, _ in filter(None, found):
        better = ",".join(new[1] if new else term for new, term in zip(found, terms, strict=True))
        write = f" Write {better}." if _fits(field, better) else ""
        return f"The {field.name}: {why}.{write}"
    allowed = f"{field.first} to {field.last}{field.more}"
    return f"The {field.name} must be made of {allowed}, in ranges, steps and lists."


def _fits(field: _Field, text: str) -> bool:
    return fault_of(["*" if each is not field else text for each in _FIELDS]) is None


def _better(field: _Field, term: str) -> tuple[str, str] | None:
    """What is wrong with one of a list, and what may be meant."""
    short = _LONG_NAME.sub(lambda name: _short(field, name[0]), term)
    if short != term:
        return "names have three letters", _upwards(field, short) or short
    if term == "?":
        return "? is not known, and * stands for any", "*"
    if up := _upwards(field, term):
        return "ranges go upwards", up
    if re.fullmatch(r"(\d+W|W\d+)", term):
        return "the weekday nearest to a day is not known; LW is the last weekday", ""
    if re.fullmatch(r"L-\d+", term):
        return "days before the last one are not known; L is the last day", ""
    if field is _DAY_OF_THE_WEEK and re.fullmatch(r"[A-Z]{3}L", term):
        return "the last one of a month has a number and L", f"{_number(field, term[:3])}L"
    if re.fullmatch(r"H(\(.*\))?(/\d+)?", term):
        return "H is not known; choose a value", ""
    if field.unit and term == str(field.last + 1) and field.first == 0:
        return f"it goes from 0 to {field.last}", "0"
    return None


def _short(field: _Field, name: str) -> str:
    """`MON` of MONDAY, `TUE` of TUES."""
    known = any(each.startswith(name) for each in _NAMES.get(field, "").split())
    return name[:3] if known else name


def _number(field: _Field, value: str) -> int | None:
    if value.isascii() and value.isdigit():
        return int(value)
    names = [each[:3] for each in _NAMES.get(field, "").split()]
    return names.index(value) + field.first if value in names else None


def _upwards(field: _Field, term: str) -> str | None:
    """`22-23,0-6` of 22-6, `6-7` of SAT-SUN."""
    found = _RANGE.fullmatch(term)
    if not found:
        return None
    start, end = (_number(field, value) for value in found.groups())
    if start is None or end is None or not field.first <= end < start <= field.last:
        return None
    # Sunday is 7 as well as 0.
    low = field.first + (field is _DAY_OF_THE_WEEK)
    parts = [(start, field.last)] + [(low, end)] * (end >= low)
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def _idle_step(field: _Field, text: str) -> str | None:
    """Of a field with a step that selects one value, and says nothing of an interval then."""
    for term in text.split(","):
        before, slash, step = term.partition("/")
        if not slash:
            continue
        if before in ("L", "LW"):
            return f"The {field.name}: {before} takes no step. Write {before}."
        values = getattr(
            CronSim(" ".join("*" if e is not field else term for e in _FIELDS), _EPOCH), field.of
        )
        if field is _DAY_OF_THE_WEEK:
            values = {value % 7 for value in values}
        if len(values) == 1:
            [value] = values
            every = f", or give every instead: {step}{field.unit}" if field.unit else ""
            return (
                f"The {field.name}: {term} is {field.only.format(value)}, and nothing else."
                f" Write {value}{every}."
            )
    return None
