"""Rules of the benchmarks that a run does not show. Speed itself is asserted nowhere."""

from __future__ import annotations

import pytest

from benchmarks import rounds


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
