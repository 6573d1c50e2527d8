"""The volley: what is due goes out by accounts in turn, for a few milliseconds in each round."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence

from scheduler.models import Invocation

# A fire on a kept connection is 30 us of the loop's time, a cold one 200 us: thousands at once
# would keep answers, acks and leases waiting for most of a second.
ROUND_S = 0.004
# So few go out at once, whatever waits.
_FEW = 8


class Volley:
    """Fires what it is given, with `fire`; what is more than a round's time waits for the next
    ones. One account's thousands so let a neighbour's go next but one."""

    def __init__(self, fire: Callable[[Invocation], None]) -> None:
        self._fire = fire
        # A dict as a ring: the first account's turn it is.
        self._lines: dict[str, deque[Invocation]] = {}
        self._loop = asyncio.get_running_loop()
        self._round: asyncio.Handle | None = None

    def fire(self, invocations: Sequence[Invocation]) -> None:
        """In this order, but for turns. Possibly after this returns."""
        if len(invocations) <= _FEW and not self._lines:
            for each in invocations:
                self._fire(each)
            return
        for each in invocations:
            line = self._lines.get(each.account_id)
            if line is None:
                line = self._lines[each.account_id] = deque()
            line.append(each)
        if self._round is None:
            self._go_on()

    def clear(self) -> list[Invocation]:
        """Gives up all that waits."""
        left = [each for line in self._lines.values() for each in line]
        self._lines.clear()
        return left

    def _go_on(self) -> None:
        """One round. The next one comes after the loop has looked at all its sockets; until then
        what is added waits for it, even if nothing else does."""
        self._round = None
        if not self._lines:
            return
        self._round = self._loop.call_soon(self._go_on)
        lines, until_s = self._lines, time.monotonic() + ROUND_S
        while lines and time.monotonic() < until_s:
            account_id = next(iter(lines))
            line = lines.pop(account_id)
            each = line.popleft()
            if line:
                lines[account_id] = line
            self._fire(each)
