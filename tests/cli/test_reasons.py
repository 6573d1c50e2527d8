"""What an exception tells of why something could not be reached."""

from __future__ import annotations

import errno
import socket
import ssl

import pytest

from cli.reasons import reason_of


def wrapped(error: Exception) -> Exception:
    """As clients hand it on: with a cause, and that with a context."""
    try:
        try:
            try:
                raise error
            except OSError:
                raise RuntimeError("within a client")  # noqa: B904 - clients do just that
        except RuntimeError as within:
            raise ValueError("around it") from within
    except ValueError as outer:
        return outer


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "no"), "connection refused"),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "DNS: name or service"),
        (ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number"), "TLS: "),
        (TimeoutError(), "it did not answer in time"),
        (OSError(errno.EHOSTUNREACH, "no"), "no route to host"),
        (ConnectionResetError(), "the connection was closed"),
    ],
)
def test_the_reason_is_found_in_whatever_was_made_of_it(error: Exception, reason: str) -> None:
    for each in (error, wrapped(error)):
        told = reason_of(each)
        assert told is not None
        assert told.startswith(reason)


def test_what_does_not_tell_has_no_reason() -> None:
    assert reason_of(ValueError("x")) is None


def test_causes_that_go_round_end() -> None:
    first, second = ValueError(), ValueError()
    first.__cause__, second.__cause__ = second, first
    assert reason_of(first) is None
