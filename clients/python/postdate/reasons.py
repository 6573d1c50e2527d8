"""Why no answer came, in words that tell the causes apart."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterator

import httpx


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


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """From the outermost to the innermost, which knows the most; each one of several addresses."""
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):
            for each in error.exceptions:
                yield from _causes(each)
        error = error.__cause__ or error.__context__
