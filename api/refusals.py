"""The pace at which a process refuses keys."""

from __future__ import annotations

import asyncio
import random
import time

PER_SECOND = 100
AT_ONCE = 25
LONGEST_WAIT_S = 5.0
MOST_WAITING = 5000

_TICK_S = 0.02


class Refusals:
    """Gives each refusal its turn, so many a second, after a burst.

    A single mistake is answered at once. A flood waits for its answers before it sends more, so it
    slows down to a pace that costs others little: a request that waits here costs only memory.
    """

    def __init__(self) -> None:
        self._next_s = 0.0
        self._waiting = 0

    async def turn(self) -> bool:
        """Returns when a refusal may go out; False, at once, if too many wait for that already."""
        wait_s = self._wait_s(time.monotonic())
        if wait_s <= 0:
            return True
        if self._waiting >= MOST_WAITING:
            return False
        self._waiting += 1
        try:
            await asyncio.sleep(wait_s)
        finally:
            self._waiting -= 1
        return True

    def _wait_s(self, now_s: float) -> float:
        """Each takes the next free moment of a queue (GCRA).

        Where the queue is full, each waits for about as long as it is, spread at random. A few
        leave the queue together: their next keys are then checked in one batch, which is cheaper.
        """
        next_s = max(self._next_s, now_s - AT_ONCE / PER_SECOND) + 1 / PER_SECOND
        if next_s <= now_s:
            self._next_s = next_s
            return 0.0
        if next_s - now_s > LONGEST_WAIT_S:
            return LONGEST_WAIT_S * random.uniform(0.7, 1)  # noqa: S311  # no secret
        self._next_s = next_s
        return next_s - next_s % _TICK_S + _TICK_S - now_s
