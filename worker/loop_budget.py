"""Bounds what fires and costly work take of one round of the loop: the store is read in between."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Sequence
from functools import partial

from scheduler.models import Invocation
from scheduler.stages import Stage
from worker.fair_share import FairQueue
from worker.start_queue import StartQueue

# A byte of the most costly answers, one-byte chunks and empty 1xx, is 5 to 30 ns of parsing.
ROUND_BYTES = 256 * 1024
# Linux takes this twice, for what belongs to it as well.
_UNREAD_BYTES = 32 * 1024
# A fire on a kept connection is 30 us of the loop's time, a cold one 200 us: thousands at once
# would keep answers, acks and leases waiting for most of a second.
ROUND_S = 0.002
# So few go out at once, whatever waits.
_FEW = 8
_QUEUED = Stage.QUEUED  # an enum's member takes a tenth of a microsecond to look up


class LoopBudget:
    """So many bytes of answers are parsed, or costly steps taken, in one round of the loop. The
    rest is queued, round-robin over accounts. Between two rounds the loop reads all its sockets,
    so leases, acks and small answers wait for one round at most."""

    def __init__(self, loop: asyncio.AbstractEventLoop, in_a_round: int = ROUND_BYTES) -> None:
        self.loop = loop
        self._in_a_round = in_a_round
        self._left = in_a_round
        self._waiting: FairQueue[Callable[[], None]] = FairQueue()
        self._is_serving = False
        self._next_round: asyncio.Handle | None = None

    def take(self, size: int) -> bool:
        """Whether so much may be done now; else call `wait`. The last of a round may be larger."""
        if (self._waiting and not self._is_serving) or self._left <= 0:
            return False
        self._left -= size
        self._count_round()
        return True

    def wait(self, account_id: str, go_on: Callable[[], None]) -> None:
        """`go_on` is called in the account's turn; it is to `take` then."""
        self._waiting.add(account_id, go_on)
        self._count_round()

    async def turn(self, account_id: str) -> None:
        """Takes one, and returns once it is the account's turn: at once, if there is no crowd."""
        if self.take(1):
            return
        turn = self.loop.create_future()
        self.wait(account_id, partial(self._let_in, turn))
        await turn

    def _let_in(self, turn: asyncio.Future[None]) -> None:
        if not turn.done():  # else it was given up
            self.take(1)
            turn.set_result(None)

    def _count_round(self) -> None:
        if self._next_round is None:
            self._next_round = self.loop.call_soon(self._begin_round)

    def _begin_round(self) -> None:
        self._next_round = None
        self._left = self._in_a_round
        self._is_serving = True
        try:
            while self._waiting and self._left > 0:
                self._waiting.pop()()
        finally:
            self._is_serving = False
            if self._waiting:
                self._count_round()


class SendBatch:
    """Calls `fire` for each invocation, some in each round of the loop, round-robin over accounts:
    a neighbour of an account with thousands waits for one of them. Those with a rate go first.
    Callbacks, which nobody expects at a moment, go behind all else: one in each round, or a tenth
    of what goes in it. A claim brings several, and a schedule waits for no more than one."""

    def __init__(self, fire: Callable[[Invocation], None]) -> None:
        self._fire = fire
        self._waiting = StartQueue()
        self._callbacks: FairQueue[Invocation] = FairQueue()
        self._loop = asyncio.get_running_loop()
        self._round: asyncio.Handle | None = None

    def fire(self, invocations: Sequence[Invocation]) -> None:
        """In this order within an account and kind. Possibly after this returns."""
        if len(invocations) <= _FEW and not self._waiting:
            rest = [each for each in invocations if each.is_callback]
            for each in invocations:
                if not each.is_callback:
                    self._fire(each)
            invocations = rest
        for each in invocations:
            each.enter(_QUEUED)
            if each.is_callback:
                self._callbacks.add(each.account_id, each)
            elif each.slack_us:
                self._waiting.add_rated(each)
            else:
                self._waiting.add(each.account_id, each)
        if self._round is None and (self._waiting or self._callbacks):
            self._go_on()

    def rated(self) -> list[Invocation]:
        """Those that wait though their slots have come."""
        return [each for queue in self._waiting.rated.values() for each in queue]

    def clear(self) -> None:
        self._waiting.clear()
        self._callbacks.clear()

    def _go_on(self) -> None:
        """One round. The next one comes after the loop has looked at all its sockets; until then
        added ones wait for it, even if nothing else does."""
        self._round = None
        if not (self._waiting or self._callbacks):
            return
        self._round = self._loop.call_soon(self._go_on)
        until_s = time.monotonic() + ROUND_S
        fire, waiting, before = self._fire, self._waiting, self._waiting.turns
        while waiting and time.monotonic() < until_s:
            waiting.turns += 1
            fire(waiting.pop_rated() if waiting.rated else waiting.pop())
        for _ in range(max(1, (waiting.turns - before) // 10)):
            if self._callbacks:
                fire(self._callbacks.pop())


def bound_reading(transport: asyncio.BaseTransport) -> None:
    """Bounds what a target may send before it is read, by the system and by TLS: so much comes in
    one piece, and no more is held of an answer that has to wait."""
    opened = transport.get_extra_info("socket")
    if opened is not None:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _UNREAD_BYTES)
    set_limits = getattr(transport, "set_read_buffer_limits", None)
    if set_limits is not None:
        set_limits(_UNREAD_BYTES)
