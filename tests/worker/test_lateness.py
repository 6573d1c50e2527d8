"""How late a worker says that it has been."""

from __future__ import annotations

from worker.presence import Lateness


def test_nothing_fired_is_not_on_time() -> None:
    assert Lateness().worst_ms() is None


def test_the_worst_of_the_last_minute_is_told() -> None:
    lateness = Lateness()
    for late_ms in (3, 70, 0):
        lateness.note(late_ms)
    assert lateness.worst_ms() == 70
    lateness.note(5)
    told = [lateness.worst_ms() for _ in range(61)]
    assert told[:59] == [70] * 59
    assert told[59:] == [5, None]
