"""The wheel: what was claimed ahead of its time, until its very millisecond.

The near end of what a timing wheel would be: a claim brings what is due within the next moments,
so the store's round trip, its disk and the network add nothing to lateness.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence

from scheduler.models import Invocation
from scheduler.store.server.clock import StoreClock
from worker.alarm import Alarm


class _Turn:
    """What one claim brought, earliest first.

    `ahead_us` is what the server's clock is ahead of ours at least. Nothing that was read before
    the claim counts, so a server that set its clock back is believed.
    """

    __slots__ = ("ahead_us", "invocations", "reading")

    def __init__(self, invocations: deque[Invocation], ahead_us: int, reading: int) -> None:
        self.invocations = invocations
        self.ahead_us = ahead_us
        self.reading = reading

    def first_us(self) -> int:
        """When its first is due, by the monotonic clock: never before it is by the server's."""
        return self.invocations[0].due_at_ms * 1000 - self.ahead_us

    def pop_due(self, now_us: int) -> list[Invocation]:
        due = []
        server_ms = (now_us + self.ahead_us) // 1000
        while self.invocations and self.invocations[0].due_at_ms <= server_ms:
            due.append(self.invocations.popleft())
        return due


class Wheel:
    """Holds what is not due yet; `fire` gets what is, as it becomes due.

    `one_clock`: all of the store has the clock that `clock` reads. Of several servers only what a
    claim itself told counts.
    """

    def __init__(
        self, clock: StoreClock, *, one_clock: bool, fire: Callable[[list[Invocation]], None]
    ) -> None:
        self._clock = clock
        self._one_clock = one_clock
        self._fire = fire
        self._turns: list[_Turn] = []
        self._alarm = Alarm(asyncio.get_running_loop(), self._ring)
        self._set_for_us = 0

    def add(self, invocations: Sequence[Invocation], reading: int) -> None:
        """Takes in what a claim brought; what is due already is fired before this returns.

        `reading` is the clock's that came with the claim; nothing was read since.
        """
        by_time = sorted(invocations, key=_due_ms)
        turn = _Turn(deque(by_time), self._clock.offset_since_us(reading), reading)
        due = turn.pop_due(_now_us())
        if turn.invocations:
            self._turns.append(turn)
            self._set()
        if due:
            self._fire(due)

    def refresh(self) -> None:
        """The clock was read again: it may be known to be further than it was thought to be."""
        if self._one_clock and self._turns:
            for turn in self._turns:
                better_us = self._clock.offset_since_us(turn.reading)
                turn.ahead_us = max(turn.ahead_us, better_us)
            self._set()

    def clear(self) -> list[Invocation]:
        """Gives up all that it holds."""
        left = [each for turn in self._turns for each in turn.invocations]
        self._turns.clear()
        return left

    def close(self) -> None:
        self._alarm.close()

    def _ring(self) -> None:
        now_us = _now_us()
        due = [each for turn in self._turns for each in turn.pop_due(now_us)]
        self._turns = [turn for turn in self._turns if turn.invocations]
        self._set_for_us = 0
        self._set()
        if due:
            self._fire(due)

    def _set(self) -> None:
        first_us = min((turn.first_us() for turn in self._turns), default=0)
        if first_us and first_us != self._set_for_us:
            self._set_for_us = first_us
            self._alarm.set(first_us)


def _due_ms(invocation: Invocation) -> int:
    return invocation.due_at_ms


def _now_us() -> int:
    return time.monotonic_ns() // 1000
