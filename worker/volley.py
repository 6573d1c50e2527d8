"""The volley: what is due goes out by accounts in turn, for a few milliseconds in each round."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from scheduler.models import Invocation
from worker.turns import Turns

# A fire on a kept connection is 30 us of the loop's time, a cold one 200 us: thousands at once
# would keep answers, acks and leases waiting for most of a second.
ROUND_S = 0.002
# So few go out at once, whatever waits.
_FEW = 8


class Volley:
    """Fires what it is given, with `fire`; what is more than a round's time waits for the next
    ones. One account's thousands so let a neighbour's go next but one."""

    def __init__(self, fire: Callable[[Invocation], None]) -> None:
        self._fire = fire
        self._waiting: Turns[Invocation] = Turns()
        self._loop = asyncio.get_running_loop()
        self._round: asyncio.Handle | None = None

    def fire(self, invocations: Sequence[Invocation]) -> None:
        """In this order, but for turns. Possibly after this returns."""
        if len(invocations) <= _FEW and not self._waiting:
            for each in invocations:
                self._fire(each)
            return
        for each in invocations:
            self._waiting.add(each)
        if self._round is None:
            self._go_on()

    def clear(self) -> list[Invocation]:
        """Gives up all that waits."""
        return self._waiting.pop_all()

    def _go_on(self) -> None:
        """One round. The next one comes after the loop has looked at all its sockets; until then
        what is added waits for it, even if nothing else does."""
        self._round = None
        if not self._waiting:
            return
        self._round = self._loop.call_soon(self._go_on)
        until_s = time.monotonic() + ROUND_S
        while self._waiting and time.monotonic() < until_s:
            self._fire(self._waiting.pop())
