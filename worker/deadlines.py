"""Deadlines of fires in flight: one time limit for all, so one queue and one timer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from itertools import takewhile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from worker.fire import Fire

# The timer goes off at least this often while something is in flight, so that pauses of the process
# (SIGSTOP, a virtual machine, a laptop's lid) are seen, and their length.
_TICK_S = 0.25
_PAUSE_S = 1.0  # a timer that is so late means one
# After one, sockets are read before anything is judged.
_READ_FIRST_S = 0.1


class Deadlines:
    """The fires in flight, first deadline first; `expire` is called with each that ran out.

    They come in that order, because all have the same limit. A dict keeps it and forgets a fire at
    once; a deque would keep everything behind the slowest one, a million fires in 30 s.

    A pause of this process is not charged to unsent fires: their deadlines move.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, expire: Callable[[Fire], None]) -> None:
        self._loop = loop
        self._expire = expire
        self._entries: dict[Fire, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_s = 0.0

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, entry: Fire) -> None:
        self._entries[entry] = None
        if self._timer is None:
            self._arm(time.monotonic())

    def discard(self, entry: Fire) -> None:
        """The entry has ended; harmless if it is not (or no longer) here."""
        self._entries.pop(entry, None)

    def clear(self) -> list[Fire]:
        left = list(self._entries)
        self._entries.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        return left

    def _on_timer(self) -> None:
        self._timer = None
        now_s = time.monotonic()
        paused_s = now_s - self._timer_s
        if paused_s > _PAUSE_S and self._entries:
            self._move(paused_s + _TICK_S)
            self._arm(now_s, at_least_s=_READ_FIRST_S)
            return
        # The whole list first: `expire` may add and discard entries.
        late = list(takewhile(lambda entry: entry.deadline_s <= now_s, self._entries))
        for entry in late:
            if entry in self._entries:
                del self._entries[entry]
                self._expire(entry)
        if self._entries and self._timer is None:
            self._arm(now_s)

    def _move(self, paused_s: float) -> None:
        for entry in self._entries:
            if not entry.is_sent:
                entry.deadline_s += paused_s
        in_order = sorted(self._entries, key=lambda entry: entry.deadline_s)
        self._entries = dict.fromkeys(in_order)

    def _arm(self, now_s: float, at_least_s: float = 0.0) -> None:
        first_s = next(iter(self._entries)).deadline_s - now_s
        delay_s = max(at_least_s, min(first_s, _TICK_S))
        self._timer_s = now_s + delay_s
        self._timer = self._loop.call_later(delay_s, self._on_timer)
