"""What comes in and what goes out, in the names that clients see. Times are ISO 8601 strings."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from scheduler.errors import FieldError
from scheduler.models import Delivery, Status

ABSENT = msgspec.Raw(b"null")

# What is said of them in the OpenAPI document; nothing is judged by it.
_SUFFIX = "[0-7][0-9a-hjkmnp-tv-z]{25}$"
ScheduleId = Annotated[str, msgspec.Meta(pattern=f"^sch_{_SUFFIX}")]
InvocationId = Annotated[str, msgspec.Meta(pattern=f"^inv_{_SUFFIX}")]
Moment = Annotated[str, msgspec.Meta(extra_json_schema={"format": "date-time"})]


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


class ChangePayload(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """The body of PATCH /schedule/{scheduleId}: the same fields, all of them optional. Here null
    is not absent: it clears what can be cleared."""

    target_url: str | msgspec.UnsetType = msgspec.UNSET
    trigger_at: str | msgspec.UnsetType = msgspec.UNSET
    target_method: str | msgspec.UnsetType | None = msgspec.UNSET
    target_headers: dict[str, str] | msgspec.UnsetType | None = msgspec.UNSET
    target_body: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    delivery: str | msgspec.UnsetType | None = msgspec.UNSET
    expires_at: str | msgspec.UnsetType | None = msgspec.UNSET


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
    schedule_id: ScheduleId
    invocation_id: InvocationId
    message: str


class RefusedBody(Body, frozen=True):
    """An item of a batch that was not stored; `code` is what it would have got on its own."""

    code: int
    error: str
    details: list[FieldError]


class AcceptedBody(Body, frozen=True):
    """An item of a batch that was stored."""

    schedule_id: ScheduleId
    invocation_id: InvocationId


class BatchBody(Body, frozen=True):
    """An answer for each item, in order."""

    schedules: list[Any]  # AcceptedBody or RefusedBody: a union that msgspec could not decode


class ScheduleBody(Body, frozen=True):
    """A schedule as it was asked for, and how it stands. What is known of its outcome is null
    until it has been executed."""

    schedule_id: ScheduleId
    invocation_id: InvocationId
    status: Status
    created_at: Moment
    trigger_at: Moment
    target_url: str
    target_method: str
    target_headers: dict[str, str]
    target_body: msgspec.Raw
    delivery: Delivery
    expires_at: Moment | None
    executed_at: Moment | None
    status_code: int | None
    response_time_ms: int | None
    error_message: str | None


class SchedulesBody(Body, frozen=True):
    schedules: list[ScheduleBody]
    next_cursor: str | None


class CancelledBody(Body, frozen=True):
    schedule_id: ScheduleId
    credits_remaining: int
    message: str
    status: Status = Status.CANCELLED


class CreditsBody(Body, frozen=True):
    credits_remaining: int


class HealthBody(Body, frozen=True):
    status: str


class TimeRangeBody(msgspec.Struct, frozen=True):
    """`from` is inclusive, `to` exclusive."""

    from_: Moment = msgspec.field(name="from")
    to: Moment


class UsageBody(Body, frozen=True):
    total_invocations: int
    successful_invocations: int
    failed_invocations: int
    average_response_time: float
    time_range: TimeRangeBody


class LogEntryBody(Body, frozen=True):
    invocation_id: InvocationId
    schedule_id: ScheduleId
    created_at: Moment
    scheduled_at: Moment
    executed_at: Moment | None
    target_url: str
    target_method: str
    status: Status
    status_code: int
    response_time_ms: int
    error_message: str


class LogsBody(Body, frozen=True):
    logs: list[LogEntryBody]
    next_cursor: str | None
