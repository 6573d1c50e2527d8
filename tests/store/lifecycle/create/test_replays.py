"""Replays: new schedules of ended ones, each paid for once, and nothing lost on the way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest

from scheduler.errors import Conflict, InsufficientCredits, InvalidRequest, NotFound
from scheduler.models import Delivery, Idempotency, Status
from scheduler.store.queries.listing import Selection
from scheduler.store.verdict import Verdict
from tests.store.lifecycle.end.dead_letters import (
    complete_all,
    due_at,
    fail,
    letter_ids,
    new_ids,
    replay,
    verdicts,
)
from tests.store.scene import COMPLETED, CREDITS, FAILED, Scene, new_id

pytestmark = pytest.mark.sound
DONE = Verdict.DONE
ONCE = Idempotency("key", "fingerprint")


async def replay_one(scene: Scene, schedule_id: str, once: Idempotency | None = None) -> str:
    now_ms = await scene.clock.now_ms()
    done = await scene.store.schedules.replay(scene.account_id, schedule_id, due_at(now_ms), once)
    [made] = new_ids(done)
    return made


async def test_a_replay_is_a_new_schedule_of_the_same_request(scene: Scene) -> None:
    asked = {
        "url": "http://example.com/a?b=%20",
        "headers": {"X-B": "2", "Authorization": "Bearer secret", "x-a": "1"},
        "body": bytes(range(256)) * 3,
        "delivery": Delivery.AT_MOST_ONCE,
        "expires_at_ms": 2**42,
        "method_given": False,
    }
    [failed], [other] = await fail(scene, **asked), await fail(scene)
    before = (await scene.get(failed)).request
    made = await replay_one(scene, failed)
    [request] = await complete_all(scene)
    assert (await scene.get(made)).request == request
    assert msgspec.structs.replace(before, replay_of=failed) == msgspec.structs.replace(
        request, trigger_at_ms=before.trigger_at_ms
    )
    assert list(request.headers) == list(before.headers)
    original = await scene.get(failed)
    assert (original.status, original.replayed_as, made != failed) == (Status.FAILED, made, True)
    assert await letter_ids(scene) == [other]
    assert await scene.credits() == CREDITS - 3


async def test_of_the_cancelled_those_without_a_body_can_be_replayed(scene: Scene) -> None:
    whole, bare = [
        await scene.create(60_000, headers={"X-A": "1"}, body=body) for body in (b"{}", None)
    ]
    await scene.cancel_all([whole, bare])
    with pytest.raises(Conflict, match="Its body was not kept when it was cancelled"):
        await replay_one(scene, whole)
    assert await scene.credits() == CREDITS
    await replay_one(scene, bare)
    [request] = await complete_all(scene)
    assert (request.headers, request.replay_of) == ({"X-A": "1"}, bare)


async def test_what_is_unknown_or_anothers_is_not_found(scene: Scene) -> None:
    other = Scene(scene.store, scene.clock, await scene.account("other"))
    [theirs] = await fail(other)
    before = await scene.holdings()
    for schedule_id in (new_id(), theirs):
        with pytest.raises(NotFound):
            await replay_one(scene, schedule_id)
    assert verdicts(await replay(scene, [theirs, new_id()])) == [Verdict.UNKNOWN] * 2
    assert await scene.holdings() == before
    assert await letter_ids(other) == [theirs]


async def test_credits_that_reach_for_some_replay_the_first(scene: Scene) -> None:
    failed = await fail(scene, 5)
    for _ in range(CREDITS - 7):
        await scene.create(60_000)
    done = await replay(scene, failed)
    assert verdicts(done) == [DONE, DONE, *[Verdict.UNPAID] * 3]
    assert await scene.credits() == 0
    with pytest.raises(InsufficientCredits):
        await replay_one(scene, failed[2])
    assert await letter_ids(scene) == failed[2:]
    assert (await scene.get(failed[2])).replayed_as is None


async def test_each_is_answered_on_its_own_and_in_order(scene: Scene) -> None:
    failed = await fail(scene, 3)
    completed = await scene.run(COMPLETED)
    waiting, cancelled = await scene.create(60_000), await scene.create(60_000, body=b"{}")
    await scene.cancel(cancelled)
    await replay_one(scene, failed[1])
    ids = [failed[0], new_id(), failed[1], waiting, completed, cancelled, failed[2]]
    done = await replay(scene, ids)
    assert verdicts(done) == [
        DONE,
        Verdict.UNKNOWN,
        Verdict.REPLAYED,
        Verdict.NOT_ENDED,
        DONE,
        Verdict.CANCELLED,
        DONE,
    ]
    assert [each.original for each in done.each] == ids
    for each in done.each:
        if each.schedule_id is not None:
            made = await scene.get(each.schedule_id)
            assert made.request.replay_of == each.original


async def test_a_key_tells_all_verdicts_again(scene: Scene) -> None:
    failed = await fail(scene, 3)
    waiting = await scene.create(60_000)
    await replay_one(scene, failed[1])
    ids = [waiting, *failed, new_id()]
    first = await replay(scene, ids, ONCE)
    assert verdicts(first) == [
        Verdict.NOT_ENDED, DONE, Verdict.REPLAYED, DONE, Verdict.UNKNOWN,
    ]  # fmt: skip
    before, again = await scene.holdings(), first._replace(repeated=True)
    assert not first.repeated
    assert await replay(scene, ids, ONCE, due_ms=99) == again
    assert await scene.store.schedules.replayed_before(scene.account_id, ONCE) == again
    assert await scene.holdings() == before


async def test_a_key_under_which_nothing_was_stored_is_free(scene: Scene) -> None:
    waiting = await scene.create(60_000)
    await replay(scene, [waiting, new_id()], ONCE)
    assert await scene.store.schedules.replayed_before(scene.account_id, ONCE) is None
    [failed] = await fail(scene)
    assert verdicts(await replay(scene, [failed], ONCE)) == [DONE]


@pytest.mark.parametrize("once", [None, ONCE])
async def test_at_once_each_is_replayed_once(scene: Scene, once: Idempotency | None) -> None:
    failed = await fail(scene, 20)
    done = await asyncio.gather(*(replay(scene, failed, once) for _ in range(4)))
    made = [name for each in done for name in new_ids(each)]
    assert len(set(made)) == 20 == len(made) // (4 if once else 1)
    assert sum(each.repeated for each in done) == (3 if once else 0)
    assert len(await complete_all(scene)) == 20


async def walk(scene: Scene, wanted: Selection, due_ms: int) -> AsyncIterator[str]:
    """Replays what has failed, a selection at a time, to the end; tells the originals."""
    while True:
        done = await scene.store.schedules.replay_failed(scene.account_id, wanted, due_at(due_ms))
        for each in done.each:
            yield each.original
        if done.next_cursor is None:
            return
        wanted = wanted._replace(cursor=done.next_cursor)


async def test_a_walk_is_over_the_oldest_first_and_begins_by_the_servers_clock(
    fake_scene: Scene,
) -> None:
    """Not by a process's idea of it, which is behind: what failed just now is of the walk."""
    scene = fake_scene
    failed = await fail(scene, 7)
    behind_us = (await scene.clock.now_ms() - 1000) * 1000
    for _ in range(40):
        scene.store.clock.observe(behind_us)
    assert [each async for each in walk(scene, Selection(limit=3), 1)] == failed
    assert await letter_ids(scene) == []


async def test_a_walk_ends_with_what_had_failed_when_it_began(scene: Scene) -> None:
    """What a replay comes to meanwhile is not replayed again, however often that fails."""
    failed, seen = await fail(scene, 5), []
    async for each in walk(scene, Selection(limit=2), await scene.clock.now_ms()):
        seen.append(each)
        await scene.clock.pass_ms(2)
        await scene.ack(await scene.claim(), FAILED)
    assert seen == failed
    assert len(await letter_ids(scene)) == 5
    bad = Selection(cursor="x" * 40)
    with pytest.raises(InvalidRequest):
        await scene.store.schedules.replay_failed(scene.account_id, bad, due_at(1))


async def test_more_than_the_bytes_are_refused_and_nothing_is_done(scene: Scene) -> None:
    failed = await fail(scene, 4, body=b'"' + b"x" * 1000 + b'"')
    before = await scene.holdings()
    with pytest.raises(InvalidRequest, match="larger than 3,000 bytes"):
        await scene.store.schedules.replay_all(scene.account_id, failed, due_at(1), most_bytes=3000)
    assert await scene.holdings() == before
    assert await letter_ids(scene) == failed
