"""What counts as an outcome: of an answer, of a failure, of an invocation given up; and which
outcomes are tried again, and when. Pure."""

from __future__ import annotations

import errno
import http
import math
import re
import ssl
from collections.abc import Iterable
from datetime import UTC
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import NamedTuple

from scheduler.models import (
    COMPLETED,
    Answer,
    Delivery,
    Invocation,
    Outcome,
    Request,
    RetryOn,
    Status,
)
from scheduler.qstash.heeded import is_final
from scheduler.retries import LONGEST_ASKED_MS, SPREAD
from scheduler.schema import USUAL_DELAYS_MS
from scheduler.texts import visible
from worker.send.answer import ASKING

MAX_MESSAGE_CHARACTERS = 200
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


class Failure(StrEnum):
    """Why no answer was had; the text is the `errorMessage`. A timeout has `timed_out`."""

    REFUSED = "Connection refused"
    UNRESOLVED = "Could not resolve host"
    NOT_ALLOWED = "Destination not allowed"
    # For both of these, where a customer is not to learn which names there are inside.
    NO_DESTINATION = "Host not found, or destination not allowed"
    UNREACHABLE = "Network is unreachable"
    CONNECT_TIMEOUT = "Connection attempt timed out"
    NO_CONNECTION = "Could not connect"
    BAD_CERTIFICATE = "TLS certificate is not valid"
    BAD_HANDSHAKE = "TLS handshake failed"
    RESET = "Connection reset"
    CLOSED_EARLY = "Connection closed before an answer"
    CLOSED_MIDWAY = "Connection closed before the answer was complete"
    NOT_HTTP = "Answer is not valid HTTP"
    HEADERS_TOO_LARGE = "Answer headers are too large"
    BAD_REQUEST = "Request cannot be sent as stored"
    LOST = "Worker lost; the request may have been sent"
    EXPIRED = "Expired before execution"
    INTERNAL = "Internal error"


NO_TLS = "the target does not speak TLS"
# So long at most a lane starts nothing because its target asked for that.
LONGEST_CALM_MS = 3_600_000
# Of answers, those that say "not now". Any other 4xx is the target's word for "never again", as is
# a redirect, which is not followed, unless the schedule asks for a retry after any answer.
_RETRIED = frozenset({408, 409, 425, 429})
# Errors that the same request would meet again, and those without an attempt. While errors are
# concealed, a forbidden destination is retried like a missing one.
_FINAL = (Failure.NOT_ALLOWED, Failure.BAD_REQUEST, Failure.LOST, Failure.EXPIRED)


class Fault(NamedTuple):
    """Why there is no connection; `detail` says more."""

    failure: Failure
    detail: str = ""


class ConnectFailed(Exception):
    """There is no connection to the target, and there will be none."""

    def __init__(self, failure: Failure, detail: str = "") -> None:
        super().__init__(failure.value)
        self.failure = failure
        self.detail = detail


def answered(
    status_code: int,
    reason: str,
    response_time_ms: int,
    retry_after: str = "",
    answer: Answer | None = None,
    odd: str = "",
) -> Outcome:
    """The outcome of an answer: 2xx completed, anything else failed with its status text. `odd`:
    what was wrong with it."""
    if 200 <= status_code < 300:
        return Outcome(COMPLETED, status_code, response_time_ms, odd[:MAX_MESSAGE_CHARACTERS])
    text = _status_text(status_code, reason)
    if odd:
        note = f" ({odd[:1].lower()}{odd[1:]})"
        text = text[: MAX_MESSAGE_CHARACTERS - len(note)] + note
    return Outcome(Status.FAILED, status_code, response_time_ms, text, retry_after, answer)


def failed(failure: Failure, response_time_ms: int = 0, detail: str = "") -> Outcome:
    message = f"{failure.value}: {detail}" if detail else failure.value
    return Outcome(Status.FAILED, 0, response_time_ms, message[:MAX_MESSAGE_CHARACTERS])


