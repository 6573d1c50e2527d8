"""Executions counted over any period, exact to the millisecond."""

from __future__ import annotations

from scheduler.models import EXECUTED, Status, Usage
from scheduler.rollups import kept_from, plan
from scheduler.store import keys, packing
from scheduler.store.clock import StoreClock
from scheduler.store.connection import Client, translated
from scheduler.store.scripts import Scripts

_PAGE = 1000


class Statistics:
    """Sums the rollups, and reads the log for what is left of a second at either end."""

    def __init__(
        self, client: Client, scripts: Scripts, clock: StoreClock, retention_ms: int
    ) -> None:
        self._client = client
        self._scripts = scripts
        self._clock = clock
        self._retention_ms = retention_ms

    async def usage(self, account_id: str, from_ms: int, to_ms: int) -> Usage:
        """Executions recorded in `[from_ms, to_ms)`, clipped to what is kept."""
        now_ms = self._clock.now_ms()
        oldest_ms = kept_from(now_ms, self._retention_ms)
        # Nothing can have been recorded later than a moment from now.
        last_ms = min(to_ms, now_ms + 60_000)
        ranges, stretches = plan(max(from_ms, oldest_ms), last_ms, now_ms)
        completed, failed, total_ms = await self._scripts.usage(account_id, ranges)
        for stretch_from_ms, stretch_to_ms in stretches:
            more = await self._read(account_id, stretch_from_ms, stretch_to_ms)
            completed, failed, total_ms = completed + more[0], failed + more[1], total_ms + more[2]
        return Usage(completed, failed, total_ms, from_ms, to_ms)

    async def _read(self, account_id: str, from_ms: int, to_ms: int) -> tuple[int, int, int]:
        """Completed, failed and total response time of a stretch of the log."""
        completed, failed, total_ms = 0, 0, 0
        log = keys.account(account_id) + "log"
        position = str(from_ms)
        while True:
            with translated():
                page = await self._client.xrange(log, position, f"({to_ms}-0", count=_PAGE)
            for _, fields in page:
                entry = packing.unpack_entry(fields[b"e"], 0)
                if entry.status in EXECUTED:
                    completed += entry.status is Status.COMPLETED
                    failed += entry.status is Status.FAILED
                    total_ms += entry.response_time_ms
            if len(page) < _PAGE:
                return completed, failed, total_ms
            position = "(" + page[-1][0].decode()
