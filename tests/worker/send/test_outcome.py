"""What counts as an outcome."""

from __future__ import annotations

import errno
import ssl

import pytest

from scheduler.models import Delivery, Outcome, Status
from tests.worker.send.firing import invocation_of
from worker.send.outcome import (
    Failure,
    answered,
    connect_failure,
    failed,
    timed_out,
    unsent_outcome,
)


@pytest.mark.parametrize(
    ("code", "reason", "message"),
    [
        (200, "Fine", ""),
        (299, "Fine", ""),
        (404, "", "Not Found"),
        (404, "Nothing here", "Nothing here"),
        (599, "", "HTTP 599"),
        (500, "a\x00\x1b[31mb\x85c", "a [31mb c"),
        (500, "x" * 500, "x" * 200),
    ],
)
def test_2xx_is_completed_and_anything_else_failed_with_its_status_text(
    code: int, reason: str, message: str
) -> None:
    status = Status.FAILED if message else Status.COMPLETED
    assert answered(code, reason, 7) == Outcome(status, code, 7, message)


@pytest.mark.parametrize(
    ("limit_ms", "length"), [(30_000, "30 seconds"), (1_000, "1 second"), (1_500, "1.5 seconds")]
)
def test_a_timeout_names_the_limit_and_took_exactly_it(limit_ms: int, length: str) -> None:
    assert timed_out(limit_ms) == Outcome(Status.FAILED, 0, limit_ms, f"Timeout after {length}")


def test_the_promised_messages() -> None:
    assert Failure.LOST.value == "Worker lost; the request may have been sent"
    assert Failure.EXPIRED.value == "Expired before execution"


@pytest.mark.parametrize(
    ("reason", "detail"),
    [
        ("WRONG_VERSION_NUMBER", "the target does not speak TLS"),
        ("HTTP_REQUEST", "the target does not speak TLS"),
        ("TLSV1_ALERT_PROTOCOL_VERSION", "tlsv1 alert protocol version"),
        (None, ""),
    ],
)
def test_a_failed_handshake_says_why(reason: str | None, detail: str) -> None:
    error = ssl.SSLError(1, "[SSL] as OpenSSL has it")
    error.reason = reason  # type: ignore[assignment]
    assert connect_failure(error) == (Failure.BAD_HANDSHAKE, detail)
    assert connect_failure(ssl.SSLError("ours")) == (Failure.BAD_HANDSHAKE, "ours")


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (ConnectionRefusedError(), Failure.REFUSED),
        (ConnectionResetError(), Failure.RESET),
        (ssl.SSLCertVerificationError(1, "expired"), Failure.BAD_CERTIFICATE),
        (ssl.SSLError(1, "alert"), Failure.BAD_HANDSHAKE),
        (OSError(errno.ENETUNREACH, "?"), Failure.UNREACHABLE),
        (OSError(errno.EADDRNOTAVAIL, "?"), Failure.UNREACHABLE),
        (TimeoutError(errno.ETIMEDOUT, "?"), Failure.CONNECT_TIMEOUT),
        (OSError(errno.EMFILE, "?"), Failure.NO_CONNECTION),
    ],
)
def test_what_a_connection_attempt_raises_has_a_name(error: OSError, failure: Failure) -> None:
    assert connect_failure(error) == (failure, "")


@pytest.mark.parametrize(("now_ms", "is_sent"), [(999, True), (1000, True), (1001, False)])
def test_what_expires_is_sent_up_to_its_very_millisecond(now_ms: int, is_sent: bool) -> None:
    invocation = invocation_of("http://e.example/", expires_at_ms=1000)
    outcome = unsent_outcome(invocation, now_ms)
    assert outcome == (None if is_sent else failed(Failure.EXPIRED))


def test_what_expires_after_a_lost_worker_had_it_may_have_been_sent() -> None:
    taken_over = invocation_of("http://e.example/", expires_at_ms=1000)
    taken_over.attempt = 2
    assert unsent_outcome(taken_over, 1000) is None
    assert unsent_outcome(taken_over, 1001) == failed(Failure.LOST)


@pytest.mark.parametrize("expires_at_ms", [None, 1000])
def test_at_most_once_is_not_sent_by_who_did_not_claim_it_first(expires_at_ms: int | None) -> None:
    once = invocation_of(
        "http://e.example/", delivery=Delivery.AT_MOST_ONCE, expires_at_ms=expires_at_ms
    )
    assert unsent_outcome(once, 0) is None
    once.attempt = 2
    # The lost worker may have sent it: the outcome says so, also after `expiresAt`.
    assert unsent_outcome(once, 2000) == failed(Failure.LOST)
