"""What the server answers. Times are datetimes in UTC."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Literal, Self, TypeAlias, TypeVar

from postdate._schema import CallbackOn, RequestFields
from postdate.errors import PostdateError

T = TypeVar("T")

Status: TypeAlias = Literal["scheduled", "completed", "failed", "cancelled"]
LogStatus: TypeAlias = Literal[
    "scheduled", "retrying", "completed", "failed", "cancelled", "skipped"
]
StatusFilter: TypeAlias = Status | Literal["executed"]
LogFilter: TypeAlias = LogStatus | Literal["executed", "all"]
LaneState: TypeAlias = Literal["open", "limited", "full", "calm", "paused"]
CallbackStatus: TypeAlias = Literal["pending", "delivered", "failed"]
HoldCause: TypeAlias = Literal[
    "service_hold",
    "account_suspended",
    "account_paused",
    "lane_paused",
    "no_worker",
    "lane_calm",
    "lane_parallelism",
    "lane_rate",
]
# What each means, for people; `{}` is the lane.
HELD_WORDS: Mapping[HoldCause, str] = {
    "service_hold": "the service is on hold",
    "account_suspended": "the account is suspended",
    "account_paused": "the account is paused",
    "no_worker": "no worker runs",
    "lane_paused": "lane {} is paused",
    "lane_calm": "lane {} is calm, as its target asked",
    "lane_parallelism": "lane {} runs as many as it may",
    "lane_rate": "lane {} has used up its rate",
}


@dataclass(frozen=True, slots=True)
class Created:
    """A schedule was stored, and is due at `trigger_at`. `replayed`: by an earlier request with the
    same idempotency key. `existing`: it waited already, and was kept or replaced, for no credit."""

    schedule_id: str
    invocation_id: str
    trigger_at: datetime
    message: str = ""
    replayed: bool = False
    existing: bool = False


@dataclass(frozen=True, slots=True)
class Replayed:
    """A new schedule of an ended one. `replayed`: by an earlier request with the same key."""

    schedule_id: str
    invocation_id: str
    trigger_at: datetime
    replay_of: str
    message: str = ""
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class Cancelled:
    """A schedule was cancelled, and its credit refunded; or it was stopped between two attempts:
    then `status` is failed, no credit came back, and the rest is about the last attempt."""

    schedule_id: str
    credits_remaining: int
    message: str = ""
    status: Status = "cancelled"
    status_code: int | None = None
    response_time_ms: int | None = None
    error_message: str | None = None
    attempts: int = 0


class CancelledMany(tuple[Cancelled | PostdateError, ...]):
    """A result for each, in order. `occurrences_left`: so many that matched were left out, because
    they are the next occurrences of recurring schedules: pause those instead."""

    occurrences_left: int

    def __new__(
        cls, results: Iterable[Cancelled | PostdateError] = (), occurrences_left: int = 0
    ) -> Self:
        made = super().__new__(cls, results)
        made.occurrences_left = occurrences_left
        return made


@dataclass(frozen=True, slots=True)
class Phases:
    """How long each part of an attempt took, in milliseconds; None for one that did not happen.
    They follow on one another: the attempt ended in the last that is not None. `first_byte_ms`
    counts from the request on, `last_byte_ms` from the first byte of the answer."""

    connection_reused: bool
    resolve_ms: int | None = None
    connect_ms: int | None = None
    tls_ms: int | None = None
    first_byte_ms: int | None = None
    last_byte_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Callback:
    """How far the report of an end has come. The status code, 0 without an answer, and the message
    are those of the last attempt, None before the first."""

    status: CallbackStatus
    attempts: int = 0
    status_code: int | None = None
    error_message: str | None = None
    next_attempt_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class HeldBy:
    """Why a due schedule does not start. `until` is when the cause ends, None if nobody knows;
    `estimated` says that it is an estimate. `lane` is the name of the lane that is the cause, and
    `ahead` how many of its schedules go first; both are None for other causes."""

    cause: HoldCause
    lane: str | None = None
    until: datetime | None = None
    estimated: bool = False
    ahead: int | None = None


@dataclass(frozen=True, slots=True)
class Resent:
    """The callback of a schedule is pending again; its `next_attempt_at` is when it is sent."""

    schedule_id: str
    callback: Callback


@dataclass(frozen=True, slots=True)
class Schedule(RequestFields):
    """A schedule as it stands. Header values that look like secrets are masked.

    `executed_at` to `error_message` are None before it was executed, and if it was cancelled;
    between two attempts they are those of the last one, and `next_attempt_at` is the next.
    `status_code` is 0 without an answer; `error_message` says why. `response_body` is the beginning
    of a failed answer's body, `response_content_type` its type. `retry_delays` are those that hold.
    `not_replayable_reason` is "not_ended" or "body_not_kept", or None where it is `replayable`.
    `callback_url` is "default" for the account's, and None for no callback; `callback_on` is None
    where the account says which ends. `callback` is None before the end, and if that is not
    reported. `held_by` is what keeps it from starting though it is due: None if nothing does.
    `recurring_id` is the recurring schedule that it is an occurrence of, `slot` the time by its
    rule: None if it was triggered or is a replay. `etag` is for `if_match`; None in a list.
    """

    schedule_id: str
    invocation_id: str
    status: Status
    created_at: datetime
    trigger_at: datetime
    expires_at: datetime | None = None
    executed_at: datetime | None = None
    status_code: int | None = None
    response_time_ms: int | None = None
    error_message: str | None = None
    attempts: int = 0
    next_attempt_at: datetime | None = None
    replay_of: str | None = None
    replayed_as: str | None = None
    replayable: bool = True
    not_replayable_reason: str | None = None
    response_body: str | None = None
    response_content_type: str | None = None
    phases: Phases | None = None
    callback: Callback | None = None
    recurring_id: str | None = None
    slot: datetime | None = None
    held_by: HeldBy | None = None
    etag: str | None = None


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane: its settings, None where there is no limit, and its state. `state` is what keeps
    something due from starting. Of the schedules in it, `waiting` are all that wait, `due` those of
    them that are due, the oldest since `oldest_due_at`, and `running` those that workers have.
    `calm_until`: a target asked for it with Retry-After. `paused_by` is the name of an API key,
    or "dashboard"; `pause_note` says why.
    `empty_at` estimates when all that waits will have started. `etag` is for `if_match`; None in a
    list."""

    lane: str
    rate: int | None = None
    per: str | None = None
    burst: int | None = None
    parallelism: int | None = None
    note: str | None = None
    paused: bool = False
    paused_until: datetime | None = None
    paused_by: str | None = None
    pause_note: str | None = None
    calm_until: datetime | None = None
    state: LaneState = "open"
    waiting: int = 0
    due: int = 0
    running: int = 0
    oldest_due_at: datetime | None = None
    empty_at: datetime | None = None
    etag: str | None = None


