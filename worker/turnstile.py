"""The turnstile: who may do something costly in this round of the loop."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from worker.turns import Turns


class _Entrant(NamedTuple):
    account_id: str
    started_s: float
    turn: asyncio.Future[None]


class Turnstile:
    """Lets so many through in a round; the rest waits for the next ones, and accounts take turns.

    In between the loop looks at all its sockets: a thousand steps of a millisecond each are not
    one of a second.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, in_a_round: int) -> None:
        self._loop = loop
        self._in_a_round = in_a_round
        self._left = in_a_round
        self._waiting: Turns[_Entrant] = Turns()
        self._next_round: asyncio.Handle | None = None

    async def turn(self, account_id: str) -> None:
        """Returns once it is the account's turn: at once, if there is no crowd."""
        if self._left > 0:
            self._left -= 1
            self._count_round()
            return
        turn = self._loop.create_future()
        self._waiting.add(_Entrant(account_id, self._loop.time(), turn))
        await turn

    def _count_round(self) -> None:
        if self._next_round is None:
            self._next_round = self._loop.call_soon(self._begin_round)

    def _begin_round(self) -> None:
        self._next_round = None
        self._left = self._in_a_round
        while self._left and self._waiting:
            turn = self._waiting.pop().turn
            if not turn.done():  # else it was given up
                turn.set_result(None)
                self._left -= 1
        if self._left < self._in_a_round:
            self._count_round()
