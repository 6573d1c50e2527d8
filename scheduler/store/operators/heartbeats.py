"""The heartbeats of running processes: workers in one hash, APIs in another."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from scheduler.store.server import Script, Server, pairs
from scheduler.store.server.clock import StoreClock

_HEARTBEAT = Script("operators/heartbeat")
# Silence after which a process is lost, and others take its shards; how long operators see that.
LOST_AFTER_MS = 10_000
_FORGOTTEN_AFTER_MS = 3_600_000
_MOST_LOST = 50
# In what a process says of itself: the ids of its keys (it seals with the first), the id of the
# store that it opened, where an API is found (its public URL, or else where it listens).
KEY_IDS = "keyIds"
STORE_ID = "storeId"
PUBLIC_URL, LOCAL_URL = "publicUrl", "localUrl"


class Process(NamedTuple):
    """A process at its last heartbeat (by the server's clock), and what it said of itself."""

    process_id: str
    heard_at_ms: int
    says: dict[str, Any]

    def is_lost(self, now_ms: int) -> bool:
        return now_ms - self.heard_at_ms > LOST_AFTER_MS


class Heartbeats:
    """Of the processes of one role, in the hash `key`. Hints only: no safety rests on them."""

    def __init__(self, key: str, server: Server, clock: StoreClock) -> None:
        self._key = key
        self._server = server
        self._clock = clock

    async def beat(self, process_id: str, says: dict[str, Any]) -> list[Process]:
        """Notes a living process, and its keys; returns all that are alive. Safe to repeat."""
        if key_ids := self._server.secrecy.key_ids:
            says = {**says, KEY_IDS: key_ids}
        said = msgspec.json.encode(says)
        now_us, from_the_future, *alive = await self._beat(process_id, said)
        self._clock.observe(int(now_us))
        if from_the_future:
            self._clock.steps_back += 1
        return [_process(*each) for each in zip(alive[::2], alive[1::2], strict=True)]

    async def leave(self, process_id: str) -> None:
        """Says good-bye, so that the others need not wait until it is forgotten."""
        await self._beat(process_id, b"")

    async def all(self) -> list[Process]:
        """By id, all that are alive, and those lost within the hour before. Read-only."""
        stored = pairs(await self._server.read("HGETALL", self._key))
        return [_process(*each) for each in sorted(stored.items())]

    async def running(self, silent_ms: int) -> list[Process]:
        """Those that were heard of within the last `silent_ms` by the server's clock. Read-only."""
        since_ms = self._clock.now_ms() - silent_ms
        return [each for each in await self.all() if each.heard_at_ms >= since_ms]

    async def _beat(self, process_id: str, said: bytes) -> Any:
        limits = (LOST_AFTER_MS, _FORGOTTEN_AFTER_MS, _MOST_LOST)
        return await self._server.run(_HEARTBEAT, self._key, (process_id, said, *limits))


def _process(process_id: bytes, stored: bytes) -> Process:
    heard_at_ms, _, says = stored.partition(b" ")
    return Process(process_id.decode(), int(heard_at_ms), msgspec.json.decode(says))
