"""Which shards this worker is in touch with."""

from __future__ import annotations

import time
from collections.abc import Iterable

import structlog

_log = structlog.get_logger(__name__)


class Touch:
    """Says once that shards are gone and once that all are back, and gives leases grace then.

    While a shard's server or its network was away nobody could prolong a lease there, so for the
    length of one lease after it this worker takes over none that has ended: whoever holds it may
    be alive. A store that was started just now was away for everybody.
    """

    def __init__(self, lease_ms: int, store_uptime_ms: int) -> None:
        self._lease_s = lease_ms / 1000
        self._lost: set[int] = set()
        self._grace_until_s: dict[int, float] = {}
        self._first_grace_until_s = time.monotonic() + max(0, lease_ms - store_uptime_ms) / 1000

    @property
    def lost(self) -> frozenset[int]:
        return frozenset(self._lost)

    def lose(self, shards: Iterable[int], error: BaseException) -> None:
        gone = set(shards) - self._lost
        if gone and not self._lost:
            _log.warning("lost touch with the store; trying on", error=str(error))
        self._lost |= gone

    def regain(self, shard: int) -> None:
        if shard in self._lost:
            self._lost.discard(shard)
            self._grace_until_s[shard] = time.monotonic() + self._lease_s
            if not self._lost:
                _log.info("in touch with the store again")

    def grace_ms(self, shard: int) -> int:
        """How long leases that have ended are still prolonged instead of taken over."""
        until_s = max(self._grace_until_s.get(shard, 0.0), self._first_grace_until_s)
        return max(0, int((until_s - time.monotonic()) * 1000))
