"""Prolongs the leases of what this worker holds."""

from __future__ import annotations

import structlog

from scheduler.models import Invocation
from scheduler.store import Store
from worker.holdings import Holdings

_MOST_AT_ONCE = 500
_log = structlog.get_logger(__name__)


class Leases:
    """A third of a lease is the rhythm, so two extensions may fail before a lease ends."""

    def __init__(self, store: Store, holdings: Holdings, lease_ms: int) -> None:
        self._store = store
        self._holdings = holdings
        self._lease_ms = lease_ms

    async def extend(self) -> None:
        """Prolongs what will not live to the next call but one. Raises StoreError."""
        claimed_before_ms = self._store.clock.now_ms() - self._lease_ms // 4
        for shard, held in self._holdings.by_shard().items():
            old = [each for each in held if each.claimed_at_ms <= claimed_before_ms]
            for start in range(0, len(old), _MOST_AT_ONCE):
                await self._extend(shard, old[start : start + _MOST_AT_ONCE])

    async def _extend(self, shard: int, invocations: list[Invocation]) -> None:
        lost = await self._store.claims.extend(shard, self._lease_ms, invocations)
        for each in lost:
            # Acked since the list was made, or taken over by another worker; then its outcome
            # will not be recorded twice, because the ack compares tokens.
            _log.debug("lease not prolonged", schedule=each.schedule_id)
