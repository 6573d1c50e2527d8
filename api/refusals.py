"""The pace at which a process refuses keys: a flood of bad ones waits for itself."""

from __future__ import annotations

import asyncio
import time

PER_SECOND = 100
AT_ONCE = 25
LONGEST_WAIT_S = 5.0

_TICK_S = 0.02


class Refusals:
    """Gives each refusal its turn, so many a second, after a burst.

    A client that has made a mistake is told at once. A flood, which sends on a connection only
    when its last request was answered, is slowed down to a pace that costs others nothing,
    however many connections it has; it may have at most five hundred requests wait here.
    """

    def __init__(self) -> None:
        self._next_s = 0.0

    async def turn(self) -> bool:
        """Returns when a refusal may go out; False if too many wait for that already.

        Each takes the next free moment of a row, as GCRA has it, so nothing is kept of those that
        wait, and nothing has to be cleaned up after those that go away.
        """
        now_s = time.monotonic()
        next_s = max(self._next_s, now_s - AT_ONCE / PER_SECOND) + 1 / PER_SECOND
        if next_s - now_s > LONGEST_WAIT_S:
            return False
        self._next_s = next_s
        if next_s > now_s:
            # A few leave together, for what they bring next is then checked together.
            await asyncio.sleep(next_s - next_s % _TICK_S + _TICK_S - now_s)
        return True
