"""The reason in an exception when something cannot be reached."""

from __future__ import annotations

import errno
import socket
import ssl

import pytest

from postdate.errors import reason_of


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
        (ConnectionRefusedError(errno.ECONNREFUSED, "no"), "Connection refused"),
        (socket.gaierror(socket.EAI_NONAME, "no"), "Could not resolve host (no)"),
        (ssl.SSLError(1, "no"), "TLS failed ("),
        (TimeoutError(), "timeout"),
        (OSError(errno.EHOSTUNREACH, "no"), "No route to host"),
        (FileNotFoundError(errno.ENOENT, "no"), "No such file or directory"),
    ],
)
def test_the_reason_is_found_in_whatever_was_made_of_it(error: Exception, reason: str) -> None:
    for each in (error, wrapped(error)):
        assert reason_of(each).startswith(reason)


def test_what_does_not_tell_says_what_it_says_itself() -> None:
    assert reason_of(ValueError("x")) == "x"
    assert reason_of(ValueError()) == "ValueError"
