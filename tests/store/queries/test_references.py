"""References: kept with a schedule whatever becomes of it, listed by, counted, and out of the list
when it ends. `Scene.assert_sound` compares the list with the schedules after each test."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from scheduler.errors import InvalidRequest
from scheduler.models import LogStatus, Request, Schedule
from scheduler.store import keys
from scheduler.store.queries.listing import Selection
from scheduler.store.queries.referred import encode_member
from tests.store.lifecycle.end.dead_letters import due_at
from tests.store.scene import FAILED, URL, Scene

pytestmark = pytest.mark.sound

# Names that are near to one another in the order of bytes, or begin alike.
NAMES = ["a", "a!", "a*b", "aa", "ab", "b", "order-1", "order-10", "order-2", "~" * 128]


async def members(scene: Scene) -> list[str]:
    found = await scene.redis.zrange(scene.base + keys.REFERENCES, 0, -1)
    return [each.decode().split("\0")[0] for each in found]


async def listed(scene: Scene, **selected: Any) -> list[Schedule]:
    """All pages."""
    down, cursor, found = selected.pop("descending", False), None, list[Schedule]()
    while True:
        asked = Selection(**selected, cursor=cursor)
        page = await scene.store.unended.page(scene.account_id, asked, descending=down)
        assert len(page.schedules) <= asked.limit
        found, cursor = found + page.schedules, page.next_cursor
        if cursor is None:
            return found


async def named(scene: Scene, wanted: str, **more: Any) -> list[str | None]:
    return [each.request.reference for each in await listed(scene, reference=wanted, **more)]


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
    [left] = await listed(scene, reference="order-1")
    assert left.schedule_id == other


async def test_held_and_retried_ones_stay_in_the_list(scene: Scene) -> None:
    schedule_id = await scene.create(reference="order-1")
    held = await scene.claim_one()
    [found] = await listed(scene, reference="order-1")
    assert found.executing
    assert await listed(scene, reference="order-1", held=False) == []
    await scene.retry([held], 60_000)
    [found] = await listed(scene, reference="order-1")
    assert (found.schedule_id, found.attempts) == (schedule_id, 1)


@pytest.mark.parametrize(("before", "after"), [("a", "b"), (None, "b"), ("a", None), ("a", "a")])
async def test_a_change_moves_it(scene: Scene, before: str | None, after: str | None) -> None:
    schedule_id = await scene.create(60_000, reference=before)
    changed = await scene.change(schedule_id, reference=after)
    assert changed.request.reference == after
    assert await scene.get(schedule_id) == changed
    assert await members(scene) == [after] * (after is not None)


async def test_a_replay_keeps_it(scene: Scene) -> None:
    schedule_id = await scene.run(FAILED, reference="order-1")
    due_ms = await scene.clock.now_ms() + 60_000

    def remake(original: Schedule) -> Request:
        return msgspec.structs.replace(due_at(due_ms)(original), reference="order-1")

    await scene.store.schedules.replay(scene.account_id, schedule_id, remake)
    [found] = await listed(scene, reference="order-1")
    assert found.request.replay_of == schedule_id


async def test_lists_are_exact_or_by_a_prefix_in_the_order_of_references(scene: Scene) -> None:
    """And of ids among equal ones, whatever they are due at; both ways, page by page."""
    made = [await scene.create(60_000 - n, reference=name) for n, name in enumerate(NAMES * 2)]
    await scene.create(60_000)
    for wanted in (*NAMES, *(f"{name}*" for name in ("", "a", "a!", "order-", "order-1", "none"))):
        begins = wanted.removesuffix("*") if wanted.endswith("*") else "none of them"
        meant = [each for each in NAMES if each == wanted or each.startswith(begins)]
        pairs = sorted((NAMES[n % 10], each) for n, each in enumerate(made))
        expected = [each for name, each in pairs if name in meant]
        for limit in (1, 3, 50):
            found = await listed(scene, reference=wanted, limit=limit)
            assert [each.schedule_id for each in found] == expected, wanted
            down = await listed(scene, reference=wanted, limit=limit, descending=True)
            assert [each.schedule_id for each in down] == expected[::-1]


async def test_url_and_period_only_filter_a_list_of_references(scene: Scene) -> None:
    now_ms = await scene.clock.now_ms()
    for n in range(8):
        url = f"{URL}/{n % 2}"
        await scene.create_at(now_ms + 60_000 + n, reference=f"r-{n}", url=url)
    period = {"from_ms": now_ms + 60_002, "to_ms": now_ms + 60_006}
    assert await named(scene, "r-*", **period) == ["r-2", "r-3", "r-4", "r-5"]
    assert await named(scene, "r-*", url=f"{URL}/1", limit=1, **period) == ["r-3", "r-5"]


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
    found += [
        each.schedule_id
        for each in (
            await scene.store.unended.page(
                scene.account_id, Selection(cursor=cursor, reference="r-*")
            )
        ).schedules
    ]
    assert [each for each in found if each in stay] == stay


async def test_a_cursor_of_another_reference_is_refused(scene: Scene) -> None:
    for name in ("a", "a", "b"):
        await scene.create(60_000, reference=name)
    asked = Selection(limit=1, reference="a")
    page = await scene.store.unended.page(scene.account_id, asked)
    assert page.next_cursor is not None
    names_no_schedule = encode_member(b"b\0x")
    for cursor in (page.next_cursor, names_no_schedule, "x", "YQ", "é", ""):
        with pytest.raises(InvalidRequest):
            await scene.store.unended.page(
                scene.account_id, Selection(cursor=cursor, reference="b*")
            )


async def test_a_cancellation_by_reference_leaves_the_others(scene: Scene) -> None:
    made = [await scene.create(60_000, reference=name) for name in ("a-1", "a-2", "b")]
    done = await scene.store.canceller.waiting(scene.account_id, Selection(reference="a-*"))
    assert [each.schedule_id for each in done.each] == made[:2]
    assert await members(scene) == ["b"]
