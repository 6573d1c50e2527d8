"""Holds schedules claimed ahead until their very millisecond, or their slot."""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import msgspec

from scheduler.models import Invocation
from scheduler.stages import Stage
from scheduler.store.server.clock import StoreClock

# Linux's timerfd: a descriptor that becomes readable at a moment of the monotonic clock, exact to
# some 50 us. Python has it only from 3.13 on, so ctypes calls it.
_CLOCK_MONOTONIC = 1
_TFD_TIMER_ABSTIME = 1
_libc: Any = ctypes.CDLL(None, use_errno=True)
# struct itimerspec: an interval, which stays 0, and the moment; seconds and nanoseconds of each.
# One for all, because making one takes longer than the call.
_timerspec = (ctypes.c_long * 4)()
_US = 1_000_000
_TIMED = Stage.TIMED  # an enum's member takes a tenth of a microsecond to look up


class _Claimed(msgspec.Struct):
    """The invocations of one claim, earliest first. `ahead_us`: the server's clock is ahead of ours
    by at least this, by readings since the claim: a server that set its clock back is believed."""

    invocations: deque[Invocation]
    ahead_us: int
    reading: int

    def first_us(self) -> int:
        """When its first is due, by the monotonic clock: never before it is by the server's."""
        return self.invocations[0].due_at_ms * 1000 - self.ahead_us

    def pop_due(self, now_us: int) -> list[Invocation]:
        due = []
        server_ms = (now_us + self.ahead_us) // 1000
        while self.invocations and self.invocations[0].due_at_ms <= server_ms:
            due.append(self.invocations.popleft())
        return due


class _Slotted(_Claimed):
    """Those with slots, by the moments at which they may start. Apart, so that the many without
    one cost no call each."""

    def first_us(self) -> int:
        return self.invocations[0].starts_at_us - self.ahead_us

    def pop_due(self, now_us: int) -> list[Invocation]:
        due = []
        server_us = now_us + self.ahead_us
        while self.invocations and self.invocations[0].starts_at_us <= server_us:
            due.append(self.invocations.popleft())
        return due


class TimerWheel:
    """Holds schedules until they may start; `fire` gets each when it is due and its slot has come.

    `one_clock`: all of the store has the clock that `clock` reads. With several servers only the
    claim's own reading counts.
    """

    def __init__(
        self, clock: StoreClock, *, one_clock: bool, fire: Callable[[list[Invocation]], None]
    ) -> None:
        self._clock = clock
        self._one_clock = one_clock
        self._fire = fire
        self._claims: list[_Claimed] = []
        self._alarm = Alarm(asyncio.get_running_loop(), self._ring)
        self._set_for_us = 0

    def add(self, invocations: Sequence[Invocation], reading: int) -> None:
        """Takes in claimed schedules; due ones are fired before this returns.

        `reading` is the clock's that came with the claim; nothing was read since.
        """
        ahead_us = self._clock.offset_since_us(reading)
        by_time, slotted = sorted(invocations, key=attrgetter("due_at_ms")), list[Invocation]()
        for each in by_time:
            each.enter(_TIMED)
            if each.slot_us is not None:
                slotted.append(each)
        parts = [_Claimed(deque(by_time), ahead_us, reading)]
        if slotted:
            slotted.sort(key=attrgetter("starts_at_us"))
            others = deque(each for each in by_time if each.slot_us is None)
            parts = [
                _Slotted(deque(slotted), ahead_us, reading),
                _Claimed(others, ahead_us, reading),
            ]
        due, now_us = list[Invocation](), _now_us()
        for part in parts:
            due += part.pop_due(now_us)
            if part.invocations:
                self._claims.append(part)
                self._set()
        if due:
            self._fire(due)

    def slotted(self) -> list[Invocation]:
        """Schedules that wait for a slot."""
        parts = (each.invocations for each in self._claims if isinstance(each, _Slotted))
        return [each for part in parts for each in part if not each.is_callback]

    def refresh(self) -> None:
        """The clock was read again: it may be known to be further than it was thought to be."""
        if self._one_clock and self._claims:
            for claimed in self._claims:
                better_us = self._clock.offset_since_us(claimed.reading)
                claimed.ahead_us = max(claimed.ahead_us, better_us)
            self._set()

    def clear(self) -> None:
        self._claims.clear()

    def close(self) -> None:
        self._alarm.close()

    def _ring(self) -> None:
        now_us = _now_us()
        due = [each for claimed in self._claims for each in claimed.pop_due(now_us)]
        self._claims = [claimed for claimed in self._claims if claimed.invocations]
        self._set_for_us = 0
        self._set()
        if due:
            self._fire(due)

    def _set(self) -> None:
        first_us = min((claimed.first_us() for claimed in self._claims), default=0)
        if first_us and first_us != self._set_for_us:
            self._set_for_us = first_us
            self._alarm.set(first_us)


def _now_us() -> int:
    return time.monotonic_ns() // 1000


class Alarm:
    """Calls `ring` at the moment that was set last. `close` it at the end. Without timerfd it takes
    the loop's timers, which count whole milliseconds."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> None:
        self._loop = loop
        self._ring = ring
        self._handle: asyncio.TimerHandle | None = None
        self._descriptor = -1
        if sys.platform == "linux":
            flags = os.O_NONBLOCK | os.O_CLOEXEC
            self._descriptor = _libc.timerfd_create(_CLOCK_MONOTONIC, flags)
        if self._descriptor >= 0:
            loop.add_reader(self._descriptor, self._on_readable)

    def set(self, at_us: int) -> None:
        """At a moment of `time.monotonic`, in microseconds; one that has passed rings at once."""
        if self._descriptor >= 0:
            _timerspec[2], micros = divmod(max(1, at_us), _US)
            _timerspec[3] = micros * 1000
            if _libc.timerfd_settime(self._descriptor, _TFD_TIMER_ABSTIME, _timerspec, None) != 0:
                raise OSError(ctypes.get_errno(), "timerfd_settime")
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
