"""Which workers are alive, as they tell each other."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from scheduler.store import keys
from scheduler.store.client import Client
from scheduler.store.clock import StoreClock
from scheduler.store.failures import translated
from scheduler.store.server import Script, Server

_HEARTBEAT = Script("operators/heartbeat")
# Silence after which a worker is lost: others take its shards. For how long operators see that.
LOST_AFTER_MS = 10_000
_FORGOTTEN_AFTER_MS = 3_600_000
_MOST_LOST = 50


class Worker(NamedTuple):
    """A worker as it was last heard of (by the server's clock), and what it said of itself."""

    worker_id: str
    heard_at_ms: int
    says: dict[str, Any]

    def is_lost(self, now_ms: int) -> bool:
        return now_ms - self.heard_at_ms > LOST_AFTER_MS


class Workers:
    """The workers' heartbeats. A hint for who looks where, never what safety rests on."""

    def __init__(self, client: Client, server: Server, clock: StoreClock) -> None:
        self._client = client
        self._server = server
        self._clock = clock

    async def beat(self, worker_id: str, says: dict[str, Any]) -> list[Worker]:
        """Notes that a worker is alive; returns all that are. Safe to repeat."""
        said = msgspec.json.encode(says)
        now_us, *alive = await self._beat(worker_id, said)
        self._clock.observe(int(now_us))
        return [_worker(*each) for each in zip(alive[::2], alive[1::2], strict=True)]

    async def leave(self, worker_id: str) -> None:
        """Says good-bye, so that the others need not wait until it is forgotten."""
        await self._beat(worker_id, b"")

    async def all(self) -> list[Worker]:
        """By id, all that are alive, and those that were lost less than an hour before one of these
        was heard of, or before the last of all. Read-only."""
        with translated():
            stored = await self._client.hgetall(keys.WORKERS)
        return [_worker(*each) for each in sorted(stored.items())]

    async def _beat(self, worker_id: str, said: bytes) -> Any:
        limits = (LOST_AFTER_MS, _FORGOTTEN_AFTER_MS, _MOST_LOST)
        return await self._server.run(_HEARTBEAT, keys.WORKERS, (worker_id, said, *limits))


def _worker(worker_id: bytes, stored: bytes) -> Worker:
    heard_at_ms, _, says = stored.partition(b" ")
    return Worker(worker_id.decode(), int(heard_at_ms), msgspec.json.decode(says))
