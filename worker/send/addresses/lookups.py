"""Look-ups of names: which is made next, and for whom."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import msgspec

from worker.fair_share import FairQueue, FairShare

if TYPE_CHECKING:
    from worker.send.addresses.guard import Resolved

MAX_LOOKUPS = 256


class _Lookup(msgspec.Struct, eq=False):
    """The look-up of one name, queued for each of `accounts`; it starts with the first of them."""

    name: str
    answer: asyncio.Future[Resolved]
    is_refresh: bool
    accounts: set[str] = msgspec.field(default_factory=set)
    waiting: int = 0
    is_started: bool = False

    @property
    def is_wanted(self) -> bool:
        return not self.is_started and (self.is_refresh or self.waiting > 0)


class Lookups:
    """At most 256 at a time, of which no account has all; each name's is made once for all that
    wait. Names that were known go before new ones, round-robin over accounts, and a name is not
    looked up once its fires have ended. `ask` has its own time limit, and does not raise.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        ask: Callable[[str, str], Coroutine[Any, Any, Resolved]],
    ) -> None:
        self._loop = loop
        self._ask = ask
        self._shares = FairShare(MAX_LOOKUPS)
        self._pending: dict[str, _Lookup] = {}
        self._known: FairQueue[_Lookup] = FairQueue()
        self._new: FairQueue[_Lookup] = FairQueue()
        self._tasks: set[asyncio.Task[None]] = set()

    def refresh(self, name: str, account_id: str) -> None:
        """Has a name looked up again; no fire waits for it."""
        if name not in self._pending:
            self._line_up(self._begin(name, is_refresh=True), account_id)
            self._start()

    async def answer(self, name: str, account_id: str) -> Resolved:
        """Waits for a name's look-up, in the account's turn or with fires that wait already."""
        lookup = self._pending.get(name) or self._begin(name, is_refresh=False)
        lookup.waiting += 1
        if not lookup.is_started:
            self._line_up(lookup, account_id)
            self._start()
        try:
            # Shielded: one fire that is given up must not cancel the look-up for the others.
            return await asyncio.shield(lookup.answer)
        finally:
            lookup.waiting -= 1
            if not lookup.is_started and not lookup.is_wanted:
                self._pending.pop(name, None)

    def close(self) -> None:
        """Cancels running look-ups. Callers cancel their own waits."""
        for task in self._tasks:
            task.cancel()

    def _begin(self, name: str, *, is_refresh: bool) -> _Lookup:
        lookup = _Lookup(name, self._loop.create_future(), is_refresh)
        self._pending[name] = lookup
        return lookup

    def _line_up(self, lookup: _Lookup, account_id: str) -> None:
        if account_id not in lookup.accounts:
            lookup.accounts.add(account_id)
            queue = self._known if lookup.is_refresh else self._new
            queue.add(account_id, lookup)

    def _start(self) -> None:
        while self._shares.free:
            may_take = self._shares.may_take
            queued = self._known.pop_of(may_take) or self._new.pop_of(may_take)
            if queued is None:
                return
            account_id, lookup = queued
            if lookup.is_wanted:
                lookup.is_started = True
                self._shares.take(account_id)
                task = self._loop.create_task(self._run(lookup, account_id))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _run(self, lookup: _Lookup, account_id: str) -> None:
        try:
            answer = await self._ask(lookup.name, account_id)
        finally:
            self._shares.give_back(account_id)
            del self._pending[lookup.name]
        lookup.answer.set_result(answer)
        self._start()
