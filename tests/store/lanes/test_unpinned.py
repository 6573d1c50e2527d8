"""Limits of a lane that came with a message: others may change them, and they do not stay."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.lane_settings import PARALLELISM, RATE, LaneSettings
from scheduler.models import Status
from scheduler.store import keys
from tests.store.lanes.test_lane_settings import bare, is_nowhere, stored
from tests.store.scene import COMPLETED, Scene

pytestmark = pytest.mark.sound

BOTH = frozenset({PARALLELISM, RATE})
HEADED = LaneSettings(10, 60_000, 10, 5, unpinned=BOTH)
# A message that its worker is about to store.
A_MINUTE_MS = 60_000


async def headed(scene: Scene, settings: LaneSettings = HEADED) -> None:
    await scene.set("a", lambda _: settings)


@pytest.mark.parametrize("unpinned", [BOTH, {PARALLELISM}, {RATE}])
async def test_they_are_read_as_they_were_set(scene: Scene, unpinned: Any) -> None:
    settings = LaneSettings(10, 60_000, 10, 5, unpinned=frozenset(unpinned))
    await headed(scene, settings)
    assert bare(await scene.settings("a")) == settings
    assert (settings.is_pinned(RATE), settings.is_pinned(PARALLELISM)) == (
        RATE not in unpinned,
        PARALLELISM not in unpinned,
    )


async def test_a_put_pins_what_it_sets(scene: Scene) -> None:
    await headed(scene)
    await scene.limit(parallelism=3)
    assert bare(await scene.settings("a")) == LaneSettings(parallelism=3)
    assert (await stored(scene))[b"set"] == b"1"


async def test_a_pause_leaves_them_unpinned(scene: Scene) -> None:
    await headed(scene)
    await scene.pause("a")
    assert (await scene.settings("a")).unpinned == BOTH
    await scene.resume("a")
    assert bare(await scene.settings("a")) == HEADED


async def test_they_limit_what_waits(scene: Scene) -> None:
    await headed(scene, LaneSettings(parallelism=1, unpinned=frozenset({PARALLELISM})))
    made = [await scene.create(lane="a") for _ in range(2)]
    [held] = await scene.claim()
    assert await scene.claim() == []
    await scene.ack([held])
    await scene.ack(await scene.claim())
    assert {await scene.status(each) for each in made} == {Status.COMPLETED}


async def test_the_events_of_an_account_do_not_have_them(scene: Scene) -> None:
    await headed(scene)
    await scene.set("a", lambda _: LaneSettings(parallelism=1, unpinned=frozenset({PARALLELISM})))
    assert await scene.redis.xlen(scene.base + keys.EVENTS) == 0
    await scene.limit(parallelism=3)
    assert await scene.redis.xlen(scene.base + keys.EVENTS) == 1


@pytest.mark.time_passes
async def test_an_empty_lane_goes_when_its_message_had_time_to_come(scene: Scene) -> None:
    await headed(scene)
    await scene.clock.pass_ms(100)
    await scene.claim()
    assert bare(await scene.settings("a")) == HEADED


class TestTime:
    @pytest.fixture
    def scene(self, fake_scene: Scene) -> Scene:
        return fake_scene

    async def test_a_lane_without_schedules_goes_after_a_minute(self, scene: Scene) -> None:
        await headed(scene)
        await scene.clock.pass_ms(A_MINUTE_MS - 2)
        await scene.claim()
        assert not await is_nowhere(scene)
        await scene.clock.pass_ms(4)
        await scene.claim()
        assert await is_nowhere(scene)

    async def test_it_stays_while_something_is_in_it(self, scene: Scene) -> None:
        await headed(scene)
        await scene.create(10 * A_MINUTE_MS, lane="a")
        await scene.clock.pass_ms(2 * A_MINUTE_MS)
        await scene.claim()
        assert bare(await scene.settings("a")) == HEADED
        await scene.clock.pass_ms(9 * A_MINUTE_MS)
        await scene.ack(await scene.claim(), COMPLETED)
        await scene.clock.pass_ms(A_MINUTE_MS)
        await scene.claim()
        assert await is_nowhere(scene)

    async def test_it_stays_while_its_rate_is_used(self, scene: Scene) -> None:
        """Or the next message would start as if none had."""
        daily = LaneSettings(1, 24 * 60 * A_MINUTE_MS, unpinned=frozenset({RATE}))
        await headed(scene, daily)
        await scene.create(lane="a")
        await scene.ack(await scene.claim(), COMPLETED)
        await scene.clock.pass_ms(60 * A_MINUTE_MS)
        await scene.claim()
        assert bare(await scene.settings("a")) == daily
        await scene.create(lane="a")
        assert await scene.claim() == []
        await scene.clock.pass_ms(24 * 60 * A_MINUTE_MS)
        await scene.ack(await scene.claim(), COMPLETED)
        await scene.clock.pass_ms(25 * 60 * A_MINUTE_MS)
        await scene.claim()
        assert await is_nowhere(scene)

    async def test_a_pinned_one_stays(self, scene: Scene) -> None:
        await headed(scene, LaneSettings(10, 60_000, 10, 5, unpinned=frozenset({RATE})))
        await scene.clock.pass_ms(2 * A_MINUTE_MS)
        await scene.claim()
        assert not await is_nowhere(scene)


async def test_how_far_the_rate_is_used_is_told_and_can_be_forgotten(scene: Scene) -> None:
    lanes = scene.store.lanes
    await scene.limit(rate=3, per_ms=3_600_000, burst=3)
    for _ in range(4):
        await scene.create(lane="a")
    assert len(await scene.claim()) == 3
    assert (await lanes.read(scene.account_id, "a")).rate_used == 3
    before = await scene.settings("a")
    freed = await lanes.change(scene.account_id, "a", lambda old: old, frees_rate=True)
    assert (freed.rate_used, freed.settings) == (0, before)
    assert len(await scene.claim()) == 1
    assert (await lanes.read(scene.account_id, "a")).rate_used == 1


async def test_a_lane_that_is_not_there_has_no_rate_to_forget(scene: Scene) -> None:
    await scene.store.lanes.change(scene.account_id, "a", lambda old: old, frees_rate=True)
    assert await is_nowhere(scene)


async def test_a_page_has_only_lanes_that_begin_so(scene: Scene) -> None:
    for name in ("queue", "queue9z", "queue:", "queue:a", "queue:b", "queue:c", "queueA"):
        await scene.limit(name, parallelism=1)
    found, cursor = list[str](), None
    for _ in range(5):
        page = await scene.store.lanes.page(scene.account_id, 2, cursor, begin="queue:")
        found += [lane.lane for lane in page.lanes]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert (found, cursor) == (["queue:", "queue:a", "queue:b", "queue:c"], None)
