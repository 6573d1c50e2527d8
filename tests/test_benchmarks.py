"""Rules of the benchmarks that a run does not show. Speed itself is asserted nowhere."""

from __future__ import annotations

import pytest

from benchmarks import trend
from benchmarks.support import rounds
from benchmarks.support.windows import most_at_once, most_within


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0], False),
        ([80.0, 100.0, 90.0], False),
        ([79.0, 100.0, 90.0], True),
        ([0.0, 0.0], False),
        ([0.0, 1.0], True),
    ],
)
def test_rounds_that_differ_by_more_than_a_quarter_are_noise(
    values: list[float], expected: bool
) -> None:
    assert rounds.are_noise(values) is expected
    said = rounds.noise({"rate": value, "steady": 1.0} for value in values)
    assert said.startswith("rate ") is expected
    assert "steady" not in said


def test_a_loss_is_told_from_noise() -> None:
    slow, fast, noise = [80.0, 79.0, 90.0], [100.0, 99.0, 101.0], [80.0, 50.0, 90.0]
    assert trend.verdict("burst_per_second", slow, fast) == "WORSE"
    assert trend.verdict("burst_worker_us", slow, fast) == "better"
    assert trend.verdict("burst_worker_us", fast, [95.0, 90.0, 99.0]) == ""
    assert trend.verdict("burst_per_second", noise, fast) == "WORSE; noise, 50 to 90"
    assert trend.verdict("burst_per_second", [70.0, 50.0, 99.5], fast) == "noise, 50 to 99.5"
    assert trend.verdict("burst_per_second", slow, noise) == "before: noise, 50 to 90"
    assert trend.verdict("burst_per_second", slow, None) == ""


@pytest.mark.parametrize(
    ("moments_ms", "expected"),
    [
        ([], 0),
        ([5.0], 1),
        ([0.0, 1000.0, 2000.0], 1),  # a window's end is the next one's begin
        ([999.9, 0.0, 500.0, 1000.0], 3),
        ([*range(0, 5000, 10), 4005], 101),
    ],
)
def test_the_fullest_window_lies_anywhere(moments_ms: list[float], expected: int) -> None:
    assert most_within(moments_ms, 1000) == expected


@pytest.mark.parametrize(
    ("spans_ms", "expected"),
    [
        ([], 0),
        ([(0.0, 5.0), (5.0, 9.0)], 1),
        ([(0.0, 5.0), (4.9, 9.0), (1.0, 2.0)], 2),
        ([(0.0, 9.0), (1.0, 9.0), (2.0, 3.0), (4.0, 5.0)], 3),
    ],
)
def test_exchanges_at_once_are_those_that_overlap(
    spans_ms: list[tuple[float, float]], expected: int
) -> None:
    assert most_at_once(spans_ms) == expected
