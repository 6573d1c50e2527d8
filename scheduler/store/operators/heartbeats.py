"""The heartbeats of running processes: workers in one hash, APIs in another."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from scheduler.store.server import Script, Server, pairs
from scheduler.store.server.clock import StoreClock

_HEARTBEAT = Script("operators/heartbeat")
# Silence after which a process is lost: other workers take its shards. For how long operators see
# that.
LOST_AFTER_MS = 10_000
_FORGOTTEN_AFTER_MS = 3_600_000
_MOST_LOST = 50
# Of what a process says of itself: the ids of its keys, if it has any; it seals with the first.
KEY_IDS = "keyIds"
# The id of the store that it has opened.
STORE_ID = "storeId"
# Where an API is found: its public URL, or else where it listens.
PUBLIC_URL, LOCAL_URL = "publicUrl", "localUrl"


class Process(NamedTuple):
    """A process at its last heartbeat (by the server's clock), and what it said of itself."""

    process_id: str
    heard_at_ms: int
    says: dict[str, Any]

    def is_lost(self, now_ms: int) -> bool:
        return now_ms - self.heard_at_ms > LOST_AFTER_MS


class Heartbeats:
    """Those of the processes of one role: `key` is their hash. A hint for who looks where, never
    what safety rests on."""

    def __init__(self, key: str, server: Server, clock: StoreClock) -> None:
        self._key = key
        self._server = server
        self._clock = clock

    async def beat(self, process_id: str, says: dict[str, Any]) -> list[Process]:
        """Notes that a process is alive, and the keys that it has; returns all that are alive. Safe
        to repeat."""
        if key_ids := self._server.secrecy.key_ids:
            says = {**says, KEY_IDS: key_ids}
        said = msgspec.json.encode(says)
        now_us, from_the_future, *alive = await self._beat(process_id, said)
        self._clock.observe(int(now_us))
        if from_the_future:
            self._clock.note_step_back()
        return [_process(*each) for each in zip(alive[::2], alive[1::2], strict=True)]

    async def leave(self, process_id: str) -> None:
        """Says good-bye, so that the others need not wait until it is forgotten."""
        await self._beat(process_id, b"")

    async def all(self) -> list[Process]:
        """By id, all that are alive, and those that were lost less than an hour before one of these
        was heard of, or before the last of all. Read-only."""
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
