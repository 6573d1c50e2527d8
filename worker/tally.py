"""What a worker's fires came to, counted as they end."""

from __future__ import annotations

from collections import deque

from metrics.families import Histogram
from scheduler import ids
from scheduler.models import Invocation, Outcome
from worker.send.outcome import Failure

_LATENESS_MS = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 15_000, 60_000, 300_000)
_DURATION_MS = (1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000)
# One so late may have been created late: a `triggerAt` in the past is no lateness of ours.
_ASKED_MS = 100
# Ended unsent: no attempt was made.
_UNSENT = (Failure.EXPIRED, Failure.LOST)
_NAMES = {failure.value: failure.name.lower() for failure in Failure}
_BEATS_KEPT = 60
# Of an exchange without an answer.
NO_ANSWER = 0


class Tally:
    """Durations by class of status code (2 for 2xx, `NO_ANSWER`); why others had no answer."""

    def __init__(self) -> None:
        self.durations_ms = {code: Histogram(_DURATION_MS) for code in (NO_ANSWER, 1, 2, 3, 4, 5)}
        self.lateness_ms = Histogram(_LATENESS_MS)
        self.failures: dict[str, int] = {}
        self._before: deque[tuple[int, float]] = deque(maxlen=_BEATS_KEPT)
        self._latest_ms = -1  # since the last heartbeat; -1 if nothing was sent
        self._latest_before_ms: deque[int] = deque(maxlen=_BEATS_KEPT)

    def note(self, invocation: Invocation, outcome: Outcome, late_ms: int | None) -> None:
        """`late_ms` is None if nothing was sent: a target that gave no connection was not ours to
        be late at. `lateness_ms` is of first attempts; others wait for what went before."""
        if late_ms is not None:
            if late_ms > self._latest_ms:
                self._latest_ms = late_ms
            if invocation.attempt == 1:
                if late_ms > _ASKED_MS:
                    # Only the time in which the schedule was there to be fired.
                    created_ms = ids.created_at_ms(invocation.schedule_id)
                    from_ms = invocation.due_at_ms
                    if invocation.slot_us is not None:
                        from_ms = invocation.starts_at_us // 1000
                    made_late_ms = late_ms + from_ms - created_ms
                    late_ms = max(0, min(late_ms, made_late_ms))
                self.lateness_ms.note(late_ms)
        code = outcome.status_code
        if code:
            # A target may answer 999: that is of the worst class.
            self.durations_ms[min(code // 100, 5)].note(outcome.response_time_ms)
        else:
            self._note_failure(outcome)

    def worst_lateness_ms(self) -> int | None:
        """Over the last minute; None if nothing was sent. Ask once a heartbeat: a call counts."""
        self._latest_before_ms.append(self._latest_ms)
        self._latest_ms = -1
        worst = max(self._latest_before_ms)
        return None if worst < 0 else worst

    def recent_mean_s(self) -> float:
        """How long an exchange took, over the last minute; 0 if there was none. Asked once a
        heartbeat: each time counts as one."""
        count = sum(each.count for each in self.durations_ms.values())
        total_ms = sum(each.total for each in self.durations_ms.values())
        count_before, total_ms_before = self._before[0] if self._before else (0, 0.0)
        self._before.append((count, total_ms))
        return (total_ms - total_ms_before) / 1000 / max(1, count - count_before)

    def _note_failure(self, outcome: Outcome) -> None:
        said = outcome.error_message
        other = "timeout" if said.startswith("Timeout") else "other"
        name = _NAMES.get(said.partition(":")[0], other)
        self.failures[name] = self.failures.get(name, 0) + 1
        if said not in _UNSENT:
            self.durations_ms[NO_ANSWER].note(outcome.response_time_ms)
