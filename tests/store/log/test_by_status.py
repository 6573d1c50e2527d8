"""Lists of schedules by status: what is kept, in the log's order, within bounds."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import pytest

from scheduler.models import Schedule, Status
from scheduler.rollups import DAY_MS, HOUR_MS
from scheduler.store.log.entries import url_place
from scheduler.store.queries.listing import SchedulePage, Selection
from tests.store.lifecycle.end.dead_letters import letter_ids, replay
from tests.store.log.test_logs import URLS, mixed, write
from tests.store.scene import CREDITS, FAILED, Scene

pytestmark = pytest.mark.usefixtures("endless_searches")
ENDED = (Status.COMPLETED, Status.CANCELLED)
EXECUTED = (Status.COMPLETED, Status.FAILED)


async def page(
    scene: Scene, statuses: Sequence[Status], descending: bool = True, **selected: Any
) -> SchedulePage:
    return await scene.store.kept.page(
        scene.account_id, statuses, Selection(**selected), descending=descending
    )


async def listed(
    scene: Scene, statuses: Sequence[Status], descending: bool = True, **selected: Any
) -> list[Schedule]:
    found: list[Schedule] = []
    cursor = None
    while True:
        some = await page(scene, statuses, descending, **selected, cursor=cursor)
        found += some.schedules
        cursor = some.next_cursor
        if cursor is None:
            return found


def counted(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Returns how many commands were sent to read."""
    reads, asked = scene.store.server.reads, 0

    async def counting(commands: Any, **options: Any) -> list[Any]:
        nonlocal asked
        asked += len(commands)
        return await reads(commands, **options)

    monkeypatch.setattr(scene.store.server, "reads", counting)
    return lambda: asked


def moment(each: Schedule) -> int:
    return each.due_at_ms if each.ended_at_ms is None else each.ended_at_ms


def names(schedules: Sequence[Schedule]) -> list[str]:
    return [each.schedule_id for each in schedules]


@pytest.mark.time_passes
async def test_every_list_has_what_reading_each_one_shows(scene: Scene) -> None:
    await mixed(scene)
    made = {each.schedule_id for each in await scene.log()}
    everything = {each: await scene.get(each) for each in made}
    moments = sorted({moment(each) for each in everything.values()})
    chance = random.Random(7)
    lists = [each for size in (1, 2, 4) for each in combinations(Status, size)]
    for statuses in lists:
        for url in (None, URLS[1], "https://example.com/none"):
            from_ms, to_ms = (
                chance.choice([None, chance.choice(moments) + chance.choice([0, 1])])
                for _ in range(2)
            )
            expected = {
                name
                for name, each in everything.items()
                if each.status in statuses
                and url in (None, each.request.url)
                and (from_ms is None or moment(each) >= from_ms)
                and (to_ms is None or moment(each) < to_ms)
            }
            query = {"url": url, "from_ms": from_ms, "to_ms": to_ms}
            for limit in (4, 100):
                found = await listed(scene, statuses, limit=limit, **query)
                assert len(found) == len(expected)
                assert {each.schedule_id: each for each in found} == {
                    name: everything[name] for name in expected
                }
                assert [moment(each) for each in found] == sorted(map(moment, found), reverse=True)
                assert await listed(scene, statuses, False, limit=limit, **query) == found[::-1]


async def test_what_is_kept_no_longer_is_not_even_looked_for(
    fake_scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Failed ones are kept for a week: not a page of theirs looks for those of a day."""
    failed = await fake_scene.run(FAILED)
    await fake_scene.store.accounts.grant(fake_scene.account_id, 1000)
    gone = await fake_scene.create_many(300, await fake_scene.clock.now_ms() - 1)
    await fake_scene.ack(await fake_scene.claim(most=1000))
    await fake_scene.clock.pass_ms(DAY_MS + HOUR_MS)
    await fake_scene.store.tick()
    assert not await fake_scene.redis.exists(fake_scene.key(gone[0]))
    completed = await fake_scene.run()
    asked = counted(fake_scene, monkeypatch)
    first = await page(fake_scene, EXECUTED, limit=50)
    assert asked() < 40
    assert (names(first.schedules), first.next_cursor) == ([completed, failed], None)


async def test_those_of_a_reference_are_found_among_what_ended_and_what_waits(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = [await scene.run(FAILED, reference=name) for name in ("order-1", "order-12")]
    for _ in range(30):
        await scene.run(FAILED)
    waiting = await scene.create(60_000, reference="order-12")
    assert names(await listed(scene, [*Status], reference="order-12")) == [waiting, ended[1]]
    assert names(await listed(scene, [*Status], reference="order-1*")) == [waiting, *ended[::-1]]
    asked = counted(scene, monkeypatch)
    assert names(await listed(scene, EXECUTED, reference="order-1")) == [ended[0]]
    assert asked() < 20  # by the index of references


async def test_a_failed_one_that_was_replayed_is_no_dead_letter_but_has_failed(
    scene: Scene,
) -> None:
    failed = await scene.run(FAILED)
    await replay(scene, [failed])
    assert await letter_ids(scene) == []
    assert names(await listed(scene, EXECUTED)) == [failed]


@pytest.mark.parametrize("descending", [True, False], ids=["desc", "asc"])
async def test_what_stays_is_listed_once_while_others_end_and_go(
    scene: Scene, descending: bool
) -> None:
    await scene.store.accounts.grant(scene.account_id, CREDITS)
    chance = random.Random(3)
    made = [await scene.run() for _ in range(30)]
    stays, found, cursor = set(made), [], None
    while not found or cursor is not None:
        some = await page(scene, ENDED, descending, limit=4, cursor=cursor)
        found += names(some.schedules)
        cursor = some.next_cursor
        for each in chance.sample(sorted(stays), 2):  # one that the cursor stands on too
            await scene.redis.delete(scene.key(each))
            stays.discard(each)
        await scene.run()
    assert len(found) == len(set(found))
    assert stays <= set(found)


async def test_thousands_that_are_gone_are_passed_over_a_bounded_page_at_a_time(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a deletion by hand; and with a URL that shares its index with all of them."""
    start_ms = await scene.clock.now_ms() - 100_000
    bucket, _ = url_place(URLS[0])
    others = (f"https://example.org/{n}" for n in range(100_000))
    twin = next(each for each in others if url_place(each)[0] == bucket)
    await write(scene, [(start_ms + n, 0, Status.CANCELLED, twin) for n in range(6000)])
    wanted = await scene.create(60_000, url=URLS[0])
    await scene.cancel(wanted)
    asked = counted(scene, monkeypatch)
    for url in (None, URLS[0]):
        found, pages, cursor = [], 0, None
        while not pages or cursor is not None:
            pages, before = pages + 1, asked()
            some = await page(scene, [*Status], False, limit=10, url=url, cursor=cursor)
            assert asked() - before < (6000 if url else 2000)
            found += names(some.schedules)
            cursor = some.next_cursor
        assert found == [wanted]


async def test_what_ends_while_a_page_is_read_is_listed_once(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between reading what waits and reading the log, all that waited ends."""
    for _ in range(20):
        await scene.create(-1)
    read = scene.store.kept._log.read

    async def slowly(*arguments: Any) -> Any:
        await scene.ack(await scene.claim())
        return await read(*arguments)

    monkeypatch.setattr(scene.store.kept._log, "read", slowly)
    some = await page(scene, [*Status], limit=100)
    assert len(names(some.schedules)) == len({*names(some.schedules)}) == 20
    assert {each.status for each in some.schedules} == {Status.COMPLETED}
