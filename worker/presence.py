"""Tells others that this worker is alive and how it fares; learns which shards are its own."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from scheduler.store import Store

BEAT_EVERY_S = 1.0
_BEATS_KEPT = 60
_LACKS_A_KEY = "lacksAKey"


class Presence:
    """The heartbeat. `says` gives what operators are told of this worker.

    One that lacks a key `yields` to those who lack none, if there are any: no shard is its own, so
    that what it could not read is claimed, in time, by who can. What is late it claims like others.
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

    async def leave(self) -> None:
        await self._store.workers.leave(self._worker_id)


class Lateness:
    """The worst lateness of the last sixty heartbeats, a minute."""

    def __init__(self) -> None:
        self._now_ms = -1
        self._worst_ms: deque[int] = deque(maxlen=_BEATS_KEPT)

    def note(self, late_ms: int) -> None:
        if late_ms > self._now_ms:
            self._now_ms = late_ms

    def worst_ms(self) -> int | None:
        """None if nothing was fired. Asked once a heartbeat: each time counts as one."""
        self._worst_ms.append(self._now_ms)
        self._now_ms = -1
        worst = max(self._worst_ms)
        return None if worst < 0 else worst


def preferred_shards(worker: str, workers: Iterable[str], shards: int) -> list[int]:
    """The shards that a worker has to itself, by rendezvous hashing. A hint for efficiency: claims
    are safe without it.

    Each shard goes to the worker that scores highest for it, so a worker that comes or goes moves
    only its own share (Thaler and Ravishankar, "A name-based mapping scheme for rendezvous", 1996).
    """
    everyone = {worker, *workers}
    return [shard for shard in range(shards) if _winner(everyone, shard) == worker]


def _winner(workers: Iterable[str], shard: int) -> str:
    return max(workers, key=lambda worker: _score(worker, shard))


def _score(worker: str, shard: int) -> bytes:
    return hashlib.blake2b(f"{worker} {shard}".encode(), digest_size=8).digest()
