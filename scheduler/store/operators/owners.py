"""Whose a schedule is, for operators who have only its id: that does not name an account."""

from __future__ import annotations

import time

from scheduler.errors import PostdateError
from scheduler.store import keys
from scheduler.store.check.damage import accounts_of
from scheduler.store.server import Server
from scheduler.store.shards import Shards

_AT_ONCE = 250
_PATIENCE_S = 2.0


class SearchEnded(PostdateError):
    """There are more accounts than were asked in time."""


class Owners:
    def __init__(self, server: Server, shards: Shards) -> None:
        self._server = server
        self._shards = shards

    async def find(self, schedule_id: str) -> str | None:
        """The id of the account that has it; None if none has, or it is no longer kept. Asks for a
        key of each account, `_AT_ONCE` in one round trip. Raises SearchEnded after 2 s.
        Read-only."""
        some: list[str] = []
        until_s = time.monotonic() + _PATIENCE_S
        async for account_id in accounts_of(self._server, self._shards, []):
            some.append(account_id)
            if len(some) == _AT_ONCE:
                if owner := await self._among(some, schedule_id):
                    return owner
                some = []
                if time.monotonic() >= until_s:
                    raise SearchEnded
        return await self._among(some, schedule_id)

    async def _among(self, account_ids: list[str], schedule_id: str) -> str | None:
        names = [keys.schedule(each, schedule_id) for each in account_ids]
        found = await self._server.reads([("EXISTS", name) for name in names]) if names else []
        owners = (each for each, exists in zip(account_ids, found, strict=True) if exists)
        return next(owners, None)
