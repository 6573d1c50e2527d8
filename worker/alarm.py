"""An alarm that is exact to some 50 us: the event loop's own timers count whole milliseconds.

Linux's timerfd is a descriptor that becomes readable at a moment of the monotonic clock. Python has
it from 3.13 on; before, and for nothing else, it is called through ctypes. Elsewhere the loop's
timers have to do.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
import time
from collections.abc import Callable
from typing import Any

_CLOCK_MONOTONIC = 1
_TFD_TIMER_ABSTIME = 1
_US = 1_000_000


class Alarm:
    """Calls `ring` at the moment that was set last. `close` it at the end."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> None:
        self._loop = loop
        self._ring = ring
        self._handle: asyncio.TimerHandle | None = None
        self._descriptor = _create() if sys.platform == "linux" else -1
        if self._descriptor >= 0:
            loop.add_reader(self._descriptor, self._on_readable)

    def set(self, at_us: int) -> None:
        """At a moment of `time.monotonic`, in microseconds; one that has passed rings at once."""
        if self._descriptor >= 0:
            _set(self._descriptor, max(1, at_us))
            return
        if self._handle is not None:
            self._handle.cancel()
        delay_s = max(0.0, at_us / _US - time.monotonic())
        self._handle = self._loop.call_later(delay_s, self._ring)

    def close(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    def _on_readable(self) -> None:
        try:
            os.read(self._descriptor, 8)
        except BlockingIOError:
            return  # it was set anew after it had gone off
        self._ring()


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def _create() -> int:
    """A descriptor, or -1 where there is no such call."""
    if sys.version_info >= (3, 13):
        return os.timerfd_create(time.CLOCK_MONOTONIC, flags=os.TFD_NONBLOCK | os.TFD_CLOEXEC)
    try:
        return int(_libc().timerfd_create(_CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC))
    except AttributeError:
        return -1


if sys.version_info >= (3, 13):

    def _set(descriptor: int, at_us: int) -> None:
        os.timerfd_settime_ns(descriptor, flags=os.TFD_TIMER_ABSTIME, initial=at_us * 1000)

else:
    _settime = getattr(_libc(), "timerfd_settime", None)

    # One for all, because making one takes longer than the call; its interval stays 0.
    _moment = _Itimerspec()
    _value, _at = _moment.value, ctypes.byref(_moment)

    def _set(descriptor: int, at_us: int) -> None:
        assert _settime is not None
        _value.seconds, micros = divmod(at_us, _US)
        _value.nanoseconds = micros * 1000
        if _settime(descriptor, _TFD_TIMER_ABSTIME, _at, None) != 0:
            raise OSError(ctypes.get_errno(), "timerfd_settime")
