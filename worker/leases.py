"""Prolongs the leases of what this worker holds."""

from __future__ import annotations

import structlog

from scheduler.errors import StoreError
from scheduler.models import Invocation
from scheduler.store import Store
from worker.holdings import Holdings
from worker.touch import Touch

_MOST_AT_ONCE = 500
_log = structlog.get_logger(__name__)


class Leases:
    """A third of a lease is the rhythm, so one extension may fail before a lease ends."""

    def __init__(self, store: Store, holdings: Holdings, touch: Touch, lease_ms: int) -> None:
        self._store = store
        self._holdings = holdings
        self._touch = touch
        self._lease_ms = lease_ms

    async def extend_all(self) -> None:
        """Prolongs what is held, shard by shard; one that fails is lost touch with."""
        for shard in self._holdings.by_shard().keys() - self._touch.lost:
            try:
                await self.extend(shard)
            except StoreError as error:
                self._touch.lose([shard], error)

    async def extend(self, shard: int) -> None:
        """Prolongs what is held of a shard and was not claimed just now. Raises StoreError."""
        claimed_before_ms = self._store.clock.now_ms() - self._lease_ms // 4
        held = self._holdings.by_shard().get(shard, [])
        old = [each for each in held if each.claimed_at_ms <= claimed_before_ms]
        for start in range(0, len(old), _MOST_AT_ONCE):
            await self._extend(shard, old[start : start + _MOST_AT_ONCE])

    async def note_attempt(self, invocation: Invocation) -> None:
        """Tells the store of an attempt that was used up here, so that no later one repeats its
        number. A failure is left to the next extension, which says it again."""
        try:
            await self._extend(invocation.shard, [invocation])
        except StoreError as error:
            self._touch.lose([invocation.shard], error)

    async def _extend(self, shard: int, invocations: list[Invocation]) -> None:
        lost = await self._store.claims.extend(shard, self._lease_ms, invocations)
        for each in lost:
            # Acked since the list was made, or taken over by another worker; then its outcome
            # will not be recorded twice, because the ack compares tokens.
            _log.debug("lease not prolonged", schedule=each.schedule_id)
