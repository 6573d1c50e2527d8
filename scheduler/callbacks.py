"""Callbacks: reports of how schedules ended. Moments are in ms since the epoch."""

from __future__ import annotations

from enum import StrEnum

import msgspec
from msgspec.structs import replace

NO_URL = ""


class CallbackOn(StrEnum):
    """Which ends a callback reports: all executions, or those that failed."""

    EXECUTED = "executed"
    FAILED = "failed"


class Callback(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Where the end of a schedule is reported, and which ends. `url`: None, the account's, if it
    has one; NO_URL, nowhere. `failure_url`: where a failure is reported instead. `with_response`:
    the report has the headers and the body of the target's answer."""

    url: str | None = None
    on: CallbackOn = CallbackOn.EXECUTED
    failure_url: str | None = None
    with_response: bool = False

    def reports(self, *, failed: bool) -> bool:
        """Whether it reports such an end, if there is a URL. That of a cancellation never is."""
        return self.url != NO_URL and (failed or self.on is CallbackOn.EXECUTED)


def sent_to(before: Callback | None, url: str | None) -> Callback | None:
    """The same callback with this URL. With the account's (None) the account also says which ends
    are reported, as in a create without a callback, unless it had that URL already."""
    if url is None:
        return before if before and before.url is None else None
    return Callback(url) if before is None or url == NO_URL else replace(before, url=url)


class Response(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A target's answer as a callback reports it: its headers in their order, at most 16 KiB, and
    the beginning of its body; `cut`: there was more. Stored as one msgpack array."""

    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    cut: bool = False


class CallbackStatus(StrEnum):
    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"


class CallbackAttempt(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One that ended, and when that was recorded."""

    number: int
    at_ms: int
    status_code: int
    response_time_ms: int
    error_message: str


class CallbackState(msgspec.Struct, frozen=True, gc=False):
    """How far the callback of an ended schedule has come: the attempts recorded, the last one's
    answer (`status_code` 0: none) and its record time; and when the next one is due, while it is
    pending. `retry`: that one's number as a retry. `earlier`: the attempts before the last, each
    with the beginning of its message; none from before it was sent again."""

    status: CallbackStatus
    attempts: int = 0
    status_code: int = 0
    response_time_ms: int = 0
    error_message: str = ""
    attempted_at_ms: int | None = None
    next_attempt_at_ms: int | None = None
    retry: int = 0
    earlier: tuple[CallbackAttempt, ...] = ()

    @property
    def made(self) -> tuple[CallbackAttempt, ...]:
        """All attempts that are known, the last one with its whole message."""
        if self.attempted_at_ms is None:
            return ()
        said = (self.status_code, self.response_time_ms, self.error_message)
        return (*self.earlier, CallbackAttempt(self.attempts, self.attempted_at_ms, *said))
