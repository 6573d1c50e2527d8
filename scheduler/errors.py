"""What can go wrong, in the caller's terms. Each boundary translates once: redis to `StoreError`, a
domain error to a status code, a failed exchange to an outcome."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar, TypeVar

import msgspec

from scheduler.lanes import MOST_LANES
from scheduler.models import Status

E = TypeVar("E", bound=BaseException)


class Reason(StrEnum):
    """Why a request was refused, for programs. The sentence beside it may change; this does not."""

    ALREADY_ENDED = "already_ended"
    ALREADY_REPLAYED = "already_replayed"
    ALREADY_STARTED = "already_started"
    BODY_NOT_KEPT = "body_not_kept"
    CALLBACK_PENDING = "callback_pending"
    DAMAGED = "damaged"
    DESTINATION_NOT_ALLOWED = "destination_not_allowed"
    DRAINING = "draining"
    INSUFFICIENT_CREDITS = "insufficient_credits"
    INTERNAL_ERROR = "internal_error"
    INVALID_FIELD = "invalid_field"
    KEEPS_CHANGING = "keeps_changing"
    KEY_REUSED = "key_reused"
    MALFORMED_REQUEST = "malformed_request"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    MISDIRECTED = "misdirected"
    NOT_ENDED = "not_ended"
    NOT_FOUND = "not_found"
    OUTCOME_UNKNOWN = "outcome_unknown"
    OVERLOADED = "overloaded"
    PRECONDITION_FAILED = "precondition_failed"
    QUOTA_EXCEEDED = "quota_exceeded"
    RATE_LIMITED = "rate_limited"
    RECURRING_NAME_TAKEN = "recurring_name_taken"
    SEARCHES_LIMITED = "searches_limited"
    SEVERAL_WAITING = "several_waiting"
    STORE_UNAVAILABLE = "store_unavailable"
    SUSPENDED = "suspended"
    TIMEOUT = "timeout"
    TOO_LARGE = "too_large"
    TOO_MANY_LANES = "too_many_lanes"
    TOO_MANY_RECURRING = "too_many_recurring"
    TOO_MANY_SECRETS = "too_many_secrets"
    UNAUTHORIZED = "unauthorized"
    UNKNOWN_ACCOUNT = "unknown_account"
    UNKNOWN_RECURRING = "unknown_recurring"
    UNKNOWN_SCHEDULE = "unknown_schedule"
    UNSUPPORTED_ENCODING = "unsupported_encoding"
    UNSUPPORTED_METHOD = "unsupported_method"


class PostdateError(Exception):
    """Base of all errors that Postdate raises on purpose; its text is a readable sentence, of some
    kinds always the same. A kind without a reason is a fault of ours where a client meets it."""

    SENTENCE: ClassVar[str] = ""
    reason = Reason.INTERNAL_ERROR

    def __init__(self, sentence: str | None = None) -> None:
        super().__init__(self.SENTENCE if sentence is None else sentence)


class FieldError(msgspec.Struct, frozen=True, gc=False):
    """One bad field of a payload or query, and its fault."""

    field: str
    message: str


class InvalidRequest(PostdateError):
    """The input breaks a rule; `details` names every bad field but for `unlisted` ones."""

    def __init__(
        self,
        details: list[FieldError],
        sentence: str | None = None,
        unlisted: int = 0,
        reason: Reason = Reason.INVALID_FIELD,
    ) -> None:
        super().__init__(sentence or "; ".join(f"{d.field}: {d.message}" for d in details))
        self.reason = reason
        self.details = details
        self.unlisted = unlisted


class NotFound(PostdateError):
    """No such thing, or it belongs to another account: both get the same error."""

    reason = Reason.NOT_FOUND


class UnknownAccount(NotFound):
    reason = Reason.UNKNOWN_ACCOUNT

    def __init__(self, account: str) -> None:
        super().__init__(f"There is no account {account}.")


class UnknownRecurring(NotFound):
    SENTENCE = "There is no such recurring schedule"
    reason = Reason.UNKNOWN_RECURRING


class UnknownSchedule(NotFound):
    SENTENCE = "There is no such schedule"
    reason = Reason.UNKNOWN_SCHEDULE


class Conflict(PostdateError):
    """The thing exists, but its state forbids the operation. `status` is that of a schedule; None
    where none is meant."""

    def __init__(self, sentence: str, status: Status | None, reason: Reason) -> None:
        super().__init__(sentence)
        self.status = status
        self.reason = reason


class TooManyLanes(Conflict):
    """Nothing was changed."""

    reason = Reason.TOO_MANY_LANES

    def __init__(self) -> None:
        super().__init__(
            f"The account has {MOST_LANES:,} lanes already that are set, paused, calm or have"
            " something waiting or running",
            None,
            self.reason,
        )


class KeepsChanging(Conflict):
    """Of settings; nothing was changed."""

    reason = Reason.KEEPS_CHANGING

    def __init__(self) -> None:
        sentence = "Other calls keep changing these settings; try again"
        super().__init__(sentence, None, self.reason)


class RecurringNameTaken(Conflict):
    """Nothing was changed."""

    reason = Reason.RECURRING_NAME_TAKEN

    def __init__(self, name: str) -> None:
        sentence = f"Another recurring schedule has the name {name}"
        super().__init__(sentence, None, self.reason)


class TooManyRecurring(Conflict):
    """Nothing was changed."""

    reason = Reason.TOO_MANY_RECURRING

    def __init__(self, most: int) -> None:
        sentence = f"The account has {most:,} recurring schedules already"
        super().__init__(sentence, None, self.reason)


class PreconditionFailed(PostdateError):
    SENTENCE = (
        "The present state is not the one that If-Match or If-None-Match asks for; nothing was"
        " changed"
    )
    reason = Reason.PRECONDITION_FAILED


class Taken(PostdateError):
    """Another account has this name or e-mail address."""


class TooMany(PostdateError):
    """The account has as many of these as it may have; nothing was changed."""


class KeyReused(PostdateError):
    SENTENCE = "This Idempotency-Key was used with another body before"
    reason = Reason.KEY_REUSED


class Suspended(PostdateError):
    SENTENCE = "This account is suspended; due schedules wait until it is resumed"
    reason = Reason.SUSPENDED


class InsufficientCredits(PostdateError):
    SENTENCE = "Insufficient credits"
    reason = Reason.INSUFFICIENT_CREDITS


class TooManySecrets(PostdateError):
    reason = Reason.TOO_MANY_SECRETS

    def __init__(self, most: int) -> None:
        super().__init__(
            f"{most} signing secrets are valid already: keep older ones for a shorter time, or"
            " wait until one has ended"
        )


class QuotaExceeded(PostdateError):
    SENTENCE = (
        "Storage quota exceeded: your schedules take up as much as your plan allows, those that"
        " wait and ended ones for as long as they are kept"
    )
    reason = Reason.QUOTA_EXCEEDED


class TooManyScans(PostdateError):
    """The account's searches are used up; nothing was done. After `wait_ms` there are more."""

    reason = Reason.SEARCHES_LIMITED

    def __init__(self, wait_ms: int) -> None:
        self.wait_ms = wait_ms
        self.wait_s = -(-wait_ms // 1000)
        super().__init__(f"Too much was searched; try again in {self.wait_s} s")


class TooManyResends(PostdateError):
    """The account's callbacks were sent again too often; nothing was done. After `wait_s` it may go
    on."""

    reason = Reason.RATE_LIMITED

    def __init__(self, wait_s: int) -> None:
        self.wait_s = wait_s
        super().__init__(f"Too many callbacks were sent again; try again in {wait_s} s")


class TooManyUpserts(PostdateError):
    """The account's creates with `onExisting` have left as many answers as may be kept; nothing was
    done. After `wait_s` it may go on."""

    reason = Reason.RATE_LIMITED

    def __init__(self, wait_s: int) -> None:
        self.wait_s = wait_s
        super().__init__(f"Too many creates with onExisting; try again in {wait_s} s")


class SettingsError(PostdateError):
    """A setting has a value that cannot be used; the sentence names it."""


class StoreError(PostdateError):
    """The store did not do what it was asked."""

    reason = Reason.STORE_UNAVAILABLE


class StoreUnavailable(StoreError):
    """The store is full or cannot be reached, and it is certain that nothing was changed."""


class StoreReplaced(StoreUnavailable):
    """The store was emptied since this process opened it, or another one took its place."""


class StoreFull(StoreUnavailable):
    """There is no room for more; stored schedules can be read, fired and cancelled."""


class StoreRefused(StoreError):
    """The store rejected a command for its content; repeating it will not help."""


class OutcomeUnknown(StoreError):
    """The store may have done it: the reply was lost, and repeating the call did not settle it."""

    reason = Reason.OUTCOME_UNKNOWN


class Unreadable(StoreRefused):
    """Something stored cannot be read. `key_id`: the missing key; empty if it is damaged."""

    def __init__(self, sentence: str, key_id: str = "") -> None:
        super().__init__(sentence)
        self.key_id = key_id
        self.reason = Reason.STORE_UNAVAILABLE if key_id else Reason.DAMAGED


class Damaged(PostdateError):
    reason = Reason.DAMAGED

    def __init__(self, schedule_id: str) -> None:
        super().__init__(
            f"The stored schedule {schedule_id} is damaged and cannot be read; it is kept for an"
            " operator to look at"
        )
        self.schedule_id = schedule_id


class StoreMisconfigured(StoreError):
    """The store cannot be used as it is set up: too old, wrong password, evicting keys."""


def anew(error: E) -> E:
    """The same error without its traceback: type, arguments, attributes and cause. A raised error
    refers to every frame that it went through; kept in one of these, or raised for several callers,
    it makes a reference cycle. Raise or keep a copy instead."""
    kind = type(error)
    another = kind.__new__(kind, *error.args)
    another.__dict__.update(error.__dict__)
    another.__cause__ = None if error.__cause__ is None else anew(error.__cause__)
    return another
