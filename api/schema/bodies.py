"""What goes out, in the names that clients see. Times are ISO 8601 strings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from api.request_ids import PATTERN as REQUEST_ID
from api.schema.fields import SHOWN
from api.schema.findings import MOST_LISTED, MOST_LISTED_OF_A_CALL, MOST_UNKNOWN
from api.schema.shapes import Moment, Shape
from scheduler.callbacks import CallbackState, CallbackStatus
from scheduler.errors import FieldError, Reason
from scheduler.ids import invocation_id
from scheduler.lanes import LANE_PATTERN, HoldCause
from scheduler.masks import masked_url
from scheduler.models import LogEntry, LogStatus, Schedule, Status
from scheduler.store.idempotency import Placed
from scheduler.store.lifecycle.create.replays import reason_against
from scheduler.store.lifecycle.end.cancel import Cancellations
from scheduler.times import format_iso8601

# Only the OpenAPI document uses these annotations.
_SUFFIX = "[0-7][0-9a-hjkmnp-tv-z]{25}$"
ScheduleId = Annotated[str, msgspec.Meta(pattern=f"^sch_{_SUFFIX}")]
RecurringId = Annotated[str, msgspec.Meta(pattern=f"^rec_{_SUFFIX}")]
# Empty where a log entry is of no schedule.
_LoggedSchedule = Annotated[str, msgspec.Meta(pattern=f"^$|^sch_{_SUFFIX}")]
_LoggedInvocation = Annotated[str, msgspec.Meta(pattern=f"^$|^inv_{_SUFFIX}")]
GivenId = Annotated[
    str, msgspec.Meta(description="As it was given; if that is too long, the beginning of it.")
]
InvocationId = Annotated[str, msgspec.Meta(pattern=f"^inv_{_SUFFIX}")]
LaneName = Annotated[str, msgspec.Meta(pattern=f"^{LANE_PATTERN}$")]
RequestId = Annotated[str, msgspec.Meta(pattern=REQUEST_ID)]
Details = Annotated[
    list[FieldError],
    msgspec.Meta(
        max_length=MOST_LISTED + 1,
        description=f"The first {MOST_LISTED} bad fields, of unknown names the first "
        f"{MOST_UNKNOWN}; in all items of a call together the first {MOST_LISTED_OF_A_CALL}. Where "
        "there are more, the last entry has the field `…` and the message `and N more`.",
    ),
]


NotReplayable = Literal["not_ended", "body_not_kept"]


class Body(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """Base of all that goes out."""


class ErrorBody(Body, frozen=True):
    """`error` is a sentence for people, `reason` a word for programs; `requestId` is that of the
    header `Postdate-Request-Id`."""

    error: str
    reason: Reason
    request_id: RequestId


class DetailedErrorBody(ErrorBody, frozen=True):
    details: Details


class ConflictBody(ErrorBody, frozen=True):
    """`status` is that of the schedule, if the conflict is about one."""

    status: Status | UnsetType = UNSET


class AcceptedBody(Body, frozen=True):
    """A request that was stored."""

    schedule_id: ScheduleId
    invocation_id: InvocationId
    trigger_at: Moment


class ExistingBody(AcceptedBody, frozen=True):
    """A schedule that waited already, and was kept or has this request now; `triggerAt` is when it
    is due."""

    existing: bool


def existing_body(placed: Placed) -> ExistingBody:
    due_at = format_iso8601(placed.due_ms)
    return ExistingBody(placed.schedule_id, invocation_id(placed.schedule_id), due_at, True)


class CreatedBody(AcceptedBody, frozen=True):
    message: str


class RefusedBody(Body, frozen=True):
    """An item of a batch that was not stored; `code` is the status of a call of its own."""

    code: int
    error: str
    reason: Reason
    details: Details


class BatchBody(Body, frozen=True):
    """An answer for each item, in order."""

    schedules: list[Any]  # AcceptedBody or RefusedBody: a union that msgspec could not decode


def _invocation_id(value: Schedule | LogEntry) -> str:
    return invocation_id(value.schedule_id) if value.schedule_id else ""


PHASES = Shape(
    "PhasesBody",
    {
        "connectionReused": (bool, "reused"),
        "resolveMs": (int | None, "resolve_ms"),
        "connectMs": (int | None, "connect_ms"),
        "tlsMs": (int | None, "tls_ms"),
        "firstByteMs": (int | None, "first_byte_ms"),
        "lastByteMs": (int | None, "last_byte_ms"),
    },
    "The parts of the response time, in milliseconds and in this order. A part is null if it did "
    "not occur or was not reached: the attempt ended in the last one that is not null.",
)


def _of_an_attempt(name: str) -> Callable[[CallbackState], Any]:
    """Null before the first attempt."""
    return lambda state: getattr(state, name) if state.attempts else None


CALLBACK = Shape(
    "CallbackBody",
    {
        "status": (CallbackStatus, "status"),
        "attempts": (int, "attempts"),
        "statusCode": (int | None, _of_an_attempt("status_code")),
        "errorMessage": (str | None, _of_an_attempt("error_message")),
        "nextAttemptAt": (Moment | None, "next_attempt_at_ms"),
    },
    "The state of a report. Status code and error are those of the last attempt, and null before "
    "the first; the status code is 0 without an answer.",
)
HELD_BY = Shape(
    "HeldByBody",
    {
        "cause": (HoldCause, "cause"),
        "lane": (str | None, "lane"),
        "until": (Moment | None, "until_ms"),
        "estimated": (bool, "estimated"),
        "ahead": (int | None, "ahead"),
    },
    "The cause that keeps a due schedule from starting. Of several causes, it is the first of the "
    "list: causes that somebody has to end come before causes that end by themselves.",
)
SCHEDULE = Shape(
    "ScheduleBody",
    {
        "scheduleId": (ScheduleId, "schedule_id"),
        "invocationId": (InvocationId, _invocation_id),
        "status": (Status, "status"),
        "createdAt": (Moment, "created_at_ms"),
        **{
            field.name: (
                Annotated[Any, msgspec.Meta(extra_json_schema=field.shown)],
                field.shown_of,
            )
            for field in SHOWN
        },
        "executedAt": (Moment | None, "executed_at_ms"),
        "statusCode": (int | None, "last_outcome.status_code"),
        "responseTimeMs": (int | None, "last_outcome.response_time_ms"),
        "errorMessage": (str | None, "last_outcome.error_message"),
        "responseBody": (str | None, "last_outcome.answer.text"),
        "responseContentType": (str | None, "last_outcome.answer.content_type"),
        "phases": (
            PHASES.type | None,
            lambda schedule: PHASES.of(
                each.known_phases if (each := schedule.last_outcome) else None
            ),
        ),
        "attempts": (int, "attempts"),
        "nextAttemptAt": (Moment | None, "retry.due_at_ms"),
        "heldBy": (HELD_BY.type | None, lambda schedule: HELD_BY.of(schedule.held_by)),
        "callback": (CALLBACK.type | None, lambda schedule: CALLBACK.of(schedule.callback)),
        "recurringId": (RecurringId | None, "request.recurring.recurring_id"),
        "slot": (Moment | None, "request.recurring.slot_ms"),
        "replayOf": (ScheduleId | None, "request.replay_of"),
        "replayedAs": (ScheduleId | None, "replayed_as"),
        "replayable": (bool, lambda schedule: reason_against(schedule) is None),
        "notReplayableReason": (NotReplayable | None, reason_against),
    },
    "A schedule as it was created, and its state. Its outcome is null until an attempt was made; "
    "while it waits for another attempt, it is that of the last one.",
)


class SchedulesBody(Body, frozen=True):
    schedules: list[SCHEDULE.type]  # type: ignore[name-defined]
    next_cursor: str | None


class CancelledBody(Body, frozen=True):
    """The status is `cancelled`; or `failed`, with the outcome of the last attempt, if any."""

    schedule_id: ScheduleId
    credits_remaining: int
    message: str
    status: Status
    status_code: int | UnsetType = UNSET
    response_time_ms: int | UnsetType = UNSET
    error_message: str | UnsetType = UNSET
    attempts: int | UnsetType = UNSET

    @classmethod
    def of(cls, cancelled: Cancellations) -> CancelledBody:
        [(schedule_id, _, stopped, *_)], left, *_ = cancelled
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
    """A new schedule, and the one that it replays."""

    replay_of: ScheduleId


class ReplayedBody(AcceptedBody, frozen=True):
    """One of many that were replayed."""

    replay_of: ScheduleId


class UnreplayedBody(RefusedBody, frozen=True):
    """One of many that was not replayed; `code` is the status of a call of its own, or 409 if it
    was replayed before."""

    replay_of: GivenId


class ReplaysBody(Body, frozen=True):
    """An answer for each, in order."""

    schedules: list[Any]  # ReplayedBody or UnreplayedBody
    next_cursor: str | None


class CancelledItemBody(Body, frozen=True):
    """One of many that were cancelled, or stopped after an attempt: then its status is `failed`."""

    schedule_id: ScheduleId
    status: Status


class UncancelledBody(RefusedBody, frozen=True):
    """One of many that was not cancelled; `code` is the status of a call of its own. With a 409,
    `status` is that of the schedule."""

    schedule_id: GivenId
    status: Status | None


class CancelledManyBody(Body, frozen=True):
    """An answer for each, in order. To stop the next occurrences that a filter leaves out, pause
    their recurring schedules."""

    schedules: list[Any]  # CancelledItemBody or UncancelledBody
    credits_remaining: int
    next_cursor: str | None
    occurrences_left: int


class ResentBody(Body, frozen=True):
    """The callback of one of many, which is pending again; `nextAttemptAt` is when it is sent."""

    schedule_id: ScheduleId
    callback: CALLBACK.type  # type: ignore[name-defined]


class UnsentBody(RefusedBody, frozen=True):
    """One of many whose callback is not sent again; `code` is the status of a call of its own. With
    a 409, `status` is that of the schedule."""

    schedule_id: GivenId
    status: Status | None


class ResendsBody(Body, frozen=True):
    """An answer for each, in order."""

    schedules: list[Any]  # ResentBody or UnsentBody
    next_cursor: str | None


class HealthBody(Body, frozen=True):
    status: str


TIME_RANGE = Shape(
    "TimeRangeBody",
    {"from": (Moment, "from_ms"), "to": (Moment, "to_ms")},
    "`from` is inclusive, `to` exclusive.",
)
USAGE = Shape(
    "UsageBody",
    {
        "totalInvocations": (int, "executed"),
        "successfulInvocations": (int, "completed"),
        "failedInvocations": (int, "failed"),
        "averageResponseTime": (float, "average_response_time_ms"),
        "timeRange": (TIME_RANGE.type, TIME_RANGE.of),
    },
)
LOG_ENTRY = Shape(
    "LogEntryBody",
    {
        "invocationId": (_LoggedInvocation, _invocation_id),
        "scheduleId": (_LoggedSchedule, "schedule_id"),
        "createdAt": (Moment, "created_at_ms"),
        "scheduledAt": (Moment, "scheduled_at_ms"),
        "executedAt": (Moment | None, "executed_at_ms"),
        "targetUrl": (str, lambda entry: masked_url(entry.url)),
        "targetMethod": (str, "method"),
        "status": (LogStatus, "status"),
        "statusCode": (int, "status_code"),
        "responseTimeMs": (int, "response_time_ms"),
        "errorMessage": (str, "error_message"),
        "attempt": (int, "attempt"),
        "nextAttemptAt": (Moment | None, "next_attempt_at_ms"),
        "latenessMs": (int | None, "lateness_ms"),
        "phases": (PHASES.type | None, lambda entry: PHASES.of(entry.phases)),
        "responseBody": (str | None, "answer.text"),
        "lane": (str | None, "lane"),
        "reference": (str | None, "reference"),
        "labels": (tuple[str, ...], "labels"),
        "recurringId": (RecurringId | None, "recurring_id"),
        "missed": (int, "missed"),
    },
    "The end of a schedule, or one attempt; a `skipped` entry belongs to no schedule.",
)


class LogsBody(Body, frozen=True):
    logs: list[LOG_ENTRY.type]  # type: ignore[name-defined]
    next_cursor: str | None
