"""After a newer tzdata or a clock that was set back: slots that lie ahead are computed anew."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from scheduler import ids
from scheduler.recurrence.recurrence import TZDATA_VERSION
from scheduler.store import keys
from scheduler.store.recurring.rules import LONGEST_AHEAD_MS, key_of
from scheduler.store.recurring.tending import Tending, name_of
from scheduler.store.server import Server
from scheduler.store.server.clock import StoreClock

_CHUNK = 100
# Between two pieces, so that a million rules take a worker no more than a part of its time.
_PAUSE_S = 0.05
# A field of `meta`: the newest tzdata by which a shard was walked.
_MARK = "tzdata:"


class Renewal:
    """Each active rule stands in its shard's `rules_due`, and tending it brings it up to date."""

    def __init__(self, server: Server, clock: StoreClock, tending: Tending) -> None:
        self._server = server
        self._clock = clock
        self._tending = tending

    async def renew(self, shard: int) -> int:
        """Walks a shard, unless that was done by this tzdata or a newer one. Returns how many rules
        it looked at. Safe to repeat, by several processes at a time. Raises StoreError: the shard
        is then walked again."""
        field = f"{_MARK}{shard}"
        mark = await self._server.read("HGET", keys.META, field) or b""
        if mark.decode() >= TZDATA_VERSION:
            return 0
        count = await self._walk(shard)
        await self._server.call("HSET", keys.META, field, TZDATA_VERSION)
        return count

    async def bring_back(self, shard: int) -> int:
        """After the store's clock was set back: the rules of a shard that went on by it. Returns
        how many got another slot. Safe to repeat, by several processes at a time. Raises
        StoreError."""
        count, latest_ms = 0, self._clock.now_ms() + LONGEST_AHEAD_MS
        async for by_account in self._members(shard):
            names = [
                (account_id, each) for account_id in by_account for each in by_account[account_id]
            ]
            asked = [
                ("HGET", key_of(account_id, ids.local(each)), "n") for account_id, each in names
            ]
            found = await self._server.reads(asked, damaged=True)
            for (account_id, each), stands in zip(names, found, strict=True):
                fired_ms = stands.rpartition(b" ")[2] if isinstance(stands, bytes) else b""
                if fired_ms.isdigit() and int(fired_ms) > latest_ms:
                    count += await self._tending.bring_back(account_id, [each])
        return count

    async def _walk(self, shard: int) -> int:
        count = 0
        async for by_account in self._members(shard):
            for account_id, rules in by_account.items():
                await self._tending.tend(account_id, rules)
                count += len(rules)
        return count

    async def _members(self, shard: int) -> AsyncIterator[dict[str, list[str]]]:
        """The rules that are looked after, some at a time, by account."""
        key = keys.shard(shard) + keys.RULES_DUE
        async for members in self._server.members("ZSCAN", key, _CHUNK):
            by_account: dict[str, list[str]] = {}
            for member in members:
                if (name := name_of(shard, member)) is not None:
                    account_id, local = name
                    by_account.setdefault(account_id, []).append(ids.recurring_id(local))
            yield by_account
            await asyncio.sleep(_PAUSE_S)
