"""A newer tzdata: the slots that lie ahead are computed anew, once."""

from __future__ import annotations

import asyncio

from scheduler import ids
from scheduler.recurrence import TZDATA_VERSION
from scheduler.store import keys
from scheduler.store.recurring.tending import Tending, name_of
from scheduler.store.server import Server

_CHUNK = 100
# Between two pieces, so that a million rules take a worker no more than a part of its time.
_PAUSE_S = 0.05
# A field of `meta`: the newest tzdata by which a shard was walked.
_MARK = "tzdata:"


class Renewal:
    """Each active rule stands in its shard's `rules_due`, and tending it brings it up to date."""

    def __init__(self, server: Server, tending: Tending) -> None:
        self._server = server
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

    async def _walk(self, shard: int) -> int:
        count, key = 0, keys.shard(shard) + keys.RULES_DUE
        async for members in self._server.members("ZSCAN", key, _CHUNK):
            by_account: dict[str, list[str]] = {}
            for member in members:
                if (name := name_of(shard, member)) is not None:
                    account_id, local = name
                    by_account.setdefault(account_id, []).append(ids.recurring_id(local))
            for account_id, rules in by_account.items():
                await self._tending.tend(account_id, rules)
                count += len(rules)
            await asyncio.sleep(_PAUSE_S)
        return count