def timed_out(limit_ms: int) -> Outcome:
    """The outcome of a fire that reached the time limit: its response time is the limit."""
    seconds = f"{limit_ms / 1000:.3f}".rstrip("0").rstrip(".")
    unit = "second" if limit_ms == 1000 else "seconds"
    return Outcome(Status.FAILED, 0, limit_ms, f"Timeout after {seconds} {unit}")


def unsent_outcome(invocation: Invocation, now_ms: int) -> Outcome | None:
    """How an invocation ends without its request being sent; None if it is to be sent.

    One that was claimed since its last attempt was recorded may have been sent by a lost worker.
    Else a retry that may not be made any more, because `expiresAt` has passed or the schedule was
    given fewer, ends as the attempt before it did.
    """
    request, retry = invocation.request, invocation.retry
    lost = invocation.attempt > (retry.attempts if retry else 0) + 1
    expired = request.expires_at_ms is not None and now_ms > request.expires_at_ms
    given_up = retry is not None and retry.number > request.retries
    if lost and (expired or given_up or request.delivery is Delivery.AT_MOST_ONCE):
        return failed(Failure.LOST)
    if retry is not None and retry.number and (expired or given_up):
        return retry.outcome
    return failed(Failure.EXPIRED) if expired else None


def connect_failure(error: OSError) -> Fault:
    """Why a connection could not be had, from what the attempt raised."""
    for kind, failure in _BY_KIND:
        if isinstance(error, kind):
            return Fault(failure, ", ".join(getattr(error, "__notes__", ())) or _reason(error))
    return Fault(Failure.UNREACHABLE if error.errno in _UNREACHABLE else Failure.NO_CONNECTION)


def _reason(error: OSError) -> str:
    """Of a handshake that failed: OpenSSL's reason, or ours."""
    reason = getattr(error, "reason", None)
    if reason in _OTHER_PROTOCOL:
        return NO_TLS
    if isinstance(reason, str):
        return reason.lower().replace("_", " ")
    return str(error.args[0]) if isinstance(error, ssl.SSLError) and len(error.args) == 1 else ""


# What it takes other protocols for.
_OTHER_PROTOCOL = frozenset({"HTTP_REQUEST", "WRONG_VERSION_NUMBER"})


def most_telling(faults: Iterable[Fault]) -> Fault:
    """Of several addresses', the one that came latest on the way: of a host without IPv6 and a
    refusal over IPv4, the refusal is what its owner needs."""
    return max(faults, key=lambda fault: _TELLING.get(fault.failure, 0), default=_NO_FAULT)


def tells_more_than_timeout(fault: Fault) -> bool:
    return _TELLING.get(fault.failure, 0) > _TELLING[Failure.CONNECT_TIMEOUT]


def is_of_tls(fault: Fault) -> bool:
    """Whether there was a connection, and the handshake failed."""
    return _TELLING.get(fault.failure, 0) >= _TELLING[Failure.RESET]


_NO_FAULT = Fault(Failure.UNREACHABLE)
# A connection is hardly ever reset before a handshake.
_TELLING = {
    failure: rank
    for rank, failure in enumerate(
        (
            Failure.UNREACHABLE,
            Failure.CONNECT_TIMEOUT,
            Failure.NO_CONNECTION,
            Failure.REFUSED,
            Failure.RESET,
            Failure.BAD_HANDSHAKE,
            Failure.BAD_CERTIFICATE,
        )
    )
}


# The first one that fits: some are kinds of later ones.
_BY_KIND: tuple[tuple[type[OSError], Failure], ...] = (
    (ssl.SSLCertVerificationError, Failure.BAD_CERTIFICATE),
    (ssl.SSLError, Failure.BAD_HANDSHAKE),
    (ConnectionRefusedError, Failure.REFUSED),
    (ConnectionResetError, Failure.RESET),
    (ConnectionAbortedError, Failure.RESET),
    (BrokenPipeError, Failure.RESET),
    (TimeoutError, Failure.CONNECT_TIMEOUT),
)
# EADDRNOTAVAIL and EAFNOSUPPORT are how a host without IPv6 answers for an IPv6 address.
_UNREACHABLE = frozenset(
    {
        errno.ENETUNREACH,
        errno.EHOSTUNREACH,
        errno.ENETDOWN,
        errno.EHOSTDOWN,
        errno.EADDRNOTAVAIL,
        errno.EAFNOSUPPORT,
    }
)


