"""A request as a line of a list and as the panel's subject, of its schedule. Pure."""

from __future__ import annotations

from api.dashboard.causes import Late
from scheduler.callbacks import CallbackState, CallbackStatus
from scheduler.lane_settings import HeldBy
from scheduler.models import LogEntry, LogStatus, Schedule
from scheduler.target.targets import split_url


class Entry(LogEntry, frozen=True):
    """A request: of its schedule while that is kept, and after that of the log."""

    schedule: Schedule | None = None

    @property
    def state(self) -> str:
        """When it changes, the panel is loaded anew."""
        word = "executing" if self.executing else self.status.value
        callback = self.callback
        stands = f"-{callback.status}-{callback.attempts}" if callback else ""
        held = f"-{self.held_by.cause}" if self.held_by else ""
        return f"{word}-{self.attempt}{stands}{held}"

    @property
    def callback(self) -> CallbackState | None:
        return self.schedule.callback if self.schedule else None

    @property
    def may_change(self) -> bool:
        """Whether the panel asks for news of it."""
        reports = self.callback is not None and self.callback.status is CallbackStatus.PENDING
        return not self.has_ended or reports

    @property
    def waits(self) -> bool:
        return self.status is LogStatus.SCHEDULED and not self.executing

    @property
    def held_by(self) -> HeldBy | None:
        return self.schedule.held_by if self.schedule else None

    def late(self, now_ms: int) -> Late:
        """Of its last attempt; in a lane `lateness_ms` counts from its slot."""
        due_ms, until_ms = self.scheduled_at_ms, self.started_ms(now_ms)
        slot_ms = due_ms
        if self.lateness_ms is not None and self.attempt > 1:
            due_ms = slot_ms = until_ms - self.lateness_ms
        elif self.lateness_ms is not None and self.lane is not None:
            slot_ms = until_ms - self.lateness_ms
        return Late(due_ms, slot_ms, until_ms, self.lane)

    @property
    def has_ended(self) -> bool:
        return self.status is not LogStatus.SCHEDULED

    @property
    def was_retried(self) -> bool:
        """Whether there may be several attempts; an entry of one is itself."""
        if self.schedule is not None and (self.schedule.retry or self.schedule.stopped):
            return True
        several = self.attempt > 1 or self.before_ms is not None
        return several and self.status is not LogStatus.RETRYING

    @property
    def sent_ms(self) -> int | None:
        """Of a later attempt only how late it was is kept; in a lane that counts from its slot."""
        if self.lateness_ms is None or self.attempt > 1 or self.lane is not None:
            return None
        return self.scheduled_at_ms + self.lateness_ms

    def started_ms(self, now_ms: int) -> int:
        """About when its last attempt was sent, or ended unsent; this moment while it waits."""
        if not self.has_ended or self.status is LogStatus.CANCELLED:
            return self.at_ms if self.has_ended else now_ms
        if self.lateness_ms is None:
            return self.at_ms
        return max(self.scheduled_at_ms + self.lateness_ms, self.at_ms - self.response_time_ms)

    @property
    def host(self) -> str:
        return split_url(self.url)[0]


def entry_of(schedule: Schedule) -> Entry:
    outcome, request = schedule.outcome, schedule.request
    return Entry(
        schedule_id=schedule.schedule_id,
        created_at_ms=schedule.created_at_ms,
        scheduled_at_ms=schedule.due_at_ms,
        executed_at_ms=schedule.ended_at_ms if outcome else None,
        url=request.url,
        method=request.method,
        status=LogStatus(schedule.status.value),
        status_code=outcome.status_code if outcome else 0,
        response_time_ms=outcome.response_time_ms if outcome else 0,
        error_message=outcome.error_message if outcome else "",
        at_ms=schedule.due_at_ms if schedule.ended_at_ms is None else schedule.ended_at_ms,
        lateness_ms=schedule.lateness_ms,
        attempt=schedule.attempts,
        executing=schedule.executing,
        lane=request.lane,
        reference=request.reference,
        labels=request.labels,
        recurring_id=request.recurring.recurring_id if request.recurring else None,
        schedule=schedule,
    )
