"""The ledger's movements by day: credits granted, spent and refunded."""

from __future__ import annotations

from typing import NamedTuple

from scheduler.rollups import CREATED, DAY_MS
from scheduler.store import keys
from scheduler.store.retention import Retention
from scheduler.store.server import Server
from scheduler.store.server.clock import StoreClock

# Spent credits are noted by their hour.
_FIELDS = ("granted", "refunded", *(f"{hour}{CREATED}" for hour in range(24)))


class Movements(NamedTuple):
    """Credits that moved on one day (UTC), which begins at `day_ms`."""

    day_ms: int
    granted: int
    spent: int
    refunded: int

    @property
    def change(self) -> int:
        return self.granted - self.spent + self.refunded


class Ledger:
    """Reads what moved; the balance itself is the account's."""

    def __init__(self, server: Server, clock: StoreClock, retention: Retention) -> None:
        self._server = server
        self._clock = clock
        self._days = retention.promised_log_ms // DAY_MS

    async def movements(self, account_id: str) -> list[Movements]:
        """The days on which something moved, the latest first, as far back as they are kept."""
        today = self._clock.now_ms() // DAY_MS
        days = range(today, today - self._days, -1)
        base = keys.account(account_id)
        replies = await self._server.reads(
            [("HMGET", f"{base}{keys.DAY}{day}", *_FIELDS) for day in days]
        )
        found = []
        for day, reply in zip(days, replies, strict=True):
            granted, refunded, *spent = (int(value or 0) for value in reply)
            found.append(Movements(day * DAY_MS, granted, sum(spent), refunded))
        return [each for each in found if each.granted or each.spent or each.refunded]
