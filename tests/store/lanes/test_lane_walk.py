"""A walk at random through all that may happen to lanes: no step breaks an invariant that `postdate
check` knows, and in the end all goes out."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.errors import Conflict, UnknownSchedule
from scheduler.lane_settings import LaneSettings, Pause
from scheduler.models import Invocation
from scheduler.store import keys
from scheduler.store.lifecycle.end.end_rows import Ack
from tests.store.scene import COMPLETED, FAILED, Scene

STEPS = 120
LANES = ("a", "b", "c")


@pytest.fixture
def scene(fake_scene: Scene) -> Scene:
    return fake_scene


class Walk:
    """What a walk holds, and its steps."""

    def __init__(self, scene: Scene, seed: int) -> None:
        self.scene = scene
        self.random = random.Random(seed)
        self.held: list[Invocation] = []

    def one(self, *some: Any) -> Any:
        return self.random.choice(some)

    def some_held(self) -> list[Invocation]:
        self.random.shuffle(self.held)
        count = self.random.randint(0, len(self.held))
        some, self.held = self.held[:count], self.held[count:]
        return some

    async def later(self, *ms: int) -> int:
        return await self.scene.clock.now_ms() + int(self.one(*ms))

    async def unended(self) -> str | None:
        members = await self.scene.redis.zrange(self.scene.base + keys.LANED, 0, -1)
        return "sch_" + self.one(*members).decode() if members else None

    async def create(self) -> None:
        lane = self.one(*LANES, None)
        if self.one(True, False, False):
            expires_at_ms = await self.later(3000, 70_000)
            await self.scene.create(500, lane=lane, expires_at_ms=expires_at_ms)
        else:
            await self.scene.create(self.one(-1000, -1, 500, 20_000), lane=lane)

    async def claim(self) -> None:
        order = {"most": self.one(1, 3, 50), "lease_ms": self.one(500, 15_000)}
        self.held += await self.scene.claim(**order, ahead_ms=self.one(0, 1000))

    async def end(self) -> None:
        if some := self.some_held():
            await self.scene.ack(some, self.one(COMPLETED, FAILED))

    async def retry(self) -> None:
        if some := self.some_held():
            await self.scene.retry(some, self.one(100, 5000))

    async def calm(self) -> None:
        if some := self.some_held():
            until_ms = await self.later(500, 5000)
            acks = [Ack(each, FAILED, 0, None, until_ms) for each in some]
            await self.scene.store.ends.ack(self.scene.shard, acks)

    async def release(self) -> None:
        await self.scene.release(self.some_held())

    async def extend(self) -> None:
        await self.scene.extend(self.one(3000, 15_000), self.held)

    async def wait(self) -> None:
        await self.scene.clock.pass_ms(self.one(1, 100, 1000, 16_000))

    async def cancel(self) -> None:
        if schedule_id := await self.unended():
            await self.scene.cancel(schedule_id)

    async def change(self) -> None:
        if schedule_id := await self.unended():
            at_ms, lane = await self.later(0, 3000), self.one(*LANES, None)
            await self.scene.change(schedule_id, trigger_at_ms=at_ms, lane=lane)

    async def limit(self) -> None:
        limits = LaneSettings(parallelism=self.one(None, 1, 2))
        if rate := self.one(None, 1, 5):
            limits = replace(limits, rate=rate, per_ms=1000, burst=1)
        await self.scene.store.lanes.put(self.scene.account_id, self.one(*LANES), limits)

    async def clear(self) -> None:
        await self.scene.store.lanes.clear(self.scene.account_id, self.one(*LANES))

    async def pause(self) -> None:
        pause = self.one(None, Pause("a key"), Pause("a key", await self.later(2000)))
        lane = self.one(*LANES) if self.one(True, True, False) else None
        await self.scene.set(lane, lambda old: replace(old, pause=pause))

    async def suspend(self) -> None:
        changes = self.scene.store.changes
        await self.one(changes.suspend, changes.resume)(self.scene.account_id)

    async def drain(self) -> None:
        account_id, store = self.scene.account_id, self.scene.store
        await store.changes.resume(account_id)
        await self.scene.resume()
        for lane in LANES:
            await store.lanes.clear(account_id, lane)
        for _ in range(5):
            await self.scene.clock.pass_ms(20_000)
            await self.scene.ack(await self.scene.claim(most=500, most_bytes=2**40))


STEPS_OF_A_WALK: list[Callable[[Walk], Awaitable[None]]] = [
    *(3 * [Walk.create] + 2 * [Walk.claim] + 2 * [Walk.wait] + 3 * [Walk.pause] + 2 * [Walk.limit]),
    *(Walk.end, Walk.retry, Walk.calm, Walk.release, Walk.extend, Walk.cancel, Walk.change),
    *(Walk.clear, Walk.suspend),
]


@pytest.mark.slow
@pytest.mark.usefixtures("checks_at_once")
@pytest.mark.parametrize("seed", range(3))
async def test_no_step_breaks_an_invariant(scene: Scene, seed: int) -> None:
    await scene.store.accounts.grant(scene.account_id, STEPS)
    walk, trail = Walk(scene, seed), list[str]()
    for _ in range(STEPS):
        step = walk.random.choice(STEPS_OF_A_WALK)
        trail.append(step.__name__)
        with suppress(Conflict, UnknownSchedule):
            await step(walk)
        assert await scene.store.check() == [], trail[-9:]
    await walk.drain()
    assert await scene.store.check() == []
    left = (keys.LANED, keys.WAITING, keys.HELD, keys.TRIED, keys.LANES, keys.LANE_HEADS)
    assert await scene.redis.exists(*(scene.base + each for each in left)) == 0
