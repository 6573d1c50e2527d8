"""ISO 8601 in, ISO 8601 out; milliseconds since the epoch in between."""

from __future__ import annotations

import functools
import re
from datetime import date, datetime, timedelta

_EPOCH = date(1970, 1, 1)
# From the beginning of the year 1 to the end of 9999.
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999
# As `format_iso8601` writes them, and JavaScript.
_USUAL = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)
_MILLIS = [f".{ms:03d}Z" for ms in range(1000)]
_ISO_8601 = re.compile(
    r"(\d{4}-\d\d-\d\d[Tt]\d\d:\d\d(?::\d\d)?)(?:[.,](\d{1,30}))?(Z|z|[+-]\d\d(?::?[0-5]\d)?)?",
    re.ASCII,
)


def parse_iso8601(text: str) -> int:
    """Milliseconds since the epoch of an ISO 8601 timestamp; no zone means UTC. Finer than a
    millisecond rounds up, so that nothing fires early. Raises ValueError."""
    if _USUAL.fullmatch(text):
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    match = _ISO_8601.fullmatch(text)
    if match is None:
        raise ValueError("not an ISO 8601 timestamp such as 2026-11-20T08:00:00.000Z")
    whole, fraction, zone = match.groups()
    seconds = int(datetime.fromisoformat((whole + (zone or "Z")).upper()).timestamp())
    if fraction is None:
        return seconds * 1000
    if len(whole) < len("2026-11-20T08:00:00"):
        raise ValueError("a fraction needs seconds before it")
    digits = fraction.ljust(3, "0")
    finer = 1 if digits[3:].strip("0") else 0
    return seconds * 1000 + int(digits[:3]) + finer


def are_moments(*moments_ms: int | None) -> bool:
    """Whether each can be written as a timestamp, if it is given at all."""
    return all(ms is None or _FIRST_MS <= ms <= _LAST_MS for ms in moments_ms)


def format_iso8601(ms: int) -> str:
    """`2026-11-20T08:00:00.000Z`."""
    return _to_the_second(ms // 1000) + _MILLIS[ms % 1000]


@functools.lru_cache(maxsize=1024)
def _to_the_second(seconds: int) -> str:
    """Cached: schedules fired or listed together mostly share their seconds."""
    days, second = divmod(seconds, 86_400)
    minutes, second = divmod(second, 60)
    return f"{_day(days)}T{minutes // 60:02d}:{minutes % 60:02d}:{second:02d}"


@functools.lru_cache(maxsize=64)
def _day(days: int) -> str:
    """Cached: a page of the log has other seconds in each entry, and they take 3 us without it."""
    return (_EPOCH + timedelta(days)).isoformat()
