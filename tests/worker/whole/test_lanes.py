"""Lanes over a real store: several workers keep a limit together, and a drain leaves nothing."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from scheduler.lane_settings import Lane, LaneSettings
from scheduler.models import Plan, Request
from scheduler.runtime.settings import Settings
from scheduler.store import Store, keys
from tests.support.valkey import ValkeyProcess
from tests.support.waiting import DEADLINE_S
from tests.worker.desk import LEASE_MS
from tests.worker.scripted import Line, Target, answer, playing, until
from tests.worker.send.firing import LOOPBACK
from worker.leases import Touch
from worker.worker import Worker


class Street:
    """A store with a lane, workers on it, and a target that notes when each schedule came."""

    def __init__(self, store: Store, settings: Settings, account_id: str) -> None:
        self.store = store
        self._settings = settings
        self._account_id = account_id
        self.came_s: list[float] = []
        self.times: Counter[bytes] = Counter()
        self.most = 0
        self._now = 0
        self.first_answer = answer()
        self.target: Target

    async def answer(self, line: Line) -> None:
        while True:
            request = await line.request()
            self.came_s.append(time.monotonic())
            self.times[request.partition(b"Postdate-Schedule-Id: ")[2][:30]] += 1
            self._now += 1
            self.most = max(self.most, self._now)
            await asyncio.sleep(0.002)
            self._now -= 1
            await line.say(self.first_answer if len(self.came_s) == 1 else answer())

    async def schedule(self, count: int) -> None:
        now_ms = self.store.clock.now_ms()
        for _ in range(count):
            request = Request(now_ms, "GET", self.target.url(), lane="street")
            await self.store.schedules.create(self._account_id, request)

    async def limit(self, limits: LaneSettings) -> None:
        await self.store.lanes.put(self._account_id, "street", limits)

    @contextlib.asynccontextmanager
    async def working(self, count: int = 1) -> AsyncIterator[None]:
        """So many workers, which drain at the end."""
        stopping, ready, stores = asyncio.Event(), asyncio.Semaphore(0), list[Store]()
        async with asyncio.TaskGroup() as tasks:
            for _ in range(count):
                stores.append(await Store.open(self._settings))
                worker = Worker(stores[-1], self._settings, Touch(LEASE_MS, LEASE_MS))
                tasks.create_task(worker.run(stopping, ready.release))
            yield
            stopping.set()
        for store in stores:
            await store.aclose()

    async def ended(self) -> None:
        """All have come once, and the store is sound."""
        async with asyncio.timeout(DEADLINE_S):
            while (await self.lane()).waiting or (await self.lane()).running:
                await asyncio.sleep(0.01)
        assert set(self.times.values()) == {1}

    async def lane(self) -> Lane:
        return await self.store.lanes.read(self._account_id, "street")

    async def held(self) -> int:
        held: int = await self.store.server.read("ZCARD", keys.account(self._account_id) + "held")
        return held


@pytest.fixture
async def street(quickly: None, valkey: ValkeyProcess) -> AsyncIterator[Street]:
    settings = Settings(redis_url=valkey.url, shards=4, allow_targets=LOOPBACK, lease_ms=LEASE_MS)
    store = await Store.open(settings)
    account = await store.accounts.create("street", credits=1000, plan=Plan.UNLIMITED)
    made = Street(store, settings, account.account_id)
    async with playing(made.answer) as made.target:
        yield made
    assert await store.check() == []
    await store.aclose()


@pytest.mark.parametrize("parallelism", [1, 3])
async def test_workers_keep_a_parallelism_together(street: Street, parallelism: int) -> None:
    await street.limit(LaneSettings(parallelism=parallelism))
    await street.schedule(60)
    async with street.working(3):
        await street.ended()
    assert len(street.times) == 60
    assert street.most <= parallelism


async def test_what_waits_for_its_slot_goes_back_in_a_drain_and_another_worker_sends_it(
    street: Street,
) -> None:
    await street.limit(LaneSettings(rate=20, per_ms=1000))
    await street.schedule(15)
    async with street.working():
        await until(lambda: len(street.came_s) >= 2)
    assert (await street.held(), (await street.lane()).running) == (0, 0)
    sent = len(street.came_s)
    assert (await street.lane()).waiting == 15 - sent > 0
    async with street.working():
        await street.ended()
    assert len(street.times) == 15
    assert street.came_s[-1] - street.came_s[0] > 0.35, "14 slots, 50 ms each"


async def test_a_target_that_asks_to_wait_calms_its_lane(street: Street) -> None:
    street.first_answer = answer(b"", "503 Service Unavailable", "Retry-After: 1")
    await street.limit(LaneSettings(parallelism=1))
    await street.schedule(3)
    async with street.working(2):
        await street.ended()
    first_s, second_s, _ = street.came_s
    assert second_s - first_s > 0.9, "by two clocks"