@dataclass(frozen=True, slots=True)
class ClearedLane:
    """`waiting` schedules go on without limits."""

    lane: str
    waiting: int
    message: str = ""


@dataclass(frozen=True, slots=True)
class Account:
    """`paused_until` is None for a pause without an end. `paused_by` is the name of an API key, or
    "dashboard"; `pause_note` says why. `callback_url` and `callback_on` are for schedules that name
    no `callback_url`. Its `plan` allows so many requests a second and stored bytes; None: no limit.
    `lanes` and `recurring` are how many it has. `etag` is for `if_match`."""

    paused: bool
    paused_until: datetime | None = None
    paused_by: str | None = None
    pause_note: str | None = None
    callback_url: str | None = None
    callback_on: CallbackOn | None = None
    plan: str = ""
    requests_per_second: int | None = None
    stored_bytes: int = 0
    stored_bytes_limit: int | None = None
    credits_remaining: int = 0
    lanes: int = 0
    recurring: int = 0
    etag: str | None = None


@dataclass(frozen=True, slots=True)
class SigningSecret:
    """For `verify`. Good until `expires_at`; None: until it is rotated."""

    secret_id: str
    secret: str
    created_at: datetime
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class LogEntry:
    """An entry of the log. `executed_at` is None while it waits, and if it was cancelled.
    `retrying` is a failed attempt that is made again. `lateness_ms` is from due to the first byte
    sent. `phases` are there if the schedule was retried. With `schedule_id` the last attempt has
    the schedule's `phases` and `response_body`. `skipped` has no schedule (""): `missed` times of
    a recurring one had no occurrence, the first of them at `scheduled_at`."""

    invocation_id: str
    schedule_id: str
    created_at: datetime
    scheduled_at: datetime
    executed_at: datetime | None
    target_url: str
    target_method: str
    status: LogStatus
    status_code: int
    response_time_ms: int
    error_message: str
    attempt: int = 0
    next_attempt_at: datetime | None = None
    lateness_ms: int | None = None
    phases: Phases | None = None
    response_body: str | None = None
    lane: str | None = None
    reference: str | None = None
    recurring_id: str | None = None
    missed: int = 0
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TimeRange:
    """`from_` is inclusive, `to` exclusive."""

    from_: datetime
    to: datetime


@dataclass(frozen=True, slots=True)
class Stats:
    """Executions counted over a period; `average_response_time` is in milliseconds."""

    total_invocations: int
    successful_invocations: int
    failed_invocations: int
    average_response_time: float
    time_range: TimeRange


def read(kind: type[T], answer: Mapping[str, Any]) -> T:
    """A result from its JSON. Unknown fields are ignored, so that an older client reads a newer
    server. Raises TypeError or ValueError for missing or odd ones."""
    values = {}
    for field in fields(kind):  # type: ignore[arg-type]  # all of them are dataclasses
        name = camel(field.name)
        if name in answer:
            values[field.name] = _value(str(field.type), answer[name])
    return kind(**values)


_PARTS: Mapping[str, type[Any]] = {"Callback": Callback, "HeldBy": HeldBy}


def _value(kind: str, value: Any) -> Any:
    if kind.startswith("datetime"):
        return _moment(value)
    if kind.startswith("tuple"):
        return tuple(value)
    part = _PARTS.get(kind.partition(" ")[0])
    return read(part, value) if part and isinstance(value, Mapping) else value


def read_schedule(answer: Mapping[str, Any]) -> Schedule:
    return read(Schedule, _with_phases(answer))


def read_entry(answer: Mapping[str, Any]) -> LogEntry:
    return read(LogEntry, _with_phases(answer))


def _with_phases(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    phases = answer.get("phases")  # a server of before knows none
    return {**answer, "phases": None if phases is None else read(Phases, phases)}


def read_stats(answer: Mapping[str, Any]) -> Stats:
    return read(Stats, {**answer, "timeRange": read(TimeRange, answer["timeRange"])})


def read_secrets(answer: Mapping[str, Any]) -> tuple[SigningSecret, ...]:
    return tuple(read(SigningSecret, each) for each in answer["secrets"])


def camel(name: str) -> str:
    first, *others = name.rstrip("_").split("_")
    return first + "".join(other.capitalize() for other in others)


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
