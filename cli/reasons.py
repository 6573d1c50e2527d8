"""Why something could not be reached, from whatever a client's exception was made of."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterator


def reason_of(error: BaseException) -> str | None:
    """In words: refused, no such name, TLS, a timeout; None if the exception does not tell."""
    for cause in _causes(error):
        told = _told_by(cause)
        if told is not None:
            return told
    return None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """What an exception was raised from, and so on; a loop among them is not followed."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        if isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        else:
            error = error.__cause__ or error.__context__


def _told_by(error: BaseException) -> str | None:
    match error:
        case ssl.SSLCertVerificationError():
            return f"TLS: its certificate cannot be trusted ({error.verify_message})"
        case ssl.SSLError():
            reason = getattr(error, "reason", None) or str(error)
            return f"TLS: {reason.replace('_', ' ').lower()}"
        case socket.gaierror():
            return f"DNS: {(error.strerror or 'the name cannot be resolved').lower()}"
        case ConnectionRefusedError():
            return "connection refused"
        case TimeoutError():
            return "it did not answer in time"
        case OSError() if error.errno:
            return os.strerror(error.errno).lower()
        case ConnectionError():
            return "the connection was closed"
    return None
