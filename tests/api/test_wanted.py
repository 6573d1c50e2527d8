"""How many workers there should be."""

from __future__ import annotations

import pytest

from api.metrics_source import workers_wanted


@pytest.mark.parametrize(
    ("overdue", "coming", "wanted"),
    [
        (0, [], 1),
        (0, [0, 0, 21_000], 1),  # 700 a second is what one worker does with ease
        (0, [0, 0, 21_001], 2),  # the wave is a minute away
        (21_000, [21_000, 0, 0], 2),  # a backlog beside what comes anyway
        (2_100_000, [0], 100),
    ],
)
def test_the_worst_window_decides(overdue: int, coming: list[float], wanted: int) -> None:
    assert workers_wanted(overdue, coming, 30.0, 1000.0) == wanted
