"""What a worker's fires are counted as."""

from __future__ import annotations

import pytest

from scheduler import ids
from scheduler.models import Invocation, Outcome, Request, Status
from worker.send.outcome import Failure, answered, failed, timed_out
from worker.tally import NO_ANSWER, Tally

NOW_MS = 1_800_000_000_000
COMPLETED = Outcome(Status.COMPLETED, 200, 7, "")


def invocation(*, attempt: int = 1, due_in_ms: int = 0) -> Invocation:
    """Of a schedule that was made at `NOW_MS`."""
    [schedule_id] = ids.new_schedule_ids(1, NOW_MS)
    request = Request(NOW_MS + due_in_ms, "GET", "http://example.com/")
    return Invocation(0, "acc_00_x", schedule_id, "1", attempt, 0.0, request, request.trigger_at_ms)


MADE_UP = Outcome(Status.FAILED, 0, 0, "whatever an account could make up")


@pytest.mark.parametrize(
    ("outcome", "code", "name"),
    [
        (answered(204, "", 3), 2, None),
        (answered(999, "", 3), 5, None),
        (timed_out(30_000), NO_ANSWER, "timeout"),
        (failed(Failure.REFUSED, 3), NO_ANSWER, "refused"),
        (MADE_UP, NO_ANSWER, "other"),
    ],
)
def test_a_duration_is_counted_by_its_class_and_no_answer_by_a_name_of_ours(
    outcome: Outcome, code: int, name: str | None
) -> None:
    tally = Tally()
    tally.note(invocation(), outcome, 0)
    assert [of for of, each in tally.durations_ms.items() if each.count] == [code]
    assert tally.durations_ms[code].total == outcome.response_time_ms
    assert tally.failures == ({name: 1} if name else {})


@pytest.mark.parametrize(
    ("due_in_ms", "late_ms", "ours_ms"),
    [
        (-3_600_000, 3_600_020, 20),  # it came an hour late
        (60_000, 5_000, 5_000),
        (-3_600_000, 3_599_000, 0),  # clocks that differ
    ],
)
def test_what_came_late_is_late_from_then_on(due_in_ms: int, late_ms: int, ours_ms: int) -> None:
    tally = Tally()
    tally.note(invocation(due_in_ms=due_in_ms), COMPLETED, late_ms)
    assert tally.lateness_ms.total == ours_ms


def test_the_mean_is_of_the_last_minute() -> None:
    tally = Tally()
    assert tally.recent_mean_s() == 0
    for _ in range(10):
        tally.note(invocation(), Outcome(Status.COMPLETED, 200, 500, ""), 0)
    assert tally.recent_mean_s() == 0.5
    for _ in range(59):
        tally.recent_mean_s()
    assert tally.recent_mean_s() == 0
    tally.note(invocation(), Outcome(Status.COMPLETED, 200, 100, ""), 0)
    assert tally.recent_mean_s() == pytest.approx(0.1)


def test_the_worst_lateness_of_the_last_minute_is_known() -> None:
    tally = Tally()
    for late_ms in (3, 70, None, 0):
        tally.note(invocation(attempt=2), COMPLETED, late_ms)
    assert tally.worst_lateness_ms() == 70
    tally.note(invocation(), COMPLETED, 5)
    worst = [tally.worst_lateness_ms() for _ in range(61)]
    assert worst[:59] == [70] * 59
    assert worst[59:] == [5, None]
