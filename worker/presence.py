"""Tells the others that this worker is alive, and learns which shards are its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scheduler.store import Store
from worker.preference import preferred_shards

BEAT_EVERY_S = 1.0


class Presence:
    """The heartbeat. `says` gives what operators are told of this worker."""

    def __init__(self, store: Store, worker_id: str, says: Callable[[], dict[str, Any]]) -> None:
        self._store = store
        self._worker_id = worker_id
        self._says = says
        self.shards: frozenset[int] = frozenset()

    async def beat(self) -> None:
        """One heartbeat; the shards that come with it count until the next."""
        alive = await self._store.workers.beat(self._worker_id, self._says())
        count = await self._store.shards.newest()
        self.shards = frozenset(preferred_shards(self._worker_id, alive, count))

    async def leave(self) -> None:
        await self._store.workers.leave(self._worker_id)
