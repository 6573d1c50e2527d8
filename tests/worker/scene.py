"""A whole worker over a scripted store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from scheduler.models import Invocation
from scheduler.runtime.settings import Settings
from tests.support.waiting import DEADLINE_S
from tests.worker.desk import LEASE_MS, ScriptedStore
from tests.worker.scripted import until
from tests.worker.send.firing import LOOPBACK
from worker.leases import Touch
from worker.worker import Worker

_MINUTE_MS = 60_000


class Scene:
    """A store with two shards, and the worker over it."""

    def __init__(self) -> None:
        self.store = ScriptedStore({0: 0, 1: 0})
        self.claims = self.store.claims
        settings = Settings(allow_targets=LOOPBACK, lease_ms=LEASE_MS)
        self.worker = Worker(self.store.as_store, settings, Touch(LEASE_MS, LEASE_MS))
        self.pipeline = self.worker.pipeline
        self.stopping = asyncio.Event()
        self.running: asyncio.Task[None] | None = None

    def hand_out(self, shard: int = 0, **fields: Any) -> Invocation:
        """An invocation that the next claim of its shard brings."""
        invocation = self.claims.make.one(shard, **fields)
        self.claims.given.append(invocation)
        return invocation

    def in_the_wheel(self, shard: int) -> Invocation:
        """One that is due in a minute."""
        due_ms = self.store.clock.now_ms() + _MINUTE_MS
        return self.hand_out(shard, trigger_at_ms=due_ms)

    @property
    def held(self) -> int:
        return len(self.pipeline.holdings)

    @property
    def recorded(self) -> list[Invocation]:
        return [ack.invocation for ack in self.claims.acked]

    async def start(self) -> None:
        ready = asyncio.Event()
        self.running = asyncio.create_task(self.worker.run(self.stopping, ready.set))
        await asyncio.wait_for(ready.wait(), DEADLINE_S)

    async def run_until(self, condition: Callable[[], bool]) -> None:
        await self.start()
        await until(condition)
        await self.stop()

    async def stop(self) -> None:
        """Returns once it has drained."""
        self.stopping.set()
        assert self.running is not None
        await asyncio.wait_for(self.running, DEADLINE_S)