def _status_text(status_code: int, reason: str) -> str:
    """The answer's own words, or the standard ones; never empty, one line, not long."""
    text = visible(_CONTROL.sub(" ", reason).strip())[:MAX_MESSAGE_CHARACTERS]
    if text:
        return text
    try:
        return http.HTTPStatus(status_code).phrase
    except ValueError:
        return f"HTTP {status_code}"


def next_attempt_at_ms(
    invocation: Invocation, outcome: Outcome, *, sent: bool, now_ms: int, chance: float
) -> int | None:
    """When the next attempt is due by the store's clock, after one that ended so; None if that was
    the last. `sent`: its first byte was written. `chance` is from 0 to 1, at random."""
    request = invocation.request
    made = invocation.retry.number if invocation.retry else 0
    if made >= request.retries or not _may_be_repeated(request, outcome, sent=sent):
        return None
    at_ms = now_ms + _wait_ms(request, made, outcome, now_ms, chance)
    if request.expires_at_ms is not None and at_ms > request.expires_at_ms:
        return None
    return at_ms


def calm_until_ms(outcome: Outcome, now_ms: int) -> int | None:
    """Until when the lane of one that ended so is to start nothing, by the store's clock: for as
    long as its target asked, an hour at most; None if it did not ask."""
    asked = min(_asked_ms(outcome, now_ms), LONGEST_CALM_MS)
    return now_ms + asked if asked else None


def _asked_ms(outcome: Outcome, now_ms: int, *, of_message: bool = False) -> int:
    """How long a 429 or 503 asked to wait, or any failure of a message; 0 for others."""
    asks = (of_message or outcome.status_code in ASKING) and outcome.retry_after
    return asked_ms(outcome.retry_after, now_ms) if asks else 0


def asked_ms(retry_after: str, now_ms: int) -> int:
    """How long a Retry-After asks to wait: seconds, or an HTTP date; 0 if that has passed, or if
    it is neither. No more than a day."""
    if retry_after.isascii() and retry_after.isdigit():
        return min(int(retry_after) * 1000, LONGEST_ASKED_MS)
    try:
        moment = parsedate_to_datetime(retry_after)
        at_ms = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000
    except (ValueError, TypeError, IndexError, OverflowError):
        return 0
    return max(0, min(math.ceil(at_ms) - now_ms, LONGEST_ASKED_MS))


def _may_be_repeated(request: Request, outcome: Outcome, *, sent: bool) -> bool:
    code = outcome.status_code
    if outcome.status is not Status.FAILED:
        return False
    if code:
        if is_final(request, code, outcome.retry_after):
            return False
        return code in _RETRIED or 500 <= code < 600 or request.retry_on is RetryOn.ANY
    if outcome.error_message in _FINAL:
        return False
    # Without an answer the target may have acted on the request.
    return not sent or request.delivery is not Delivery.AT_MOST_ONCE


def _wait_ms(request: Request, made: int, outcome: Outcome, now_ms: int, chance: float) -> int:
    """The longer of its own delay and what the target asked for, or only that of a message; each is
    lengthened by chance, what was asked for to a day at most."""
    delays_ms, longer = request.retry_delays_ms or USUAL_DELAYS_MS, 1 + SPREAD * chance
    wait_ms = delays_ms[min(made, len(delays_ms) - 1)] * longer
    asked = _asked_ms(outcome, now_ms, of_message=request.door is not None)
    if asked and request.door is not None:
        wait_ms = 0
    return math.ceil(max(wait_ms, min(asked * longer, LONGEST_ASKED_MS)))
