"""Durations as people write them, `10s` or `1h30m`, to milliseconds and back. Pure."""

from __future__ import annotations

import re

PART_PATTERN = r"[0-9]{1,15}(?:\.[0-9]{1,9})?(?:ms|s|m|h|d)"
MOST_PARTS = 10
PATTERN = rf"(?:{PART_PATTERN}){{1,{MOST_PARTS}}}"

_DURATION = re.compile(PATTERN)
_PART = re.compile(r"([0-9]+)(?:\.([0-9]+))?([a-z]+)")
DAY_MS = 86_400_000
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": DAY_MS}


def parse_duration(text: str) -> int:
    """Milliseconds of `250ms`, `10s`, `5m`, `2h`, `1d`, `1.5h` or several of these in a row. Finer
    than a millisecond rounds up, so that nothing is early. Raises ValueError."""
    if _DURATION.fullmatch(text) is None:
        raise ValueError("not a duration such as 10s, 5m, 2h, 1h30m or 1d")
    # Thousand millions of a millisecond, so that the sum of parts is rounded and not each part.
    total = 0
    for whole, fraction, unit in _PART.findall(text):
        total += int(whole + fraction.ljust(9, "0")) * _UNITS_MS[unit]
    return -(-total // 10**9)


def format_duration(ms: int) -> str:
    """The shortest way to write so many milliseconds: `90000` is `1m30s`."""
    parts = []
    for unit, unit_ms in reversed(_UNITS_MS.items()):
        count, ms = divmod(ms, unit_ms)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
