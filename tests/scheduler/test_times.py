"""ISO 8601 in and out."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.times import are_moments, format_iso8601, parse_iso8601

MORNING_MS = 1_795_161_600_000  # 2026-11-20T08:00:00Z

_FIRST_MS = int(datetime(1000, 1, 1, tzinfo=UTC).timestamp()) * 1000
_LAST_MS = int(datetime(9999, 12, 30, tzinfo=UTC).timestamp()) * 1000

moments = st.integers(min_value=_FIRST_MS, max_value=_LAST_MS)


SPELLINGS = [
    "2026-11-20T08:00:00.000Z", "2026-11-20T08:00:00Z", "2026-11-20T08:00:00z",
    "2026-11-20t08:00:00Z", "2026-11-20T08:00Z", "2026-11-20T08:00:00", "2026-11-20T08:00",
    "2026-11-20T08:00:00,0Z", "2026-11-20T08:00:00.0000000000Z", "2026-11-20T10:30:00+02:30",
    "2026-11-20T10:30:00+0230", "2026-11-20T10:00:00+02", "2026-11-20T03:00:00-05:00",
    "2026-11-19T23:00:00-09:00", "2026-11-20T08:00:00-00:00",
]  # fmt: skip


@pytest.mark.parametrize("text", SPELLINGS)
def test_every_spelling_of_one_moment_is_that_moment(text: str) -> None:
    assert parse_iso8601(text) == MORNING_MS


@pytest.mark.parametrize(
    ("fraction", "after_ms"),
    [
        (".001", 1),
        (".999", 999),
        (".0001", 1),
        (".0011", 2),
        (".9991", 1000),
        (",5", 500),
        ("." + "0" * 29 + "1", 1),
    ],
)
def test_finer_than_a_millisecond_rounds_up(fraction: str, after_ms: int) -> None:
    assert parse_iso8601(f"2026-11-20T08:00:00{fraction}Z") == MORNING_MS + after_ms


NO_TIMESTAMPS = [
    "", "now", "1795161600", "2026-11-20", "2026-11-20 08:00:00Z", " 2026-11-20T08:00:00Z",
    "2026-11-20T08:00:00Z\n", "2026-11-20T08Z", "2026-11-20T08:00.5Z", "2026-11-20T08:00:00.Z",
    "2026-11-20T08:00:00." + "1" * 31 + "Z", "2026-11-20T08:00:00 Z", "2026-11-20T08:00:00UTC",
    "2026-11-20T08:00:00+2", "2026-11-20T08:00:00+24:00", "20261120T080000Z",
    "2026-W47-5T08:00:00Z", "2026-13-20T08:00:00Z", "2026-00-20T08:00:00Z", "2026-02-29T08:00:00Z",
    "2026-11-31T08:00:00Z", "2026-11-20T24:00:00Z", "2026-11-20T08:60:00Z", "2026-11-20T08:00:60Z",
    "0000-01-01T00:00:00Z", "12026-11-20T08:00:00Z", "-2026-11-20T08:00:00Z",
    "٢٠٢٦-11-20T08:00:00Z", "2026-02-29T08:00:00.000Z", "2026-11-20T08:00:60.000Z",
    "2026-W47-5T08:00:00.000Z", "٢٠٢٦-11-20T08:00:00.000Z",
]  # fmt: skip


@pytest.mark.parametrize("text", NO_TIMESTAMPS)
def test_what_is_no_timestamp_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_iso8601(text)


def test_times_go_out_with_three_digits_and_z() -> None:
    assert format_iso8601(MORNING_MS) == "2026-11-20T08:00:00.000Z"
    assert format_iso8601(MORNING_MS + 7) == "2026-11-20T08:00:00.007Z"
    assert format_iso8601(-1) == "1969-12-31T23:59:59.999Z"


@given(moments)
def test_what_goes_out_comes_back_in(ms: int) -> None:
    assert parse_iso8601(format_iso8601(ms)) == ms


@given(st.text(alphabet="0123456789-+:.,TtZz /W\n", max_size=40) | st.text(max_size=40))
def test_any_text_is_a_moment_or_a_value_error(text: str) -> None:
    try:
        ms = parse_iso8601(text)
    except ValueError:
        return
    assert isinstance(ms, int)


@pytest.mark.parametrize("ms", [-62_135_596_800_000, 253_402_300_799_999])
def test_a_moment_is_what_can_be_written(ms: int) -> None:
    format_iso8601(ms)
    assert are_moments(ms, None)
    beyond = ms - 1 if ms < 0 else ms + 1
    assert not are_moments(0, beyond)
    with pytest.raises(OverflowError):
        format_iso8601(beyond)
