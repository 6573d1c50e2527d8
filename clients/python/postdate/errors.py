"""What can go wrong, each with the server's own sentence."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import httpx

Reason: TypeAlias = Literal[
    "already_ended",
    "already_replayed",
    "already_started",
    "body_not_kept",
    "callback_pending",
    "damaged",
    "destination_not_allowed",
    "draining",
    "insufficient_credits",
    "internal_error",
    "invalid_field",
    "keeps_changing",
    "key_reused",
    "malformed_request",
    "method_not_allowed",
    "misdirected",
    "not_ended",
    "not_found",
    "outcome_unknown",
    "overloaded",
    "precondition_failed",
    "quota_exceeded",
    "rate_limited",
    "recurring_name_taken",
    "searches_limited",
    "several_waiting",
    "store_unavailable",
    "suspended",
    "timeout",
    "too_large",
    "too_many_lanes",
    "too_many_recurring",
    "too_many_secrets",
    "unauthorized",
    "unknown_account",
    "unknown_recurring",
    "unknown_schedule",
    "unsupported_encoding",
    "unsupported_method",
]


@dataclass(frozen=True, slots=True)
class FieldError:
    """One bad field, and its fault."""

    field: str
    message: str


class PostdateError(Exception):
    """Base of all errors; `str()` is the sentence. Raised itself where no subclass fits (a 500).

    `status_code` is None without an answer; so are `reason`, the server's word for programs, and
    `request_id`, by which its operator finds the request in the log. `maybe_done`: it may have been
    done, or a part of it; repeating with `idempotency_key`, if set, settles that without a second
    credit. `schedule_id` is set for one of many.
    """

    def __init__(self, message: str, *, status_code: int | None = None) -> None:
        super().__init__(message)
        self.status_code = status_code
        self.reason: Reason | None = None
        self.request_id: str | None = None
        self.idempotency_key: str | None = None
        self.maybe_done = False
        self.schedule_id: str | None = None


class InvalidRequest(PostdateError):
    """The server refuses the request; `details` has the bad fields. Nothing was stored."""

    details: tuple[FieldError, ...] = ()


class Unauthorized(PostdateError):
    """The API key is missing, unknown or inactive."""


class Suspended(PostdateError):
    """An operator has suspended the account; due schedules wait until it is resumed."""


class InsufficientCredits(PostdateError):
    """The account has too few credits; none was taken."""


class NotFound(PostdateError):
    """There is no such schedule, or it is another account's, or it ended long ago."""


class Conflict(PostdateError):
    """It has ended, or a worker has it, shortly before its time: `status` says which. Of what is no
    state of a schedule, as a name that another one has, it is empty: `reason` says that."""

    status = ""


class PreconditionFailed(PostdateError):
    """It is not as `if_match` or `if_none_match` asks for; nothing was changed. With `maybe_done`
    an earlier attempt of this call may have changed it, whose answer was lost."""


class RateLimited(PostdateError):
    """More requests than the plan allows. `retry_after` is in seconds; None if unknown."""

    retry_after: float | None = None


class Unavailable(PostdateError):
    """The service cannot serve at the moment. `retry_after` as in RateLimited."""

    retry_after: float | None = None


class ConnectionFailed(PostdateError):
    """No answer: the service cannot be reached, or the connection was lost."""


def strange_answer(count: int) -> PostdateError:
    """For an answer about `count` schedules, another number than was asked for."""
    error = PostdateError(f"The answer does not come from Postdate: it is for {count} schedules.")
    error.maybe_done = True
    return error


_KINDS: Mapping[int, type[PostdateError]] = {
    400: InvalidRequest,
    401: Unauthorized,
    402: InsufficientCredits,
    403: Suspended,
    404: NotFound,
    409: Conflict,
    412: PreconditionFailed,
    413: InvalidRequest,
    415: InvalidRequest,
    422: InvalidRequest,
    429: RateLimited,
    502: Unavailable,  # 502 and 504 are how a proxy says that a connection was lost
    503: Unavailable,
    504: Unavailable,
}


def error_of(
    status_code: int, body: Any, *, phrase: str = "", retry_after: float | None = None
) -> PostdateError:
    """The error of an answer; `body` is its JSON, or None."""
    answer = body if isinstance(body, Mapping) else {}
    message = str(answer.get("error") or f"The server answered {status_code} {phrase}".rstrip())
    error = _KINDS.get(status_code, PostdateError)(message, status_code=status_code)
    error.reason, error.request_id = answer.get("reason"), answer.get("requestId")
    match error:
        case InvalidRequest():
            error.details = _details(answer.get("details"))
        case Conflict():
            error.status = str(answer.get("status", ""))
        case RateLimited() | Unavailable():
            error.retry_after = retry_after
    # A proxy gives no reason: it cannot know.
    nothing_done = error.reason in ("overloaded", "store_unavailable")
    error.maybe_done = isinstance(error, Unavailable) and not nothing_done
    return error


def reason_of(error: BaseException) -> str:
    """For the end of a sentence: refused, not resolved, TLS, or what the error itself says."""
    if isinstance(error, httpx.TimeoutException):
        return "timeout"
    for cause in reversed(list(_causes(error))):
        match cause:
            case socket.gaierror():
                return f"Could not resolve host ({cause.strerror})"
            case ssl.SSLCertVerificationError():
                return f"TLS certificate is not valid ({cause.verify_message})"
            case ssl.SSLError():
                reason = getattr(cause, "reason", None) or str(cause)  # WRONG_VERSION_NUMBER
                return f"TLS failed ({reason.replace('_', ' ').lower()})"
            case ConnectionRefusedError():
                return "Connection refused"
            case TimeoutError():
                return "timeout"
            case OSError() if cause.errno:
                return os.strerror(cause.errno)
    text = str(error) or type(error).__name__
    return text.partition("] ")[2] if text.startswith("[Errno") else text


def _details(given: Any) -> tuple[FieldError, ...]:
    if not isinstance(given, list):
        return ()
    return tuple(FieldError(str(each["field"]), str(each["message"])) for each in given)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """From the outermost to the innermost, which knows the most; each one of several addresses."""
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):
            for each in error.exceptions:
                yield from _causes(each)
        error = error.__cause__ or error.__context__
