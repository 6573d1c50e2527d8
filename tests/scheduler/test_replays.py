"""Replays: new schedules of ended ones, each paid for once, and nothing lost on the way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest

from scheduler.errors import Conflict, InsufficientCredits, InvalidRequest, KeyReused, NotFound
from scheduler.models import Delivery, Idempotency, Outcome, Request, Schedule, Status
from scheduler.rollups import HOUR_MS
from scheduler.store.queries.listing import Selection
from scheduler.store.verdict import Verdict
from tests.scheduler.letters import (
    complete_all,
    due_at,
    fail,
    letter_ids,
    new_ids,
    replay,
    verdicts,
)
from tests.scheduler.scene import COMPLETED, CREDITS, FAILED, Scene, new_id

pytestmark = pytest.mark.sound
DONE = Verdict.DONE
ONCE = Idempotency("key", "fingerprint")
MANY, AT_ONCE = 800, 100


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


async def test_a_replay_that_failed_is_a_dead_letter_itself(scene: Scene) -> None:
    [failed] = await fail(scene)
    made = await replay_one(scene, failed)
    await scene.ack([await scene.claim_one()], FAILED)
    assert await letter_ids(scene) == [made]
    again = await replay_one(scene, made)
    await complete_all(scene)
    chain = await scene.get(again)
    assert chain.request.replay_of == made
    assert await letter_ids(scene) == []


async def test_one_by_one_whatever_has_ended_can_be_replayed_again(scene: Scene) -> None:
    completed = await scene.run(COMPLETED)
    for _ in range(2):
        made = await replay_one(scene, completed)
        assert await scene.status(made) is Status.SCHEDULED
        assert (await scene.get(completed)).replayed_as == made
    assert len(await complete_all(scene)) == 2


async def test_what_has_not_ended_is_refused(scene: Scene) -> None:
    waiting, held = await scene.create(60_000), await scene.create()
    await scene.claim_one()
    before = await scene.holdings()
    for schedule_id in (waiting, held):
        with pytest.raises(Conflict, match="has not ended yet") as refused:
            await replay_one(scene, schedule_id)
        assert refused.value.status is Status.SCHEDULED
    assert await scene.holdings() == before


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


async def test_in_bulk_each_is_replayed_once(scene: Scene) -> None:
    failed = await fail(scene, 4)
    done = await replay(scene, [*failed, failed[0]])
    assert verdicts(done) == [*[DONE] * 4, Verdict.REPLAYED]
    before = await scene.holdings()
    assert verdicts(await replay(scene, failed)) == [Verdict.REPLAYED] * 4
    assert await scene.holdings() == before


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


async def test_a_key_of_another_request_is_refused(scene: Scene) -> None:
    failed = await fail(scene, 2)
    await replay(scene, failed[:1], ONCE)
    other = Idempotency("key", "another")
    with pytest.raises(KeyReused):
        await replay(scene, failed[1:], other)
    with pytest.raises(KeyReused):
        await scene.store.schedules.replayed_before(scene.account_id, other)
    request = Request(1, "GET", "http://example.com")
    with pytest.raises(KeyReused):
        await scene.store.schedules.create_all(scene.account_id, [request], other)
    assert await letter_ids(scene) == failed[1:]


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


async def test_a_selection_is_by_url_and_period(scene: Scene) -> None:
    first = await fail(scene, 3, url="http://example.com/1")
    await scene.clock.pass_ms(2)
    second = await fail(scene, 3, url="http://example.com/2")
    schedules, account = scene.store.schedules, scene.account_id
    ended = (await schedules.get(account, second[0])).ended_at_ms
    nothing = Selection(url="http://example.com/2", to_ms=ended)
    assert (await schedules.replay_failed(account, nothing, due_at(1))).each == []
    done = await schedules.replay_failed(account, Selection(url="http://example.com/2"), due_at(1))
    assert [each.original for each in done.each] == second
    assert await letter_ids(scene) == first


async def test_a_selection_with_a_key_tells_which_they_were(scene: Scene) -> None:
    failed = await fail(scene, 4)
    schedules = scene.store.schedules
    first = await schedules.replay_failed(scene.account_id, Selection(limit=2), due_at(1), ONCE)
    again = await schedules.replay_failed(scene.account_id, Selection(limit=2), due_at(1), ONCE)
    assert first.next_cursor is not None
    assert again == first._replace(repeated=True)
    assert await letter_ids(scene) == failed[2:]


async def test_more_than_the_bytes_are_refused_and_nothing_is_done(scene: Scene) -> None:
    failed = await fail(scene, 4, body=b'"' + b"x" * 1000 + b'"')
    before = await scene.holdings()
    with pytest.raises(InvalidRequest, match="larger than 3,000 bytes"):
        await scene.store.schedules.replay_all(scene.account_id, failed, due_at(1), most_bytes=3000)
    assert await scene.holdings() == before
    assert await letter_ids(scene) == failed


async def test_a_replay_of_what_is_forgotten_meanwhile_is_not_found(fake_scene: Scene) -> None:
    """It was there when it was read, and is not when the script comes."""
    scene = fake_scene
    [failed] = await fail(scene)
    before = await scene.holdings()

    def late(original: Schedule) -> Request:
        scene.clock.ms += 168 * HOUR_MS + 1
        return due_at(1)(original)

    with pytest.raises(NotFound):
        await scene.store.schedules.replay(scene.account_id, failed, late)
    after = await scene.holdings()
    assert (after.credits, after.waiting) == (before.credits, before.waiting)


async def test_a_replay_in_the_last_moment_is_whole_and_its_original_kept_as_others(
    fake_scene: Scene,
) -> None:
    scene = fake_scene
    [failed] = await fail(scene, body=b'{"a": 1}')
    await scene.clock.pass_ms(168 * HOUR_MS - 1)
    made = await replay_one(scene, failed)
    await scene.clock.pass_ms(5)
    with pytest.raises(NotFound):
        await scene.status(failed)
    [request] = await complete_all(scene)
    assert (request.body, request.replay_of) == (b'{"a": 1}', failed)
    assert await scene.status(made) is Status.COMPLETED
    [failed] = await fail(scene)
    made = await replay_one(scene, failed)
    await scene.clock.pass_ms(24 * HOUR_MS - 5)
    assert (await scene.get(failed)).replayed_as == made
    await scene.clock.pass_ms(10)
    with pytest.raises(NotFound):
        await scene.status(failed)


async def test_thousands_are_replayed_while_new_ones_come(scene: Scene) -> None:
    """None is lost and none doubled: each original has one replay, and all are fired."""
    old = Outcome(Status.FAILED, 500, 1, "Internal Server Error")

    async def fail_many(count: int) -> None:
        await scene.create_many(count, 1)
        while claimed := await scene.claim(most=500):
            await scene.ack(claimed, old)

    await fail_many(MANY)
    due_ms = await scene.clock.now_ms() + 3_600_000
    originals: list[str] = []

    async def replay_all() -> None:
        wanted = Selection(limit=AT_ONCE)
        while True:
            done = await scene.store.schedules.replay_failed(
                scene.account_id, wanted, due_at(due_ms)
            )
            assert set(verdicts(done)) <= {DONE}
            originals.extend(each.original for each in done.each)
            if not done.each and done.next_cursor is None:
                return
            wanted = Selection(limit=AT_ONCE, cursor=done.next_cursor)

    async def come() -> None:
        for _ in range(5):
            await fail_many(100)

    await scene.store.accounts.grant(scene.account_id, MANY + 500)
    await asyncio.gather(replay_all(), come())
    await replay_all()
    assert len(originals) == len(set(originals)) == MANY + 500
    assert await letter_ids(scene) == []
    waiting = await scene.redis.zcard(scene.base + "waiting")
    assert waiting == MANY + 500
    assert (await scene.holdings()).credits == CREDITS
    assert await scene.store.check() == []
