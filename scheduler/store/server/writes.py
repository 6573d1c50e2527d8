"""Whether a call has written something yet. From then on no error may say that nothing was done.

A call is what one caller asks for: a request to the API, or a command of the command line. It may
send several commands to the store, and the store may go away after any of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from scheduler.errors import OutcomeUnknown, Reason, StoreError


class _Call:
    has_written = False


_current: ContextVar[_Call | None] = ContextVar("call", default=None)


@contextmanager
def one_call() -> Iterator[None]:
    """Around all that a call does, and around the answer to its error."""
    token = _current.set(_Call())
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def beside_the_call() -> Iterator[None]:
    """Around writes that nobody asked for: they leave open what becomes of the call."""
    token = _current.set(None)
    try:
        yield
    finally:
        _current.reset(token)


def note_write() -> None:
    """The store has carried out a write of the current call, if there is one."""
    if (call := _current.get()) is not None:
        call.has_written = True


def outcome(error: Exception) -> Exception:
    """The error with which the current call ends: OutcomeUnknown instead of one that would say that
    nothing was done, once the call has written something."""
    call = _current.get()
    if call is None or not call.has_written or not isinstance(error, StoreError):
        return error
    if error.reason is not Reason.STORE_UNAVAILABLE:
        return error
    unknown = OutcomeUnknown("The store failed after it had carried out a part of the call")
    unknown.__cause__ = error
    return unknown
