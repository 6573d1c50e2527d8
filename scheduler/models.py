"""The nouns of Postdate, as values. Times are milliseconds since the Unix epoch, UTC."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import msgspec

from scheduler.callbacks import Callback, CallbackAttempt, CallbackState, Response
from scheduler.lane_settings import HeldBy
from scheduler.schema import LONGEST_TIMEOUT_S
from scheduler.stages import Stage


class Status(StrEnum):
    """The status of a schedule. All but `scheduled` are final."""

    SCHEDULED = "scheduled"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


COMPLETED = Status.COMPLETED  # an enum's member takes a tenth of a microsecond to look up


class LogStatus(StrEnum):
    """The status of a log entry. `retrying` is an attempt that failed and is made again; `skipped`
    stands for times of a recurring schedule at which it had no occurrence."""

    SCHEDULED = "scheduled"
    RETRYING = "retrying"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


class Delivery(StrEnum):
    """What happens to an invocation whose worker was lost: fired again, or given up."""

    AT_LEAST_ONCE = "at-least-once"
    AT_MOST_ONCE = "at-most-once"


class RetryOn(StrEnum):
    """Which failures are tried again: those that say "not now", or every answer that is not 2xx."""

    TRANSIENT = "transient"
    ANY = "any"


class BodyKind(StrEnum):
    """How a body was given: as a JSON object, as text, or as any bytes."""

    JSON = "json"
    TEXT = "text"
    BINARY = "binary"

    @property
    def content_type(self) -> str:
        """The content type, unless a header names another."""
        return _CONTENT_TYPES[self]


_CONTENT_TYPES = {
    BodyKind.JSON: "application/json",
    BodyKind.TEXT: "text/plain; charset=utf-8",
    BodyKind.BINARY: "application/octet-stream",
}


class Occurrence(NamedTuple):
    """Which recurring schedule a schedule is an occurrence of. `slot_ms` is the rule's time that it
    stands for; None of those that were made beside the rule's times, by a call or as a replay."""

    recurring_id: str
    slot_ms: int | None = None


