"""Every entry of one schedule: while it is kept, after that, and where entries are missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from scheduler import ids
from scheduler.models import Answer, LogEntry, Outcome, Phases, Request, Status
from scheduler.store import keys
from scheduler.store.log import attempts
from scheduler.store.log.entries import entry as entry_of
from scheduler.store.log.entries import pack_chunk
from scheduler.store.log.logs import LogQuery
from tests.store.scene import COMPLETED, FAILED, URL, Scene, new_id, reads_of

pytestmark = pytest.mark.usefixtures("endless_searches")
SAID = Answer("text/plain", b"no such order")
ENDS: dict[str, Outcome] = {
    "completed": msgspec.structs.replace(COMPLETED, phases=Phases(None, 4, None, 7, 1)),
    "failed": Outcome(Status.FAILED, 404, 7, "Not Found", answer=SAID, phases=Phases(1, 2, 3)),
}


async def retried(scene: Scene, times: int = 2) -> str:
    """A schedule that waits after so many attempts, the n-th with n ms to its first byte; beside
    each another one ended."""
    schedule_id = await scene.create()
    for n in range(1, times + 1):
        outcome = msgspec.structs.replace(FAILED, phases=Phases(first_byte_ms=n))
        wait_ms = 60_000 if n == times else 0
        assert await scene.retry([await scene.claim_one()], wait_ms, outcome) == [1]
        await scene.clock.pass_ms(2)
        if n < times:
            again = await scene.claim_one()
            await scene.run()
            await scene.release([again])
    return schedule_id


async def ended(scene: Scene, outcome: Outcome, times: int = 2) -> str:
    schedule_id = await retried(scene, times)
    await scene.change(schedule_id, trigger_at_ms=await scene.clock.now_ms() - 1)
    assert await scene.ack([await scene.claim_one()], outcome, 3) == [1]
    await scene.run(FAILED)
    return schedule_id


async def of(scene: Scene, schedule_id: str, **query: Any) -> list[LogEntry]:
    return await scene.log(schedule_id=schedule_id, **query)


def statuses(entries: Sequence[LogEntry]) -> list[str]:
    return [each.status.value for each in entries]


@pytest.mark.time_passes
@pytest.mark.parametrize("kept", [True, False], ids=["kept", "forgotten"])
@pytest.mark.parametrize("end", ENDS)
async def test_an_ended_one_has_each_attempt_in_order(scene: Scene, end: str, kept: bool) -> None:
    schedule_id = await ended(scene, ENDS[end])
    if not kept:
        await scene.redis.delete(scene.key(schedule_id))
    found = await of(scene, schedule_id, descending=False)
    assert statuses(found) == ["retrying", "retrying", end]
    assert [each.attempt for each in found] == [1, 2, 3]
    assert [each.lateness_ms for each in found] == [0, 0, 3]
    shown = [each.phases and each.phases.first_byte_ms for each in found]
    assert shown == [1, 2, ENDS[end].phases.first_byte_ms]
    assert [each.answer for each in found] == [None, None, ENDS[end].answer if kept else None]
    bare = [msgspec.structs.replace(each, answer=None) for each in found]
    logged = [each for each in await scene.log() if each.schedule_id == schedule_id]
    assert logged == bare[::-1]
    for limit in (1, 2, 3, 100):
        assert await of(scene, schedule_id, limit=limit, descending=False) == found
        assert await of(scene, schedule_id, limit=limit) == found[::-1]
    for n, each in enumerate(found):
        assert await of(scene, schedule_id, to_ms=each.at_ms, descending=False) == found[:n]
        assert await of(scene, schedule_id, from_ms=each.at_ms, descending=False) == found[n:]
    assert await of(scene, schedule_id, statuses=[end]) == found[2:]
    assert await of(scene, schedule_id, url=URL + "/another") == []


async def test_one_that_waits_has_its_attempts_and_when_it_is_due(scene: Scene) -> None:
    untried, cancelled = await scene.create(60_000), await scene.create(60_000)
    await scene.cancel(cancelled)
    schedule_id = await retried(scene)
    found = await of(scene, schedule_id, descending=False)
    assert statuses(found) == ["retrying", "retrying", "scheduled"]
    assert found[2].at_ms == found[1].next_attempt_at_ms
    assert await of(scene, schedule_id, limit=1) == found[::-1]
    assert await of(scene, schedule_id, statuses=["scheduled"]) == found[2:]
    assert statuses(await of(scene, untried)) == ["scheduled"]
    assert statuses(await of(scene, cancelled)) == ["cancelled"]
    await scene.cancel(schedule_id)
    assert statuses(await of(scene, schedule_id)) == ["failed", "retrying", "retrying"]
    await scene.redis.delete(scene.key(schedule_id), scene.key(cancelled))
    assert statuses(await of(scene, schedule_id)) == ["failed", "retrying", "retrying"]
    assert statuses(await of(scene, cancelled)) == ["cancelled"]


async def test_one_that_is_stopped_after_its_first_attempt_has_both_entries(scene: Scene) -> None:
    schedule_id = await retried(scene, times=1)
    await scene.cancel(schedule_id)
    found = await of(scene, schedule_id)
    assert [(each.status, each.attempt) for each in found] == [("failed", 1), ("retrying", 1)]
    assert found[0].phases == found[1].phases == Phases(first_byte_ms=1)


async def test_a_first_attempt_that_ends_it_shows_what_is_kept_with_it(scene: Scene) -> None:
    schedule_id = await scene.run(ENDS["failed"])
    [found] = await of(scene, schedule_id)
    assert (found.answer, found.phases) == (SAID, ENDS["failed"].phases)
    assert [each.phases for each in await scene.log()] == [None]


@pytest.mark.parametrize("descending", [True, False], ids=["desc", "asc"])
async def test_where_an_entry_is_missing_the_others_are_searched_for(
    scene: Scene, descending: bool
) -> None:
    schedule_id = await ended(scene, COMPLETED, times=3)
    found = await of(scene, schedule_id, descending=descending)
    [gone] = [each for each in found if each.attempt == 2]
    for stream_id, _ in await scene.redis.xrange(scene.base + keys.LOG, gone.at_ms, gone.at_ms):
        await scene.redis.xdel(scene.base + keys.LOG, stream_id)
    left = [each for each in found if each.at_ms != gone.at_ms]
    assert await of(scene, schedule_id, descending=descending) == left


async def test_attempts_of_one_millisecond_are_all_there(fake_scene: Scene) -> None:
    schedule_id = await fake_scene.create()
    for _ in range(3):
        assert await fake_scene.retry([await fake_scene.claim_one()], 0) == [1]
    assert await fake_scene.ack([await fake_scene.claim_one()]) == [1]
    found = await of(fake_scene, schedule_id, descending=False)
    assert [each.attempt for each in found] == [1, 2, 3, 4]
    assert len({each.at_ms for each in found}) == 1


async def test_a_search_is_short_and_goes_on_behind_its_cursor(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The schedule is forgotten, and its entry stands behind thousands of others."""
    monkeypatch.setattr(attempts, "_LONGEST_SEARCH_US", 1)
    now_ms = await scene.clock.now_ms()
    request = Request(now_ms, "GET", URL)
    [schedule_id] = ids.new_schedule_ids(1, now_ms - 60_000)
    async with scene.redis.pipeline(transaction=False) as pipe:
        for n in range(5000):
            chunk = pack_chunk([entry_of(new_id(), request, COMPLETED)])
            pipe.xadd(scene.base + keys.LOG, {"e": chunk}, id=f"{now_ms - 50_000 + n}-0")
        chunk = pack_chunk([entry_of(schedule_id, request, COMPLETED)])
        pipe.xadd(scene.base + keys.LOG, {"e": chunk}, id=f"{now_ms - 1000}-0")
        await pipe.execute()
    pages, cursor = [], None
    while not pages or cursor is not None:
        query = LogQuery(descending=False, cursor=cursor, schedule_id=schedule_id)
        page = await scene.store.logs.page(scene.account_id, query)
        pages.append(len(page.entries))
        cursor = page.next_cursor
    assert pages == [0, 0, 1]


async def test_a_strangers_schedule_is_read_and_answered_as_an_unknown_one(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Scene(scene.store, scene.clock, await scene.account("other"))
    theirs = await other.run()
    found, asked = list[list[str]](), reads_of(scene, monkeypatch)
    for schedule_id in (theirs, ids.new_schedule_ids(1, ids.created_at_ms(theirs))[0]):
        asked.clear()
        assert await of(scene, schedule_id) == []
        found.append([str(words[0]) for words in asked])
    assert found[0] == found[1]
