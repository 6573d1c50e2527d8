"""Tells others that this worker is alive and how it fares; learns which shards are its own."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Any

from scheduler.store import Store

BEAT_EVERY_S = 1.0
_LACKS_A_KEY = "lacksAKey"


class Presence:
    """The heartbeat. `says` gives the data for operators.

    One that lacks a key `yields` to those who lack none, if there are any: no shard is its own, so
    that a worker with the key claims them in time. It claims late ones like others.
    """

    def __init__(self, store: Store, worker_id: str, says: Callable[[], dict[str, Any]]) -> None:
        self._store = store
        self._worker_id = worker_id
        self._says = says
        self.shards: frozenset[int] = frozenset()
        self.yields = False

    async def beat(self) -> None:
        """One heartbeat; the shards that come with it count until the next."""
        lacks = bool(self._store.sealing_keys.missing)
        says = self._says()
        if lacks:
            says[_LACKS_A_KEY] = True
        alive = await self._store.workers.beat(self._worker_id, says)
        able = [each.process_id for each in alive if not each.says.get(_LACKS_A_KEY)]
        count = await self._store.shards.newest()
        self.yields = lacks and bool(able)
        others = able or [each.process_id for each in alive]
        mine = () if self.yields else preferred_shards(self._worker_id, others, count)
        self.shards = frozenset(mine)


def preferred_shards(worker: str, workers: Iterable[str], shards: int) -> list[int]:
    """The shards that a worker has to itself: a hint for efficiency, because claims are safe.

    Each shard goes to the worker that scores highest, so a worker that comes or goes moves only its
    share (Thaler and Ravishankar, "A name-based mapping scheme for rendezvous", 1996).
    """
    others = {*workers} - {worker}

    def score(each: str, shard: int) -> bytes:
        return hashlib.blake2b(f"{each} {shard}".encode(), digest_size=8).digest()

    def wins(shard: int) -> bool:
        own = score(worker, shard)
        return all(score(each, shard) < own for each in others)

    return [shard for shard in range(shards) if wins(shard)]
