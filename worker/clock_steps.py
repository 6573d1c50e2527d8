"""Sees to what a server's clock that was set back leaves in the future."""

from __future__ import annotations

import structlog

from scheduler.elapsed import elapsed_s
from scheduler.store import Store

WATCH_EVERY_S = 1.0
_log = structlog.get_logger(__name__)


class ClockSteps:
    """Leases and retries are brought forward a lease after each step: by then every worker that is
    alive has prolonged what it holds. Of all shards, because not every worker has seen the step."""

    def __init__(self, store: Store, lease_ms: int) -> None:
        self._store = store
        self._lease_ms = lease_ms
        self._steps = store.clock.steps_back
        self._mend_at_s: float | None = None

    async def watch(self) -> None:
        """Safe to repeat; raises StoreError if a shard cannot be reached, and begins anew then."""
        if self._steps != self._store.clock.steps_back:
            self._steps = self._store.clock.steps_back
            self._mend_at_s = elapsed_s() + self._lease_ms / 1000
            _log.warning("the store's clock was set back")
        if self._mend_at_s is None or elapsed_s() < self._mend_at_s:
            return
        count = 0
        for shard in range(self._store.shards.count):
            count += await self._store.clock_back.mend(shard, self._lease_ms)
        self._mend_at_s = None
        if count:
            _log.warning("brought forward leases and retries of before", count=count)
