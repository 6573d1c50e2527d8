"""Lists, dead letters and the log have schedules with a lane among the others, and find those of
one lane."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.models import LogStatus, Status
from scheduler.store.queries.listing import Selection
from scheduler.store.queries.members import read_members
from scheduler.store.queries.timeline import Place, Span
from tests.store.scene import FAILED, Scene

pytestmark = pytest.mark.sound
LANES = ["a", None, "b", "a", None, "a:1", "a"]


async def created(scene: Scene, due_in_ms: int = 60_000) -> list[str]:
    """One of each lane, a second after the other."""
    return [
        await scene.create(due_in_ms + 1000 * n, lane=lane, reference=f"order-{n}")
        for n, lane in enumerate(LANES)
    ]


def of_lane(made: list[str], lane: str | None) -> list[str]:
    return [each for each, has in zip(made, LANES, strict=True) if has == lane]


async def listed(scene: Scene, source: Any, *statuses: Status, **selected: Any) -> list[str]:
    """All pages."""
    down, cursor, found = selected.pop("descending", False), None, list[str]()
    while True:
        asked = Selection(**selected, cursor=cursor)
        page = await source.page(scene.account_id, *statuses, asked, descending=down)
        assert len(page.schedules) <= asked.limit
        found += [each.schedule_id for each in page.schedules]
        cursor = page.next_cursor
        if cursor is None:
            return found


@pytest.mark.parametrize("limit", [1, 2, 50])
@pytest.mark.parametrize("down", [False, True], ids=["asc", "desc"])
async def test_what_waits_is_listed_with_a_lane_and_without(
    scene: Scene, limit: int, down: bool
) -> None:
    made, step = await created(scene), -1 if down else 1
    options = {"limit": limit, "descending": down}
    unended, kept = scene.store.unended, scene.store.kept
    assert await listed(scene, unended, **options) == made[::step]
    assert await listed(scene, kept, [*Status], **options) == made[::step]
    for lane in ("a", "a:1", "b"):
        wanted = of_lane(made, lane)[::step]
        assert await listed(scene, unended, lane=lane, **options) == wanted
        assert await listed(scene, kept, [*Status], lane=lane, **options) == wanted
        found = await scene.log(lane=lane, descending=down, limit=limit)
        assert [each.schedule_id for each in found] == wanted
        assert {each.lane for each in found} == {lane}
    assert await listed(scene, unended, lane="c", **options) == []
    one = await listed(scene, unended, lane="a", reference="order-3", **options)
    assert one == made[3:4]
    assert await listed(scene, unended, lane="b", reference="order-3", **options) == []


async def test_those_that_a_worker_holds_stand_where_they_were_due(scene: Scene) -> None:
    first = [await scene.create(n, lane=lane) for n, lane in enumerate(LANES)]
    await scene.claim(most=4, ahead_ms=1000)
    unended = scene.store.unended
    assert sorted(await listed(scene, unended, limit=2)) == sorted(first)
    found = await listed(scene, unended, lane="a", limit=1)
    assert found == of_lane(first, "a")
    waiting = await listed(scene, unended, lane="a", held=False)
    assert set(waiting) < set(found)


async def test_dead_letters_and_their_log_are_found_by_lane(scene: Scene) -> None:
    made = [
        await scene.run(FAILED, lane=lane, reference=f"order-{n}") for n, lane in enumerate(LANES)
    ]
    assert await listed(scene, scene.store.failed, limit=2) == made
    for lane in ("a", "b", "c"):
        wanted = of_lane(made, lane)
        assert await listed(scene, scene.store.failed, lane=lane, limit=1) == wanted
        found = await listed(scene, scene.store.kept, [Status.FAILED], lane=lane, limit=1)
        assert found == wanted
        logged = await scene.log(lane=lane, statuses=[LogStatus.FAILED], descending=False)
        assert [each.schedule_id for each in logged] == wanted
    both = await listed(scene, scene.store.failed, lane="a", reference="order-*")
    assert both == of_lane(made, "a")
    assert await scene.log(lane="a", reference="order-2") == []


async def test_a_lane_is_found_in_every_entry_of_the_log(scene: Scene) -> None:
    retried = await scene.create(lane="a", retries=1)
    await scene.retry([await scene.claim_one()], 60_000)
    cancelled = await scene.create(60_000, lane="a")
    await scene.cancel(cancelled)
    for _ in range(20):
        await scene.run(lane="b")
    waits = await scene.create(90_000, lane="a")
    found = await scene.log(lane="a", descending=True)
    assert [(each.schedule_id, each.status.value) for each in found] == [
        (waits, "scheduled"),
        (retried, "scheduled"),
        (cancelled, "cancelled"),
        (retried, "retrying"),
    ]
    assert {each.lane for each in found} == {"a"}
    assert {each.reference for each in found} == {None}


async def test_a_cancellation_by_lane_leaves_the_others(scene: Scene) -> None:
    made = await created(scene)
    done = await scene.store.canceller.waiting(scene.account_id, Selection(lane="a"))
    assert [each.schedule_id for each in done.each] == of_lane(made, "a")
    left = [each for each in made if each not in of_lane(made, "a")]
    assert await listed(scene, scene.store.unended) == left


async def test_a_list_asks_for_a_set_of_lanes_and_its_size(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And for the rank of a place only where that is a member's."""
    asked = list[list[str]]()
    reads = scene.store.server.reads

    async def counting(commands: Any, **options: Any) -> Any:
        asked.append([each[0] for each in commands])
        return await reads(commands, **options)

    monkeypatch.setattr(scene.store.server, "reads", counting)
    for place, commands in ((Place(0), 9), (Place(5, 1, "0" * 26), 12)):
        span = Span(place, 2**53, False)
        names = ("waiting", "laned", "held")
        await read_members(scene.store.server, scene.base, names, span, 10)
        assert len(asked.pop()) == commands
