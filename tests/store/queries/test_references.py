"""References: kept with a schedule whatever becomes of it, listed by, counted, and out of the list
when it ends. `Scene.assert_sound` compares the list with the schedules after each test."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from scheduler.models import LogStatus
from scheduler.store import keys
from scheduler.store.queries.listing import Selection
from tests.store.queries.test_searches import NAMES
from tests.store.scene import FAILED, Scene

pytestmark = pytest.mark.sound


async def members(scene: Scene) -> list[str]:
    found = await scene.redis.zrange(scene.base + keys.REFERENCES, 0, -1)
    return [each.decode().split("\0")[0] for each in found]


@pytest.mark.parametrize("reference", NAMES)
async def test_what_is_read_is_what_was_given(scene: Scene, reference: str) -> None:
    schedule_id = await scene.create(reference=reference, retries=2)
    assert (await scene.get(schedule_id)).request.reference == reference
    held = await scene.claim_one()
    assert held.request.reference == reference
    [entry] = await scene.log()
    assert entry.reference == reference
    await scene.retry([held], 0)
    await scene.ack([await scene.claim_one()], FAILED)
    assert (await scene.get(schedule_id)).request.reference == reference
    entries = await scene.log(statuses=(LogStatus.RETRYING, LogStatus.FAILED))
    assert [each.reference for each in entries] == [reference] * 2
    assert await members(scene) == []


async def test_without_one_nothing_more_is_stored(scene: Scene) -> None:
    schedule_id = await scene.create()
    stored = await scene.redis.hget(scene.key(schedule_id), "r")
    assert stored[0] == 0x95  # an array of five, and nothing before it
    assert not await scene.redis.exists(scene.base + keys.REFERENCES)


async def cancel(scene: Scene, schedule_id: str) -> object:
    return await scene.cancel(schedule_id)


async def stop(scene: Scene, schedule_id: str) -> object:
    await scene.retry([await scene.claim_one()], 60_000)
    return await scene.cancel(schedule_id)


async def complete(scene: Scene, _: str) -> object:
    return await scene.ack([await scene.claim_one()])


async def fail(scene: Scene, _: str) -> object:
    return await scene.ack([await scene.claim_one()], FAILED)


async def lose(scene: Scene, schedule_id: str) -> object:
    return await scene.change(schedule_id, reference=None)


@pytest.mark.parametrize("leave", [cancel, stop, complete, fail, lose])
async def test_it_leaves_the_list_as_the_schedule_ends(
    scene: Scene, leave: Callable[[Scene, str], Awaitable[object]]
) -> None:
    """And only that one, of two that have it."""
    schedule_id = await scene.create(reference="order-1")
    other = await scene.create(60_000, reference="order-1")
    await leave(scene, schedule_id)
    [left] = await scene.listed(scene.store.unended, reference="order-1")
    assert left.schedule_id == other


@pytest.mark.parametrize(("before", "after"), [("a", "b"), (None, "b"), ("a", None), ("a", "a")])
async def test_a_change_moves_it(scene: Scene, before: str | None, after: str | None) -> None:
    schedule_id = await scene.create(60_000, reference=before)
    changed = await scene.change(schedule_id, reference=after)
    assert changed.request.reference == after
    assert await scene.get(schedule_id) == changed
    assert await members(scene) == [after] * (after is not None)


async def test_what_stays_is_neither_skipped_nor_repeated_while_others_come_and_go(
    scene: Scene,
) -> None:
    stay = [await scene.create(60_000, reference=f"r-{n:02}") for n in range(0, 20, 2)]
    go = [await scene.create(60_000, reference=f"r-{n:02}") for n in range(1, 20, 2)]
    found, cursor = list[str](), None
    for gone in go:
        asked = Selection(limit=1, cursor=cursor, reference="r-*")
        page = await scene.store.unended.page(scene.account_id, asked)
        found += [each.schedule_id for each in page.schedules]
        cursor = page.next_cursor
        await asyncio.gather(scene.cancel(gone), scene.create(60_000, reference="r-"))
    rest = Selection(cursor=cursor, reference="r-*")
    page = await scene.store.unended.page(scene.account_id, rest)
    found += [each.schedule_id for each in page.schedules]
    assert [each for each in found if each in stay] == stay