class Request(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The accepted request and its time. Stored as one msgpack array in the order of the fields:
    new ones go to the end, with a default. `body` is sent as it is, JSON as the text that came in.
    Without `method_given` the method follows the body. `replay_of` is the original's id. The last
    of `retry_delays_ms` repeats; None: the default ones. `trace`: trace id and span id of the
    create, 24 bytes, if it was sampled. `timeout_s` is for one attempt. `callback`: None, as the
    account's default says. `door`: of a message of the QStash door, what it carries beside the
    request (`scheduler.qstash.carried`), 512 bytes at most; None: it is no message. `lane`,
    `reference`, the caller's own id, and `recurring` stand before the array
    (`scheduler.store.heads`), and stay the last here."""

    trigger_at_ms: int
    method: str
    url: str
    headers: dict[str, str] = {}
    body: bytes | None = None
    delivery: Delivery = Delivery.AT_LEAST_ONCE
    expires_at_ms: int | None = None
    method_given: bool = True
    body_kind: BodyKind = BodyKind.JSON
    replay_of: str | None = None
    retries: int = 0
    retry_delays_ms: tuple[int, ...] | None = None
    trace: bytes | None = None
    timeout_s: int = LONGEST_TIMEOUT_S
    callback: Callback | None = None
    retry_on: RetryOn = RetryOn.TRANSIENT
    labels: tuple[str, ...] = ()
    door: bytes | None = None
    lane: str | None = None
    reference: str | None = None
    recurring: Occurrence | None = None

    @property
    def recurring_id(self) -> str | None:
        return self.recurring.recurring_id if self.recurring else None


def usual_method(body: bytes | None) -> str:
    """Where none is given."""
    return "GET" if body is None else "POST"


def as_occurrence(request: Request, occurrence: Occurrence | None) -> Request:
    """The request as one of a recurring schedule, or of none."""
    if request.recurring == occurrence:
        return request
    return msgspec.structs.replace(request, recurring=occurrence)


class Packed(msgspec.Struct, frozen=True, gc=False):
    """A packed request, when it is due, and what the heads before it say."""

    trigger_at_ms: int
    request: bytes
    reference: str | None = None
    lane: str | None = None
    delivery: Delivery = Delivery.AT_LEAST_ONCE
    expires_at_ms: int | None = None
    recurring: Occurrence | None = None


class Upsert(NamedTuple):
    """A request for the schedule that waits with its reference: that keeps its own, or gets this
    one, due no later than `max_wait_ms` after its creation. If none waits, it is a new one."""

    request: Request | Packed
    keep: bool
    max_wait_ms: int | None = None

    @property
    def trigger_at_ms(self) -> int:
        return self.request.trigger_at_ms


class Schedule(msgspec.Struct, frozen=True, gc=False):
    """A schedule as it stands in the store. `executing`: a worker holds it. `outcome` and
    `ended_at_ms` are None until it has ended; a cancelled one has no outcome. `retry` is the
    attempt that it waits for or is at. `attempts` counts those of lost workers too. `lateness_ms`
    is from due to the first byte sent; None if none was. `replayed_as` is its last replay.
    `body_dropped`: its body was not kept when it was cancelled. `stopped`: its owner ended it
    between two attempts. `callback` is None if none was to report its end. `response` is the last
    answer, read for a report that has it. `held_by` is None where nobody looked, too."""

    schedule_id: str
    created_at_ms: int
    request: Request
    status: Status
    executing: bool = False
    outcome: Outcome | None = None
    ended_at_ms: int | None = None
    lateness_ms: int | None = None
    attempts: int = 0
    retry: Retry | None = None
    replayed_as: str | None = None
    body_dropped: bool = False
    stopped: bool = False
    callback: CallbackState | None = None
    response: Response | None = None
    held_by: HeldBy | None = None

    @property
    def due_at_ms(self) -> int:
        """When it goes out next: at triggerAt, or at the next attempt."""
        return self.retry.due_at_ms if self.retry else self.request.trigger_at_ms

    @property
    def waits(self) -> bool:
        """Whether it has not ended, and no worker holds it."""
        return self.status is Status.SCHEDULED and not self.executing

    @property
    def waits_for_slot(self) -> bool:
        """Whether it is the next occurrence of a recurring schedule: no attempt of it was made."""
        mark = self.request.recurring
        if mark is None or mark.slot_ms is None:
            return False
        return self.waits and self.retry is None

    @property
    def last_outcome(self) -> Outcome | None:
        """Of the last attempt, also where another follows."""
        return self.retry.outcome if self.retry else self.outcome

    @property
    def executed_at_ms(self) -> int | None:
        """When that outcome was recorded; None if there is none."""
        if self.retry is not None:
            return self.retry.failed_at_ms
        return self.ended_at_ms if self.outcome else None


class Answer(msgspec.Struct, frozen=True, gc=False):
    """The first bytes of what a target answered, and the content type that it gave ("": none)."""

    content_type: str
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode(errors="replace")


class Phases(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """How long each part of an exchange took (ms), one after the other; None: it was not needed, or
    not reached. The last one that is set is where it ended. Stored as one msgpack array.
    `first_byte_ms` counts from the request's first byte, `last_byte_ms` from the answer's."""

    resolve_ms: int | None = None
    connect_ms: int | None = None
    tls_ms: int | None = None
    first_byte_ms: int | None = None
    last_byte_ms: int | None = None

    @property
    def reused(self) -> bool:
        """Whether it went over a connection that was there."""
        return self.connect_ms is None and self.first_byte_ms is not None


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """How an execution ended. Without an answer `status_code` is 0 and `error_message` says why.
    `retry_after` is the target's header, not stored. `answer` is the body of a failure; between two
    attempts only a beginning of it is stored, and claims do not read it. `phases` are kept of
    failures, slow ones and new connections. `response` is for a callback that has it."""

    status: Status
    status_code: int
    response_time_ms: int
    error_message: str
    retry_after: str = ""
    answer: Answer | None = None
    phases: Phases | None = None
    response: Response | None = None

    @property
    def known_phases(self) -> Phases | None:
        """Also where none are kept: one that completed had only that of its answer."""
        if self.phases is None and self.status is COMPLETED:
            return Phases(first_byte_ms=self.response_time_ms)
        return self.phases


class Retry(msgspec.Struct, frozen=True, gc=False):
    """The attempt after one that failed: its number as a retry, from 1 (0: the request has replaced
    the one that failed), and when it is due; the number of attempts before; the last one's outcome,
    lateness and record time; of a callback, the attempts before that."""

    number: int
    due_at_ms: int
    attempts: int
    outcome: Outcome
    failed_at_ms: int
    lateness_ms: int | None = None
    earlier: tuple[CallbackAttempt, ...] = ()


class Invocation(msgspec.Struct, eq=False):
    """One firing of one schedule, as the worker that claimed it holds it. `attempt` counts every
    sending, from 1: retries, takeovers from lost workers, and repeats on a fresh connection.
    `token` names the lease: when it ends (us, the store's clock); several such moments with colons
    between if replies to extensions were lost. The lease surely lasts until `lease_until_s`
    (`elapsed_s`). `request` has short headers (`short_texts`). `size_bytes`: of it as stored. It
    may start from `slot_us` (None: when it is due), and in a `lane` with a rate no later than
    `slack_us` after that (0: no rate). `bounded`: the lane's parallelism is. `is_callback`: it
    reports the end of the schedule; `request` is the report, and `retry` and `attempt` are the
    callback's."""

    shard: int
    account_id: str
    schedule_id: str
    token: str
    attempt: int
    lease_until_s: float
    request: Request
    due_at_ms: int
    size_bytes: int = 0
    retry: Retry | None = None
    stage: Stage = Stage.CLAIMED
    lane: str | None = None
    slot_us: int | None = None
    slack_us: int = 0
    bounded: bool = False
    is_callback: bool = False

    def enter(self, stage: Stage) -> None:
        """Nothing else writes the stage. Tests hold it to `stages.NEXT`."""
        self.stage = stage

    @property
    def taken_over(self) -> bool:
        """As it was claimed: another worker had held it, and was lost or cut off."""
        return self.attempt > 1 + (self.retry.attempts if self.retry else 0)

    @property
    def starts_at_us(self) -> int:
        """The first moment at which it may start; lateness counts from then."""
        due_us = self.due_at_ms * 1000
        return due_us if self.slot_us is None else max(due_us, self.slot_us)


class LogEntry(msgspec.Struct, frozen=True, gc=False):
    """One line of the execution log; `executed_at_ms` is None while waiting and if cancelled.
    `at_ms` is its moment on the log's timeline: when it was recorded, or is due while it waits.
    `lateness_ms` is from due to the first byte sent; None if none was. `attempt` counts from 1; 0:
    there was none. `next_attempt_at_ms` is when the next is due. `executing`: a worker holds it.
    `phases` are kept of the attempts of a schedule that was retried, `answer` is not: both are read
    from the schedule with the entries of one. `before_ms` is the moment of its attempt before.
    A skipped one has no schedule (""): it is of `missed` times of a recurring schedule, of which
    `scheduled_at_ms` is the first."""

    schedule_id: str
    created_at_ms: int
    scheduled_at_ms: int
    executed_at_ms: int | None
    url: str
    method: str
    status: LogStatus
    status_code: int = 0
    response_time_ms: int = 0
    error_message: str = ""
    at_ms: int = 0
    lateness_ms: int | None = None
    attempt: int = 0
    next_attempt_at_ms: int | None = None
    executing: bool = False
    phases: Phases | None = None
    answer: Answer | None = None
    before_ms: int | None = None
    lane: str | None = None
    reference: str | None = None
    recurring_id: str | None = None
    missed: int = 0
    labels: tuple[str, ...] = ()


class Plan(StrEnum):
    """How many requests a second an account may make of the API."""

    FREE = "free"
    PRO = "pro"
    SCALE = "scale"
    UNLIMITED = "unlimited"


class Account(msgspec.Struct, frozen=True):
    """An account and its ledger: `granted = credits + spent`, always."""

    account_id: str
    name: str
    plan: Plan
    credits: int
    granted: int
    spent: int
    created_at_ms: int
    operator: bool = False
    suspended: bool = False


class Idempotency(msgspec.Struct, frozen=True):
    """The client's name for one create, and a digest of what it asked for under that name. `note`
    is kept with the key, for those who repeat it. `kept_ms`: None for a day."""

    key: str
    fingerprint: str
    note: bytes = b""
    kept_ms: int | None = None
