"""The heartbeats of running processes: workers in one hash, APIs in another."""

from __future__ import annotations

import asyncio
import time
from typing import Any, NamedTuple

import msgspec

from scheduler.errors import OutcomeUnknown, StoreError, StoreUnavailable
from scheduler.events import Kind
from scheduler.store import keys
from scheduler.store.events.events import Events
from scheduler.store.server import Script, Server, pairs
from scheduler.store.server.clock import StoreClock

_HEARTBEAT = Script("operators/heartbeat")
# Silence after which a process is lost, and others take its shards; how long operators see that.
LOST_AFTER_MS = 10_000
_FORGOTTEN_AFTER_MS = 3_600_000
_MOST_LOST = 50
# How long somebody waits who asks only whether a process is alive.
_PATIENCE_S = 1.0
# Between two heartbeats of a process that runs and reaches the store.
_GAP_US = LOST_AFTER_MS * 500
# In what a process says of itself: the ids of its keys (it seals with the first), the id of the
# store that it opened, its version, where an API is found (its public URL, or else where it
# listens).
KEY_IDS = "keyIds"
STORE_ID = "storeId"
VERSION = "version"
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

    def __init__(self, key: str, server: Server, clock: StoreClock, events: Events) -> None:
        self._key = key
        self._server = server
        self._clock = clock
        self._events = events
        # Of workers only: APIs come and go without a request being late for it.
        self._noted_in = keys.SERVICE_EVENTS if key == keys.WORKERS else ""
        # From when to when (the store's clock, us) this process was heard of without a gap.
        self._heard_from_us = self._heard_us = 0
        # Since when (monotonic, s) the store does not answer, and to how many heartbeats.
        self._away_since_s = 0.0
        self._unanswered = 0

    async def beat(self, process_id: str, says: dict[str, Any]) -> list[Process]:
        """Notes a living process, and its keys; returns all that are alive. Safe to repeat."""
        if key_ids := self._server.secrecy.key_ids:
            says = {**says, KEY_IDS: key_ids}
        said = msgspec.json.encode(says)
        began_s = time.monotonic()
        try:
            now_us, from_the_future, *alive = await self._beat(process_id, said)
        except (StoreUnavailable, OutcomeUnknown):
            self._away_since_s = self._away_since_s if self._unanswered else began_s
            self._unanswered += 1
            raise
        self._clock.observe(int(now_us))
        if not 0 <= now_us - self._heard_us <= _GAP_US:
            self._heard_from_us = now_us
        self._heard_us = now_us
        await self._note_away()
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

    async def is_any_alive(self) -> bool:
        """Also where that cannot be read soon: its server may be another one, which is away.
        Read-only."""
        try:
            async with asyncio.timeout(_PATIENCE_S):
                found = await self.all()
        except (StoreError, TimeoutError):
            return True
        now_ms = self._clock.now_ms()
        return any(not each.is_lost(now_ms) for each in found)

    async def running(self, silent_ms: int) -> list[Process]:
        """Those that were heard of within the last `silent_ms` by the server's clock. Read-only."""
        since_ms = self._clock.now_ms() - silent_ms
        return [each for each in await self.all() if each.heard_at_ms >= since_ms]

    async def _note_away(self) -> None:
        """Once the store is back. A single heartbeat without an answer is no sign of it: this
        process may have been frozen meanwhile."""
        unanswered, self._unanswered = self._unanswered, 0
        if unanswered > 1:
            away_ms = int((time.monotonic() - self._away_since_s) * 1000)
            since_ms = max(self._clock.now_ms() - away_ms, 0)
            await self._events.record(Kind.STORE_AWAY, since_ms=since_ms)

    async def _beat(self, process_id: str, said: bytes) -> Any:
        is_steady = self._heard_us - self._heard_from_us > LOST_AFTER_MS * 1000
        limits = (LOST_AFTER_MS, _FORGOTTEN_AFTER_MS, _MOST_LOST, self._noted_in, int(is_steady))
        return await self._server.run(_HEARTBEAT, self._key, (process_id, said, *limits))


def _process(process_id: bytes, stored: bytes) -> Process:
    heard_at_ms, _, says = stored.partition(b" ")
    return Process(process_id.decode(), int(heard_at_ms), msgspec.json.decode(says))
