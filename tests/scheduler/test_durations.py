"""Durations as people write them."""

from __future__ import annotations

import pytest

from scheduler.durations import MOST_PARTS, parse_duration


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        *(("250ms", 250), ("10s", 10_000), ("5m", 300_000), ("2h", 7_200_000), ("1d", 86_400_000)),
        *(("1h30m", 5_400_000), ("1.5h", 5_400_000), ("0s", 0), ("0.1s", 100)),
        *(("0.0000001s", 1), ("0.4ms0.4ms", 1)),  # less than a millisecond
    ],
)
def test_what_is_a_duration(text: str, ms: int) -> None:
    assert parse_duration(text) == ms


@pytest.mark.parametrize(
    "text",
    [
        *("", "s", "10", "10 s", "1.", ".5s", "-1s", "+1s", "1e3s", "10S", "10s\n", "1,5h", "1w"),
        *("\u0661s", "9" * 16 + "ms", "1." + "9" * 10 + "s", "1s" * (MOST_PARTS + 1)),
    ],
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration(text)
