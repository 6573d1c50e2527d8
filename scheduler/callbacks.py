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
    has one; NO_URL, nowhere. `on`: None, with the account's URL only: as the account says.
    `failure_url`: where a failure is reported instead. `with_response`: the report has the headers
    and the body of the target's answer."""

    url: str | None = None
    on: CallbackOn | None = CallbackOn.EXECUTED
    failure_url: str | None = None
    with_response: bool = False

    def url_of(self, *, failed: bool) -> str | None:
        """Where such an end is reported, if it is: None, to the account's URL; NO_URL, nowhere."""
        return self.failure_url if failed and self.failure_url is not None else self.url

    def reports(self, *, failed: bool) -> bool:
        """Whether it reports such an end, if there is a URL. That of a cancellation never is."""
        return self.url_of(failed=failed) != NO_URL and (failed or self.on is not CallbackOn.FAILED)


UNSAID = Callback(None, None)
"""The callback of a schedule that says nothing of it; stored as None."""


def or_none(callback: Callback) -> Callback | None:
    return None if callback == UNSAID else callback


def sent_to(before: Callback | None, url: str | None) -> Callback | None:
    """The same callback with this URL. With the account's (None) the account also says which ends
    are reported, as in a create without a callback, unless it had that URL already."""
    before = before or UNSAID
    if url is None:
        on = before.on if before.url is None else None
    else:
        on = CallbackOn.EXECUTED if url == NO_URL else before.on or CallbackOn.EXECUTED
    return or_none(replace(before, url=url, on=on))


def sent_again_to(before: Callback | None, url: str | None, *, failed: bool) -> Callback | None:
    """The same callback after a call that sends the report of such an end to this URL: it stands
    where that end was reported so far. The account's (None) stands for both."""
    if before is None or not failed or before.failure_url is None:
        return sent_to(before, url)
    before = replace(before, failure_url=url)
    return sent_to(before, None) if url is None else before


class Response(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A target's answer as a callback reports it: its headers in their order, at most 16 KiB, and
    the beginning of its body; `cut`: there was more. Stored as one msgpack array."""

    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    cut: bool = False


MOST_HEADER_BYTES = 16 * 1024


def size_of(response: Response) -> int:
    """Roughly, as it is stored (bytes)."""
    return len(response.body) + sum(len(name) + len(value) for name, value in response.headers)


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
