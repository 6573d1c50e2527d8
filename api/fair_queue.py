"""Turns on the event loop, fair by account, by the CPU time that each account's requests take.

A request runs in steps, each from one await to the next, and long work awaits a `Pause` now and
then. Steps of an account that has taken little lately run at once. All others wait in line. One of
them runs at a time: that of the account that has taken least time, and of its requests the one that
has taken least. After each the loop looks at its sockets, so that a small create waits for one step
at most, and not for as many as there are connections.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator
from heapq import heappop, heappush
from itertools import count
from typing import Any, cast

from litestar.types import Scope

# Of the loop's time an account may take this much without waiting, and so much (s) at once.
_FREE_SHARE, _FREE_S = 0.05, 0.002
# Rounds of the loop after a step: a call of the store goes out, or an answer, in as many.
_ROUNDS, _SHORT_S = 3, 0.0002
_MOST_KNOWN = 4096
# All that have not shown a good key share what one account has.
STRANGERS = ""
_PAYER = "postdate.payer"

Clock = Callable[[], float]


class Payer:
    """A request: the account that its time is charged to, and how much it has taken (s)."""

    __slots__ = ("account_id", "has_turn", "owed_s", "taken_s")

    def __init__(self, account_id: str = STRANGERS) -> None:
        self.account_id = account_id
        self.taken_s = self.owed_s = 0.0
        self.has_turn = False


class _Account:
    """`over_s`: time beyond the free share, as of `at_s`. `served_s` orders accounts in line."""

    __slots__ = ("at_s", "over_s", "served_s")

    def __init__(self, now_s: float, served_s: float) -> None:
        self.at_s, self.over_s, self.served_s = now_s, 0.0, served_s


_Waiting = tuple[float, int, Payer, "asyncio.Future[None]"]


class Turns:
    """The clock is of the wall: that of the thread is a call of the system, and takes longer than
    many a step. Time that the machine gave to others falls on all alike."""

    def __init__(self, clock: Clock = time.perf_counter) -> None:
        self._clock = clock
        self._accounts: dict[str, _Account] = {}
        self._line: dict[str, list[_Waiting]] = {}
        self._numbers = count()
        # What the account had been served that had the last turn: one that comes begins there.
        self._served_s = 0.0
        self._is_taken = False

    def taken(self, work: Coroutine[Any, Any, None], payer: Payer) -> Awaitable[None]:
        """The work of a request, whose steps take turns. Raises what the work does."""
        return _Steps(self, work, payer)

    def must_wait(self, payer: Payer) -> bool:
        account = self._accounts.get(payer.account_id)
        return account is not None and self._over_s(account) > _FREE_S

    def wait(self, payer: Payer) -> asyncio.Future[None]:
        """The payer's turn. The caller awaits it, runs its step, and calls `end`."""
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        entry = payer.taken_s, next(self._numbers), payer, turn
        if payer.account_id not in self._line:
            account = self._account(payer.account_id)
            account.served_s = max(account.served_s, self._served_s)
            self._line[payer.account_id] = []
        heappush(self._line[payer.account_id], entry)
        if not self._is_taken:
            self._is_taken = True
            loop.call_soon(self._next, 0)
        return turn

    def begin(self) -> float:
        return self._clock()

    def end(self, payer: Payer, began_s: float) -> None:
        """Charges a step, and gives the turn on, if the payer had it. A stranger's is charged at
        the end of the request, to whoever that was by then."""
        took_s = self._clock() - began_s
        payer.taken_s += took_s
        payer.owed_s += took_s
        if payer.account_id != STRANGERS:
            self.charge(payer)
        if payer.has_turn:
            payer.has_turn = False
            rounds = _ROUNDS if took_s > _SHORT_S else 0
            asyncio.get_running_loop().call_soon(self._next, rounds)

    def charge(self, payer: Payer) -> None:
        """Puts what the request owes on its account."""
        if payer.owed_s:
            account = self._account(payer.account_id)
            account.over_s = self._over_s(account) + payer.owed_s
            account.served_s += payer.owed_s
            payer.owed_s = 0.0

    def _next(self, rounds: int) -> None:
        if rounds:
            asyncio.get_running_loop().call_soon(self._next, rounds - 1)
            return
        while self._line:
            account_id = min(self._line, key=self._served_s_of)
            entries = self._line[account_id]
            _, _, payer, turn = heappop(entries)
            self._served_s = self._served_s_of(account_id)
            if not entries:
                del self._line[account_id]
            if not turn.done():  # else its request was given up
                payer.has_turn = True
                turn.set_result(None)
                return
        self._is_taken = False

    def _served_s_of(self, account_id: str) -> float:
        return self._account(account_id).served_s

    def _account(self, account_id: str) -> _Account:
        account = self._accounts.get(account_id)
        if account is None:
            if len(self._accounts) >= _MOST_KNOWN:
                del self._accounts[next(iter(self._accounts))]
            account = self._accounts[account_id] = _Account(self._clock(), self._served_s)
        return account

    def _over_s(self, account: _Account) -> float:
        now_s = self._clock()
        account.over_s = max(0.0, account.over_s - (now_s - account.at_s) * _FREE_SHARE)
        account.at_s = now_s
        return account.over_s


class _Steps:
    """A coroutine that waits for its turn before each of its steps."""

    def __init__(self, turns: Turns, work: Coroutine[Any, Any, None], payer: Payer) -> None:
        self._turns, self._work, self._payer = turns, work, payer

    def __await__(self) -> Generator[Any, None, None]:
        turns, work, payer = self._turns, self._work, self._payer
        error: BaseException | None = None
        try:
            while True:
                if turns.must_wait(payer):
                    try:
                        yield from turns.wait(payer)
                    except BaseException as thrown:
                        error = thrown
                began_s = turns.begin()
                try:
                    awaited = work.send(None) if error is None else work.throw(error)
                except StopIteration:
                    return
                finally:
                    error = None  # with its frames, this one too, it would be a ring
                    turns.end(payer, began_s)
                try:
                    yield awaited
                except BaseException as thrown:
                    error = thrown
                awaited = None  # a future has the error that it raises
        finally:
            turns.charge(payer)


def note_payer(scope: Scope, payer: Payer) -> None:
    cast("dict[str, Any]", scope)[_PAYER] = payer


def note_time(scope: Scope, took_s: float) -> None:
    """Charges a request for work beside the loop."""
    payer: Payer | None = cast("dict[str, Any]", scope).get(_PAYER)
    if payer is not None:
        payer.taken_s += took_s
        payer.owed_s += took_s


async def pay_by(scope: Scope, account_id: str) -> None:
    """From here on the request's time is the account's. Returns when it is its turn."""
    payer: Payer | None = cast("dict[str, Any]", scope).get(_PAYER)
    if payer is not None and payer.account_id != account_id:
        payer.account_id = account_id
        await asyncio.sleep(0)
