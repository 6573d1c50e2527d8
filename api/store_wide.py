"""What an API process tells of the whole store, read at most every five seconds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple

from scheduler.errors import StoreError
from scheduler.store import Store
from scheduler.store.operators.census import Figures
from scheduler.store.operators.heartbeats import Process
from scheduler.store.operators.system import Server

_KEPT_S = 5.0
_PATIENCE_S = 2.0


class Seen(NamedTuple):
    """The store at one moment."""

    figures: Figures
    workers: list[Process]
    servers: list[Server]


class StoreWide:
    """`seen` is None while the store cannot be read: what was true a while ago is not told."""

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store
        self._looked_s = float("-inf")
        self.seen: Seen | None = None

    async def look(self) -> None:
        """Reads the store unless that was done just now. Not more than one call at a time."""
        now_s = time.monotonic()
        if now_s - self._looked_s < _KEPT_S:
            return
        self._looked_s, self.seen = now_s, None
        try:
            async with asyncio.timeout(_PATIENCE_S):
                self.seen = await _seen(self._store())
        except (StoreError, TimeoutError):
            return


async def _seen(store: Store) -> Seen:
    figures = await store.census.look()
    workers = await store.workers.all()
    now_ms = store.clock.now_ms()
    alive = [each for each in workers if not each.is_lost(now_ms)]
    return Seen(figures, alive, await store.system.servers())
