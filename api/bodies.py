"""What goes out, in the names that clients see. Times are ISO 8601 strings."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType

from api.fields import SHOWN, moment
from api.findings import MOST_LISTED, MOST_LISTED_OF_A_CALL, MOST_UNKNOWN
from api.masks import masked_url
from scheduler.errors import FieldError
from scheduler.ids import invocation_id
from scheduler.models import LogEntry, LogStatus, Phases, Schedule, SigningSecret, Status, Usage
from scheduler.store.lifecycle.cancel import Cancelled
from scheduler.times import format_iso8601

# What is said of them in the OpenAPI document; nothing is judged by it.
_SUFFIX = "[0-7][0-9a-hjkmnp-tv-z]{25}$"
ScheduleId = Annotated[str, msgspec.Meta(pattern=f"^sch_{_SUFFIX}")]
# One of many, as the request had it, schedule id or not; of a long one the beginning.
GivenId = Annotated[str, msgspec.Meta(description="As it was given, or how that begins.")]
InvocationId = Annotated[str, msgspec.Meta(pattern=f"^inv_{_SUFFIX}")]
Details = Annotated[
    list[FieldError],
    msgspec.Meta(
        max_length=MOST_LISTED + 1,
        description=f"The first {MOST_LISTED} bad fields, of unknown names the first "
        f"{MOST_UNKNOWN}; in all items of a call together the first {MOST_LISTED_OF_A_CALL}. Where "
        "there are more, the last entry has the field `…` and the message `and N more`.",
    ),
]
Moment = Annotated[str, msgspec.Meta(extra_json_schema={"format": "date-time"})]


class Body(msgspec.Struct, rename="camel", frozen=True):
    """Base of all that goes out."""


class ErrorBody(Body, frozen=True):
    error: str


class DetailedErrorBody(ErrorBody, frozen=True):
    details: Details


class ConflictBody(ErrorBody, frozen=True):
    status: Status


class AcceptedBody(Body, frozen=True):
    """A request that was stored."""

    schedule_id: ScheduleId
    invocation_id: InvocationId


class CreatedBody(AcceptedBody, frozen=True):
    message: str


class RefusedBody(Body, frozen=True):
    """An item of a batch that was not stored; `code` is what it would have got on its own."""

    code: int
    error: str
    details: Details


class BatchBody(Body, frozen=True):
    """An answer for each item, in order."""

    schedules: list[Any]  # AcceptedBody or RefusedBody: a union that msgspec could not decode


class PhasesBody(Body, frozen=True):
    """How long each part of the last attempt took, in milliseconds; null where there was no such
    part, or it was not come to. In this order they follow on one another, and the last that is not
    null is the one in which the attempt ended. resolveMs is null where the host is an address, or
    was known from a moment ago; it and the next two are null where connectionReused is true.
    firstByteMs is from the request on, lastByteMs from the first byte of the answer."""

    connection_reused: bool
    resolve_ms: int | None
    connect_ms: int | None
    tls_ms: int | None
    first_byte_ms: int | None
    last_byte_ms: int | None

    @classmethod
    def of(cls, phases: Phases) -> PhasesBody:
        return cls(phases.reused, *msgspec.structs.astuple(phases))


ScheduleBody = msgspec.defstruct(
    "ScheduleBody",
    [
        ("scheduleId", ScheduleId),
        ("invocationId", InvocationId),
        ("status", Status),
        ("createdAt", Moment),
        *(
            (field.name, Annotated[Any, msgspec.Meta(extra_json_schema=field.shown)])
            for field in SHOWN
        ),
        ("executedAt", Moment | None),
        ("statusCode", int | None),
        ("responseTimeMs", int | None),
        ("errorMessage", str | None),
        ("responseBody", str | None),
        ("responseContentType", str | None),
        ("phases", PhasesBody | None),
        ("attempts", int),
        ("nextAttemptAt", Moment | None),
        ("replayOf", ScheduleId | None),
        ("replayedAs", ScheduleId | None),
    ],
    frozen=True,
)
ScheduleBody.__doc__ = (
    "A schedule as it was asked for, and how it stands. What is known of its outcome is null until "
    "it has been executed, or an attempt has failed that is made again: then it is that attempt's, "
    "and nextAttemptAt says when the next one is. replayOf is what it is a replay of, replayedAs "
    "its own last replay. responseBody is how the target's answer began, if it failed with a body: "
    "what is not UTF-8 is replaced. phases is null for what completed within a second over a "
    "connection that was there."
)


def schedule_body(schedule: Schedule) -> msgspec.Struct:
    """Of a cancelled one there is no outcome; a mask stands for what is secret."""
    request, retry = schedule.request, schedule.retry
    outcome, at_ms = schedule.outcome, schedule.ended_at_ms
    if retry is not None:
        outcome, at_ms = retry.outcome, retry.failed_at_ms
    answer = outcome.answer if outcome else None
    return ScheduleBody(
        scheduleId=schedule.schedule_id,
        invocationId=invocation_id(schedule.schedule_id),
        status=schedule.status,
        createdAt=format_iso8601(schedule.created_at_ms),
        **{field.name: field.shown_of(request) for field in SHOWN},
        executedAt=moment(at_ms) if outcome else None,
        statusCode=outcome.status_code if outcome else None,
        responseTimeMs=outcome.response_time_ms if outcome else None,
        errorMessage=outcome.error_message if outcome else None,
        responseBody=answer.text if answer else None,
        responseContentType=answer.content_type if answer else None,
        phases=PhasesBody.of(outcome.phases) if outcome and outcome.phases else None,
        attempts=schedule.attempts,
        nextAttemptAt=moment(retry.due_at_ms) if retry else None,
        replayOf=request.replay_of,
        replayedAs=schedule.replayed_as,
    )


class SchedulesBody(Body, frozen=True):
    schedules: list[ScheduleBody]  # type: ignore[valid-type]
    next_cursor: str | None


class CancelledBody(Body, frozen=True):
    """`cancelled`; or `failed`, with what the last attempt came to, if there was one."""

    schedule_id: ScheduleId
    credits_remaining: int
    message: str
    status: Status
    status_code: int | UnsetType = UNSET
    response_time_ms: int | UnsetType = UNSET
    error_message: str | UnsetType = UNSET
    attempts: int | UnsetType = UNSET

    @classmethod
    def of(cls, schedule_id: str, cancelled: Cancelled) -> CancelledBody:
        left, stopped = cancelled
        if stopped is None:
            message = "Cancelled before execution; one credit was refunded"
            return cls(schedule_id, left, message, Status.CANCELLED)
        made = "1 attempt" if stopped.attempts == 1 else f"{stopped.attempts:,} attempts"
        outcome = stopped.outcome
        return cls(
            schedule_id=schedule_id,
            credits_remaining=left,
            message=f"Stopped after {made}; no credit was refunded",
            status=outcome.status,
            status_code=outcome.status_code,
            response_time_ms=outcome.response_time_ms,
            error_message=outcome.error_message,
            attempts=stopped.attempts,
        )


class ReplayBody(CreatedBody, frozen=True):
    """A new schedule, and what it is a replay of."""

    replay_of: ScheduleId


class ReplayedBody(AcceptedBody, frozen=True):
    """One of many that were replayed."""

    replay_of: ScheduleId


class UnreplayedBody(RefusedBody, frozen=True):
    """One of many that was not replayed; `code` is what it would have got on its own, or 409 if it
    was replayed before."""

    replay_of: GivenId


class ReplaysBody(Body, frozen=True):
    """An answer for each, in order."""

    schedules: list[Any]  # ReplayedBody or UnreplayedBody
    next_cursor: str | None


class CancelledItemBody(Body, frozen=True):
    """One of many that were cancelled; or stopped after an attempt, then its status is `failed`."""

    schedule_id: ScheduleId
    status: Status


class UncancelledBody(RefusedBody, frozen=True):
    """One of many that was not cancelled; `code` is what it would have got on its own, `status`
    what a 409 says."""

    schedule_id: GivenId
    status: Status | None


class CancelledManyBody(Body, frozen=True):
    """An answer for each, in order."""

    schedules: list[Any]  # CancelledItemBody or UncancelledBody
    credits_remaining: int
    next_cursor: str | None


class CreditsBody(Body, frozen=True):
    credits_remaining: int


class SecretBody(Body, frozen=True):
    """A signing secret; `expires_at` is null while nothing has been put in its place."""

    secret_id: str
    secret: str
    created_at: Moment
    expires_at: Moment | None

    @classmethod
    def of(cls, secret: SigningSecret) -> SecretBody:
        return cls(
            secret_id=secret.secret_id,
            secret=secret.secret,
            created_at=format_iso8601(secret.created_at_ms),
            expires_at=moment(secret.expires_at_ms),
        )


class SecretsBody(Body, frozen=True):
    secrets: list[SecretBody]


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

    @classmethod
    def of(cls, usage: Usage) -> UsageBody:
        return cls(
            total_invocations=usage.executed,
            successful_invocations=usage.completed,
            failed_invocations=usage.failed,
            average_response_time=usage.average_response_time_ms,
            time_range=TimeRangeBody(format_iso8601(usage.from_ms), format_iso8601(usage.to_ms)),
        )


class LogEntryBody(Body, frozen=True):
    invocation_id: InvocationId
    schedule_id: ScheduleId
    created_at: Moment
    scheduled_at: Moment
    executed_at: Moment | None
    target_url: str
    target_method: str
    status: LogStatus
    status_code: int
    response_time_ms: int
    error_message: str
    attempt: int
    next_attempt_at: Moment | None

    @classmethod
    def of(cls, entry: LogEntry) -> LogEntryBody:
        return cls(
            invocation_id=invocation_id(entry.schedule_id),
            schedule_id=entry.schedule_id,
            created_at=format_iso8601(entry.created_at_ms),
            scheduled_at=format_iso8601(entry.scheduled_at_ms),
            executed_at=moment(entry.executed_at_ms),
            target_url=masked_url(entry.url),
            target_method=entry.method,
            status=entry.status,
            status_code=entry.status_code,
            response_time_ms=entry.response_time_ms,
            error_message=entry.error_message,
            attempt=entry.attempt,
            next_attempt_at=moment(entry.next_attempt_at_ms),
        )


class LogsBody(Body, frozen=True):
    logs: list[LogEntryBody]
    next_cursor: str | None
