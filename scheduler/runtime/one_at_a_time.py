"""Long work, one piece at a time and accounts in turn."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class OneAtATime:
    """Lets one begin when the one before has ended: a long script, as its server does nothing
    else meanwhile, or a page of the dashboard. So short work waits for one of them, and an account
    that has many does not keep another one's waiting."""

    def __init__(self) -> None:
        # By place; then by account, in the order of their turns.
        self._waiting: dict[str, dict[str, deque[asyncio.Future[None]]]] = {}

    @asynccontextmanager
    async def turn(self, place: str, account: str) -> AsyncIterator[None]:
        """Around a piece. Those of several places do not wait for one another."""
        accounts = self._waiting.get(place)
        if accounts is None:
            self._waiting[place] = {}
        else:
            turn = asyncio.get_running_loop().create_future()
            accounts.setdefault(account, deque()).append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if not turn.cancelled():
                    self._give_on(place)
                raise
        try:
            yield
        finally:
            self._give_on(place)

    def _give_on(self, place: str) -> None:
        accounts = self._waiting[place]
        while accounts:
            account, turns = next(iter(accounts.items()))
            turn = turns.popleft()
            del accounts[account]
            if turns:  # behind the others
                accounts[account] = turns
            if not turn.done():  # else it was given up
                turn.set_result(None)
                return
        del self._waiting[place]
