"""Which workers are alive, as they tell each other."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from scheduler.store import keys
from scheduler.store.clock import StoreClock
from scheduler.store.connection import Client
from scheduler.store.failures import translated
from scheduler.store.server import Script, Server

_HEARTBEAT = Script("operators/heartbeat")
_FORGET_MS = 10_000


class Worker(NamedTuple):
    """A worker as it was last heard of (by the server's clock), and what it said of itself."""

    worker_id: str
    heard_at_ms: int
    says: dict[str, Any]


class Workers:
    """The workers' heartbeats. A hint for who looks where, never what safety rests on."""

    def __init__(self, client: Client, server: Server, clock: StoreClock) -> None:
        self._client = client
        self._server = server
        self._clock = clock

    async def beat(self, worker_id: str, says: dict[str, Any]) -> list[str]:
        """Notes that a worker is alive; returns the ids of all that are. Safe to repeat."""
        said = msgspec.json.encode(says)
        alive = await self._server.run(_HEARTBEAT, keys.WORKERS, (worker_id, said, _FORGET_MS))
        self._clock.observe(int(alive[0]))
        return [worker.decode() for worker in alive[1::2]]

    async def leave(self, worker_id: str) -> None:
        """Says good-bye, so that the others need not wait until it is forgotten."""
        await self._server.run(_HEARTBEAT, keys.WORKERS, (worker_id, "", _FORGET_MS))

    async def all(self) -> list[Worker]:
        """All that were heard of lately, by id. Read-only."""
        with translated():
            stored = await self._client.hgetall(keys.WORKERS)
        return [_worker(*each) for each in sorted(stored.items())]


def _worker(worker_id: bytes, stored: bytes) -> Worker:
    heard_at_ms, _, says = stored.partition(b" ")
    return Worker(worker_id.decode(), int(heard_at_ms), msgspec.json.decode(says))
