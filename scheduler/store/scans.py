"""Limits searches of an account's requests to 50 ms of work a second, over all API processes.

Work is counted by entries looked at, not by a clock: others may make a search slow. A process runs
one search of an account at a time and keeps less than 10 ms back, so at most that and one search of
each process is not counted yet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from scheduler.errors import TooManyScans
from scheduler.store import keys
from scheduler.store.server import Script, Server

SCANS_US_PER_S = 50_000
_LONGEST_DEBT_US = 10_000_000
# The time (us) in which the work was paid for that may be done at once.
_BURST_US = 1_000_000
# On one core, the store's part and ours: to look at a schedule or a chunk of the log; to unpack and
# compare one that may be wanted; and for each byte that is read.
_LOOK_US, _UNPACK_US, _BYTE_US = 7.0, 6.0, 0.01

# A write takes the store 100 us and more, most of that until it is on disk; a cheap search takes as
# much. So the work of several is written together.
_WRITTEN_US = 10_000
_MOST_KEPT_BACK = 4096

_SCAN = Script("scan")


class Scan:
    """The work of a search, as the time (us) that it takes."""

    def __init__(self) -> None:
        self.us = 0.0

    def add(self, looked_at: int, unpacked: int, size_bytes: int) -> None:
        self.us += looked_at * _LOOK_US + unpacked * _UNPACK_US + size_bytes * _BYTE_US


class Scans:
    """Lets an account's searches begin, one after the other, and counts them."""

    def __init__(self, server: Server) -> None:
        self._server = server
        # Only of accounts with a search that runs or waits.
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        # By account: work (us) that is not written yet.
        self._kept_back: dict[str, int] = {}

    @asynccontextmanager
    async def of(
        self, account_id: str, *, searches: bool, gives_way: bool = False
    ) -> AsyncIterator[Scan]:
        """Around reading an account's requests; counts if it `searches` among them. Raises
        TooManyScans before anything is read. One that `gives_way` waits until all earlier ones are
        paid for: the burst is for people who look at a page."""
        scan = Scan()
        if not searches:
            yield scan
            return
        turn = self._turns.setdefault(account_id, asyncio.Lock())
        async with turn:
            wait_ms = await self._count(account_id, 0, 0 if gives_way else _BURST_US)
            if wait_ms:
                raise TooManyScans(wait_ms)
            try:
                yield scan
            finally:
                await self._spend(account_id, round(scan.us))

    async def _spend(self, account_id: str, us: int) -> None:
        us += self._kept_back.pop(account_id, 0)
        if us >= _WRITTEN_US:
            await self._count(account_id, us)
            return
        if len(self._kept_back) >= _MOST_KEPT_BACK:
            del self._kept_back[next(iter(self._kept_back))]
        self._kept_back[account_id] = us

    async def _count(self, account_id: str, spent_us: int, burst_us: int = 0) -> int:
        arguments = (spent_us, SCANS_US_PER_S, _LONGEST_DEBT_US, burst_us)
        wait_ms: int = await self._server.look_up(_SCAN, keys.account(account_id), arguments)
        return wait_ms
