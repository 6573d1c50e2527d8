"""What comes in and what goes out, in the names that clients see. Times are ISO 8601 strings."""

from __future__ import annotations

import msgspec

from scheduler.errors import FieldError
from scheduler.ids import invocation_id
from scheduler.models import LogEntry, Status, Usage
from scheduler.times import format_iso8601

ABSENT = msgspec.Raw(b"null")


class SchedulePayload(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """The body of POST /schedule, typed and not yet judged. Null is as good as absent for all
    that is optional; `target_body` is the JSON text as it came in."""

    target_url: str | msgspec.UnsetType = msgspec.UNSET
    trigger_at: str | msgspec.UnsetType = msgspec.UNSET
    target_method: str | None = None
    target_headers: dict[str, str] | None = None
    target_body: msgspec.Raw = ABSENT
    delivery: str | None = None
    expires_at: str | None = None


class Body(msgspec.Struct, rename="camel", frozen=True):
    """Base of all that goes out."""


class ErrorBody(Body, frozen=True):
    error: str


class DetailedErrorBody(Body, frozen=True):
    error: str
    details: list[FieldError]


class ConflictBody(Body, frozen=True):
    error: str
    status: Status


class CreatedBody(Body, frozen=True):
    schedule_id: str
    invocation_id: str
    message: str


class CancelledBody(Body, frozen=True):
    schedule_id: str
    credits_remaining: int
    message: str
    status: Status = Status.CANCELLED


class CreditsBody(Body, frozen=True):
    credits_remaining: int


class HealthBody(Body, frozen=True):
    status: str


class TimeRangeBody(msgspec.Struct, frozen=True):
    """`from` is inclusive, `to` exclusive."""

    from_: str = msgspec.field(name="from")
    to: str


class UsageBody(Body, frozen=True):
    total_invocations: int
    successful_invocations: int
    failed_invocations: int
    average_response_time: float
    time_range: TimeRangeBody


class LogEntryBody(Body, frozen=True):
    invocation_id: str
    schedule_id: str
    created_at: str
    scheduled_at: str
    executed_at: str | None
    target_url: str
    target_method: str
    status: Status
    status_code: int
    response_time_ms: int
    error_message: str


class LogsBody(Body, frozen=True):
    logs: list[LogEntryBody]
    next_cursor: str | None


def usage_body(usage: Usage) -> UsageBody:
    return UsageBody(
        total_invocations=usage.executed,
        successful_invocations=usage.completed,
        failed_invocations=usage.failed,
        average_response_time=usage.average_response_time_ms,
        time_range=TimeRangeBody(format_iso8601(usage.from_ms), format_iso8601(usage.to_ms)),
    )


def log_entry_body(entry: LogEntry) -> LogEntryBody:
    executed = entry.executed_at_ms
    return LogEntryBody(
        invocation_id=invocation_id(entry.schedule_id),
        schedule_id=entry.schedule_id,
        created_at=format_iso8601(entry.created_at_ms),
        scheduled_at=format_iso8601(entry.scheduled_at_ms),
        executed_at=None if executed is None else format_iso8601(executed),
        target_url=entry.url,
        target_method=entry.method,
        status=entry.status,
        status_code=entry.status_code,
        response_time_ms=entry.response_time_ms,
        error_message=entry.error_message,
    )
