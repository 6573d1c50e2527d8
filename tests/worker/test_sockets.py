"""How many files a process may have open, and what it does with them."""

from __future__ import annotations

import pytest

from worker.sockets import Budget, budget_of, fires_at_once


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (65_536, Budget(sockets=65_280, fires=57_120, spares=8_160)),
        (1024, Budget(sockets=768, fires=672, spares=96)),
        (100, Budget(sockets=50, fires=44, spares=6)),
    ],
)
def test_fires_and_their_second_attempts_fit_and_leave_room(files: int, expected: Budget) -> None:
    assert budget_of(files) == expected
    assert expected.fires + expected.spares == expected.sockets


def test_no_more_fires_at_once_than_there_are_sockets_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda which: (1024, 1024))
    assert fires_at_once(4096) == 672
    assert fires_at_once(100) == 100
