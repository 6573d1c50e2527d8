"""What can go wrong, in the caller's terms. Each boundary translates once: redis to `StoreError`, a
domain error to a status code, a failed exchange to an outcome."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from scheduler.models import Status

E = TypeVar("E", bound=BaseException)


class PostdateError(Exception):
    """Base of all errors that Postdate raises on purpose; its text is a readable sentence, of some
    kinds always the same."""

    SENTENCE = ""

    def __init__(self, sentence: str | None = None) -> None:
        super().__init__(self.SENTENCE if sentence is None else sentence)


class FieldError(msgspec.Struct, frozen=True):
    """One bad field of a payload or query, and its fault."""

    field: str
    message: str


class InvalidRequest(PostdateError):
    """The input breaks a rule; `details` names every bad field but for `unlisted` ones."""

    def __init__(
        self, details: list[FieldError], sentence: str | None = None, unlisted: int = 0
    ) -> None:
        super().__init__(sentence or "; ".join(f"{d.field}: {d.message}" for d in details))
        self.details = details
        self.unlisted = unlisted


class NotFound(PostdateError):
    """No such thing, or it belongs to another account: both get the same error."""


class Conflict(PostdateError):
    """The thing exists, but its state forbids the operation; `status` says which state."""

    def __init__(self, sentence: str, status: Status) -> None:
        super().__init__(sentence)
        self.status = status


class Taken(PostdateError):
    """Another account has this name or e-mail address."""


class TooMany(PostdateError):
    """The account has as many of these as it may have; nothing was changed."""


class KeyReused(PostdateError):
    SENTENCE = "This Idempotency-Key was used with another body before"


class Suspended(PostdateError):
    SENTENCE = "This account is suspended; due schedules wait until it is resumed"


class InsufficientCredits(PostdateError):
    SENTENCE = "Insufficient credits"


class TooManySecrets(PostdateError):
    def __init__(self, most: int) -> None:
        super().__init__(
            f"{most} signing secrets are good already: keep the earlier ones for a shorter time, or"
            " wait until one has ended"
        )


class QuotaExceeded(PostdateError):
    SENTENCE = (
        "Storage quota exceeded: your schedules take up as much as your plan allows, those that"
        " wait and ended ones for as long as they are kept"
    )


class TooManyScans(PostdateError):
    """The account's searches are used up; nothing was done. After `wait_ms` there are more."""

    def __init__(self, wait_ms: int) -> None:
        self.wait_ms = wait_ms
        self.wait_s = -(-wait_ms // 1000)
        super().__init__(f"Too much was searched; try again in {self.wait_s} s")


class SettingsError(PostdateError):
    """A setting has a value that cannot be used; the sentence names it."""


class StoreError(PostdateError):
    """The store did not do what it was asked."""


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


class Unreadable(StoreRefused):
    """Something stored cannot be read. `key_id`: the missing key; empty if it is damaged."""

    def __init__(self, sentence: str, key_id: str = "") -> None:
        super().__init__(sentence)
        self.key_id = key_id


class Damaged(PostdateError):
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
