"""Deadlines of fires in flight: a queue for each time limit, and one timer."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable
from itertools import chain, takewhile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from worker.send.fire import Fire

# The timer goes off at least this often while something is in flight, so that pauses of the process
# (SIGSTOP, a virtual machine, a laptop's lid) are seen, and their length. Limits are a second or
# longer, or that of the settings for all: no new deadline comes before a timer that is set.
_TICK_S = 0.25
_PAUSE_S = 1.0  # a timer that is so late means one
# After one, sockets are read before anything is judged.
_READ_FIRST_S = 0.1


class Deadlines:
    """The fires in flight; `expire` is called with each that ran out, in no order.

    Those with the same limit come with their first deadline first. A dict keeps that order and
    forgets a fire at once; a deque would keep everything behind the slowest one, a million fires in
    30 s. There are at most 30 limits.

    A pause of this process is not charged to unsent fires: their deadlines move.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, expire: Callable[[Fire], None]) -> None:
        self._loop = loop
        self._expire = expire
        self._queues: defaultdict[int, dict[Fire, None]] = defaultdict(dict)  # by limit
        self._timer: asyncio.TimerHandle | None = None
        self._timer_s = 0.0

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def add(self, entry: Fire) -> None:
        self._queues[entry.limit_ms][entry] = None
        if self._timer is None:
            self._arm(time.monotonic())

    def discard(self, entry: Fire) -> None:
        """The entry has ended; harmless if it is not (or no longer) here."""
        self._queues[entry.limit_ms].pop(entry, None)

    def clear(self) -> list[Fire]:
        left = list(chain.from_iterable(self._queues.values()))
        self._queues.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        return left

    def _on_timer(self) -> None:
        self._timer = None
        now_s = time.monotonic()
        paused_s = now_s - self._timer_s
        if paused_s > _PAUSE_S and len(self):
            self._move(paused_s + _TICK_S)
            self._arm(now_s, at_least_s=_READ_FIRST_S)
            return
        # The whole list first: `expire` may add and discard entries.
        late = [
            entry
            for queue in self._queues.values()
            for entry in takewhile(lambda entry: entry.deadline_s <= now_s, queue)
        ]
        for entry in late:
            queue = self._queues[entry.limit_ms]
            if entry in queue:
                del queue[entry]
                self._expire(entry)
        if self._timer is None and len(self):
            self._arm(now_s)

    def _move(self, paused_s: float) -> None:
        for limit_ms, queue in self._queues.items():
            for entry in queue:
                if not entry.is_sent:
                    entry.deadline_s += paused_s
            in_order = sorted(queue, key=lambda entry: entry.deadline_s)
            self._queues[limit_ms] = dict.fromkeys(in_order)

    def _arm(self, now_s: float, at_least_s: float = 0.0) -> None:
        """To be called while something is in flight."""
        first_s = min(next(iter(queue)).deadline_s for queue in self._queues.values() if queue)
        first_s -= now_s
        delay_s = max(at_least_s, min(first_s, _TICK_S))
        self._timer_s = now_s + delay_s
        self._timer = self._loop.call_later(delay_s, self._on_timer)
