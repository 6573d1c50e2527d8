"""Which worker looks after which shard. A hint for efficiency: claims are safe without it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable


def preferred_shards(worker: str, workers: Iterable[str], shards: int) -> list[int]:
    """The shards that a worker has to itself, by rendezvous hashing.

    Each shard goes to the worker that scores highest for it, so a worker that comes or goes moves
    only its own share (Thaler and Ravishankar, "A name-based mapping scheme for rendezvous", 1996).
    """
    everyone = {worker, *workers}
    return [shard for shard in range(shards) if _winner(everyone, shard) == worker]


def _winner(workers: Iterable[str], shard: int) -> str:
    return max(workers, key=lambda worker: _score(worker, shard))


def _score(worker: str, shard: int) -> bytes:
    return hashlib.blake2b(f"{worker} {shard}".encode(), digest_size=8).digest()
