"""That an operator looked at an account's pages: one entry for each of them and hour."""

from __future__ import annotations

import hashlib

from scheduler.events import Kind
from scheduler.models import Account
from scheduler.rollups import HOUR_MS
from scheduler.store import keys
from scheduler.store.events.events import Events
from scheduler.store.server import Server
from scheduler.store.server.clock import StoreClock


class Looks:
    def __init__(self, server: Server, clock: StoreClock, events: Events) -> None:
        self._server = server
        self._clock = clock
        self._events = events

    async def note(self, operator: Account, account_id: str) -> bool:
        """Notes it unless it was noted this hour. False if the store did not take the entry. Safe
        to repeat: the mark is made after the entry, which a repeat at once does not double."""
        hour = self._clock.now_ms() // HOUR_MS
        what = f"look {operator.account_id} {account_id} {hour}"
        operation = hashlib.sha256(what.encode()).hexdigest()[:32]
        mark = keys.account(account_id) + keys.OPERATION + operation
        if await self._server.read("EXISTS", mark):
            return True
        noted = await self._events.record(
            Kind.LOOK, who=operator.name, account_id=account_id, operation=operation
        )
        if noted:
            await self._server.call("SET", mark, "", "PX", HOUR_MS)
        return noted
