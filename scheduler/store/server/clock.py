"""The store's clock, as this process can tell it between two replies."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Any

from scheduler.runtime.elapsed import elapsed_s, slept_s

_REMEMBERED = 32
# More than the time limit of a reply.
_STEP_US = 20_000_000
# Readings differ by up to this much although no clock was set back.
_JITTER_US = 20_000
# More than any scheduler keeps a process from going on between two calls, as a rule.
_NAP_S = 0.1


def time_us(reply: Sequence[bytes]) -> int:
    """The server's time as it replies to TIME."""
    return int(reply[0]) * 1_000_000 + int(reply[1])


class StoreClock:
    """An estimate of the server's time that is never ahead of it.
    Each reading is late by its reply's way, so the largest of the recent ones is the best. Older
    ones do not count: a server may set its clock back. When the best reading is forgotten, `now_us`
    stands still for up to 20 ms instead of going back, so that schedules made one after the other
    keep their order.
    `steps_back` counts steps of more than 20 s, by a reading or by what others wrote before;
    `readings` counts all readings.

    While this machine sleeps, the server's clock goes on: until the next reply `now_us` adds the
    time slept, by up to a second too much. `offset_since_us`, which decides when to fire, not."""

    def __init__(self) -> None:
        self._offsets_us: deque[int] = deque(maxlen=_REMEMBERED)
        self._offset_us = time.time_ns() // 1000 - time.monotonic_ns() // 1000
        self._slept_s = slept_s()
        self._woken_readings = 0
        self._told_us = 0
        self.steps_back = 0
        self.readings = 0

    def observe(self, server_us: int) -> None:
        """Takes in the server's time, in microseconds, from a reply that has just arrived."""
        offset_us = server_us - time.monotonic_ns() // 1000
        if self._offsets_us and offset_us < self._offset_us - _STEP_US:
            # No reply takes so long: the server's clock was set back.
            self.steps_back += 1
            self._offsets_us.clear()
        asleep_us = self._asleep_us()
        if asleep_us:
            self._wake(asleep_us, offset_us)
        self.readings += 1
        self._offsets_us.append(offset_us)
        self._offset_us = max(self._offsets_us)

    def observe_newest(self, replies: Sequence[Any]) -> None:
        """Takes in the last of scripts' replies that is no error, of those that came together and
        begin with the server's time."""
        times_us = [reply[0] for reply in replies if not isinstance(reply, Exception)]
        if times_us:
            self.observe(times_us[-1])

    def observe_reply(self, time: Sequence[bytes]) -> int:
        """The server's time (ms) of a reply to TIME that has just arrived, which is taken in."""
        self.observe(time_us(time))
        return time_us(time) // 1000

    def now_us(self) -> int:
        awake_us = time.monotonic_ns() // 1000
        now_us = awake_us + self._offset_us
        # One look at the clock that counts sleep tells whether it slept at all.
        if elapsed_s() - awake_us / 1e6 - self._slept_s >= _NAP_S:
            now_us += self._asleep_us()
        if not now_us < self._told_us < now_us + _JITTER_US:
            self._told_us = now_us
        return self._told_us

    def now_ms(self) -> int:
        return self.now_us() // 1000

    def _asleep_us(self) -> int:
        """How long the machine slept since the last reading of a reply."""
        asleep_s = slept_s() - self._slept_s
        if asleep_s < _NAP_S:
            return 0
        # Between two clocks this process may have stood still; hardly twice.
        asleep_s = min(asleep_s, slept_s() - self._slept_s)
        return int(asleep_s * 1_000_000) if asleep_s >= _NAP_S else 0

    def _wake(self, asleep_us: int, offset_us: int) -> None:
        """A reply has arrived after a sleep. One that was on its way during the sleep is no news of
        it; but many in a row count, whatever the system measured."""
        self._woken_readings += 1
        knows_of_it = offset_us > self._offset_us + asleep_us // 2
        if knows_of_it or self._woken_readings == _REMEMBERED:
            self._slept_s = slept_s()
            self._woken_readings = 0

    def at_us(self, monotonic_s: float) -> int:
        """The server's time at a moment of this process's monotonic clock (`loop.time()`)."""
        return int(monotonic_s * 1e6) + self._offset_us

    def offset_since_us(self, reading: int) -> int:
        """How far the monotonic clock is surely behind the server's, by the `reading`-th reply and
        later ones: never too much, even if the server's clock was set back just before."""
        count = max(1, self.readings - reading + 1)
        return max(islice(reversed(self._offsets_us), count))
