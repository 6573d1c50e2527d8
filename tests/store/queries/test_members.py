"""Reading on in a set by score and id: what comes after a place, though thousands share its score
and the place is gone; and lists of what moves while they are read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from scheduler.rollups import DAY_MS
from scheduler.store import keys
from scheduler.store.log.logs import LogQuery
from scheduler.store.queries.members import Members, read_members
from scheduler.store.queries.timeline import WAITING, Place, Span
from tests.store.scene import Scene, ids_of, reads_of

MS = 5000
CROWD = 300
NAMES = [f"{n:08}" for n in range(0, 2 * CROWD, 2)]


async def crowd(scene: Scene) -> list[Place]:
    """Members of one score, and one before and after them."""
    scores = dict.fromkeys(NAMES, MS) | {"before": MS - 1, "zz": MS + 1}
    await scene.redis.zadd(scene.base + keys.FAILED, scores)
    return sorted(Place(ms, WAITING, name) for name, ms in scores.items())


async def after(scene: Scene, place: Place, most: int, *, down: bool) -> Members:
    span, names = Span(place, 0 if down else 2**53, down), [keys.FAILED]
    [members], _ = await read_members(scene.store.server, scene.base, names, span, most)
    return members


@pytest.mark.parametrize("down", [False, True], ids=["asc", "desc"])
@pytest.mark.parametrize("most", [2, 7, CROWD + 1])
async def test_what_comes_after_a_place_is_found_there_or_not(
    scene: Scene, most: int, down: bool
) -> None:
    there = await crowd(scene)
    gone = [Place(MS, WAITING, f"{n:08}") for n in range(-1, 2 * CROWD, 37)]
    edges = [Place(ms, kind) for ms in (0, MS, 2 * MS) for kind in (-1, 0)]
    for place in [*there[::29], *gone, *edges]:
        behind = [each for each in there if (each < place if down else each > place)]
        expected = behind[::-1] if down else behind
        members, reached = await after(scene, place, most, down=down)
        found = [each for each, _ in members]
        if reached is not None:
            assert 0 < len(found) <= most, place
            assert reached == found[-1], place
            expected = expected[: len(found)]
        assert found == expected, place


@pytest.mark.parametrize("down", [False, True], ids=["asc", "desc"])
async def test_nothing_is_skipped_though_the_set_changes_between_two_looks(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, down: bool
) -> None:
    there = await crowd(scene)
    reads, server = scene.store.server.reads, scene.store.server
    place, left = there[CROWD // 2], iter(NAMES[: CROWD // 3] + NAMES[-CROWD // 3 :])

    async def changing(*arguments: Any, **options: Any) -> list[Any]:
        found = await reads(*arguments, **options)
        removed = [name for name, _ in zip(left, range(40), strict=False)]
        await scene.redis.zrem(scene.base + keys.FAILED, "none", *removed)
        return found

    await scene.redis.zrem(scene.base + keys.FAILED, place.tie)
    monkeypatch.setattr(server, "reads", changing)
    found = [each for each, _ in (await after(scene, place, 3, down=down)).found]
    near = there[CROWD // 2 - 3 : CROWD // 2][::-1] if down else there[CROWD // 2 + 1 :][:3]
    assert found == near[: len(found)] != []


async def claim(scene: Scene, held: list[Any]) -> None:
    held += await scene.claim()


async def release(scene: Scene, held: list[Any]) -> None:
    await scene.release(held)


@pytest.mark.parametrize("move", [claim, release], ids=["claimed", "released"])
async def test_what_moves_while_a_page_is_read_is_listed_once(
    scene: Scene,
    monkeypatch: pytest.MonkeyPatch,
    move: Callable[[Scene, list[Any]], Awaitable[None]],
) -> None:
    made, held = [await scene.create(n - 5) for n in range(5)], list[Any]()
    if move is release:
        await claim(scene, held)
    reads = scene.store.server.reads

    async def moving(commands: Any, **options: Any) -> list[Any]:
        """Moves after each command that may be alone."""
        found = []
        for some in [commands] if options.get("at_once") else [[each] for each in commands]:
            found += await reads(some, **options)
            await move(scene, held)
        return found

    monkeypatch.setattr(scene.store.server, "reads", moving)
    assert ids_of(await scene.listed(scene.store.unended)) == made


@pytest.mark.parametrize(("executed", "waiting", "weighed"), [(5, 2, False), (0, 5, True)])
async def test_what_ended_makes_the_list_of_waiting_ones_no_dearer(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, executed: int, waiting: int, weighed: bool
) -> None:
    """Requests are weighed before they are read only where those that wait are heavy together."""
    monkeypatch.setattr("scheduler.store.queries.members._LIGHT_BYTES", 150)
    for _ in range(executed):
        await scene.run()
    made = [await scene.create(60_000 + n) for n in range(waiting)]
    asked = reads_of(scene, monkeypatch)
    assert ids_of(await scene.listed(scene.store.unended)) == made
    assert ("HSTRLEN" in [words[0] for words in asked]) is weighed


@pytest.mark.parametrize("key", [keys.EXPIRING, keys.TRIED])
async def test_a_damaged_sum_is_no_matter_of_a_list(scene: Scene, key: str) -> None:
    made = await scene.create(60_000)
    await scene.spoil(scene.base + key)
    assert ids_of(await scene.listed(scene.store.unended)) == [made]


async def test_where_waiting_ones_fill_a_page_the_log_is_not_read(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.run()
    made = [await scene.create(2 * DAY_MS + n) for n in range(3)]
    asked = reads_of(scene, monkeypatch)
    page = await scene.store.logs.page(scene.account_id, LogQuery(limit=2))
    assert ids_of(page.entries) == made[:0:-1]
    assert "XREVRANGE" not in [words[0] for words in asked]


async def test_a_list_asks_for_a_set_of_lanes_and_its_size(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And for the rank of a place only where that is a member's."""
    asked, names = reads_of(scene, monkeypatch), ("waiting", "laned", "held")
    for place, commands in ((Place(0), 9), (Place(5, 1, "0" * 26), 12)):
        await read_members(scene.store.server, scene.base, names, Span(place, 2**53, False), 10)
        assert len(asked) == commands
        asked.clear()
