"""Creates that mean the schedule which waits with their reference: that is kept, or replaced."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from msgspec.structs import replace

from scheduler import ids
from scheduler.errors import OutcomeUnknown
from scheduler.models import Idempotency, Invocation, Packed, Request, RetryOn, Upsert
from scheduler.store import keys
from scheduler.store.lifecycle.create.creator import _CREATE
from scheduler.store.lifecycle.create.results import CreateResult
from scheduler.store.stored import due_at, pack_request, unpack_request
from scheduler.store.verdict import Verdict
from tests.store.scene import CREDITS, URL, Scene
from tests.store.whole.harm import commands

pytestmark = pytest.mark.sound
DONE, EXISTING, SEVERAL = Verdict.DONE, Verdict.EXISTING, Verdict.SEVERAL


async def upsert(
    scene: Scene,
    due_in_ms: int = 60_000,
    *,
    keep: bool = False,
    max_wait_ms: int | None = None,
    once: Idempotency | None = None,
    **fields: Any,
) -> CreateResult:
    due_ms = await scene.clock.now_ms() + due_in_ms
    request = Request(due_ms, "POST", URL, **({"reference": "order-1"} | fields))
    wanted = Upsert(request, keep, max_wait_ms)
    return await scene.store.schedules.create_all(scene.account_id, [wanted], once)


async def one(scene: Scene, *more: Any, **fields: Any) -> tuple[Verdict, str]:
    """What came of it, and of which schedule."""
    [placed] = (await upsert(scene, *more, **fields)).placed
    return Verdict(placed.verdict), placed.schedule_id


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize(
    ("there", "count", "verdict"),
    [
        ("none", 0, DONE),
        ("one that waits", 1, EXISTING),
        ("one that a worker holds", 0, DONE),
        ("one between two attempts", 1, EXISTING),
        ("three, and one that a worker holds", 3, SEVERAL),
    ],
)
async def test_one_that_waits_is_meant_and_kept_or_gets_all_of_the_request(
    scene: Scene, there: str, count: int, verdict: Verdict, keep: bool
) -> None:
    """One between two attempts then has all its own retries, and attempts count on."""
    await scene.create(60_000, reference="order-10")
    await scene.create(60_000)
    fields: dict[str, Any] = {"body": b"{}", "headers": {"X-A": "1"}, "retries": 3}
    fields |= {"reference": "order-1"}
    is_tried, held = there == "one between two attempts", list[Invocation]()
    if there.endswith("a worker holds"):
        held = [await scene.held(**fields)]
    due_ms = -1000 if is_tried else 60_000
    made = [await scene.create(due_ms, **fields) for _ in range(count)]
    if is_tried:
        await scene.retry([await scene.claim_one()], 60_000)
    before, credits = [await scene.get(each) for each in made], await scene.credits()
    due_in_ms = -500 if is_tried else 10_000
    [placed] = (await upsert(scene, due_in_ms, keep=keep, method_given=False, body=b"[1]")).placed
    assert (placed.verdict, placed.schedule_id in made) == (verdict, verdict is EXISTING)
    assert await scene.credits() == credits - (verdict is DONE)
    now = [await scene.get(each) for each in made]
    if verdict is not EXISTING or keep:
        assert now == before
    if verdict is SEVERAL:
        assert placed.due_ms == 3
    else:
        found = await scene.get(placed.schedule_id)
        assert found.due_at_ms == placed.due_ms == await scene.visible_at_ms(placed.schedule_id)
        sent = (found.request.body, found.request.headers, found.request.retries)
        assert (sent == (b"[1]", {}, 0)) is not (keep and verdict is EXISTING)
        assert found.request.reference == "order-1"
    if is_tried and not keep:
        assert (now[0].retry.number, now[0].retry.attempts) == (0, 1)
        again = await scene.claim_one()
        assert again.attempt == 2
        held.append(again)
    await scene.ack(held)


async def test_a_stop_is_repeated_of_one_that_was_replaced_between_two_attempts(
    scene: Scene,
) -> None:
    _, first = await one(scene, -1000, retries=3)
    await scene.retry([await scene.claim_one()], 60_000)
    await one(scene)
    [told], [again] = [(await scene.cancel(first)).each for _ in range(2)]
    assert (again.refusal, again.stopped) == (None, told.stopped)


async def test_of_very_many_all_are_counted(scene: Scene) -> None:
    await scene.store.accounts.grant(scene.account_id, 200)
    due_ms = await scene.clock.now_ms() + 60_000
    many = [Request(due_ms, "POST", URL, reference="order-1")] * 150
    await scene.store.schedules.create_all(scene.account_id, many)
    [placed] = (await upsert(scene)).placed
    assert (placed.verdict, placed.due_ms) == (SEVERAL, 150)


@pytest.mark.parametrize("waits_first", [True, False])
@pytest.mark.parametrize("held", [3, 4, 5, 99])
async def test_one_is_found_among_many_that_a_worker_holds(
    scene: Scene, held: int, waits_first: bool
) -> None:
    waiting = await scene.create(60_000, reference="order-1") if waits_first else ""
    await scene.store.accounts.grant(scene.account_id, held)
    due_ms = await scene.clock.now_ms() - 1000
    many = [Request(due_ms, "POST", URL, reference="order-1")] * held
    await scene.store.schedules.create_all(scene.account_id, many)
    claimed = await scene.claim()
    assert len(claimed) == held
    waiting = waiting or await scene.create(60_000, reference="order-1")
    assert await one(scene, keep=True) == (EXISTING, waiting)
    await scene.ack(claimed)


async def test_a_batch_looks_at_few_of_the_many_that_wait_with_each_reference(scene: Scene) -> None:
    """All in one script, while no other account is served."""
    await scene.store.accounts.grant(scene.account_id, 200)
    plain = Request(await scene.clock.now_ms() + 60_000, "POST", URL)
    named = [msgspec.structs.replace(plain, reference=f"order-{n}") for n in range(5)]
    await scene.store.schedules.create_all(scene.account_id, named * 20)
    wanted = [Upsert(each, keep=True) for each in named]
    create = partial(scene.store.schedules.create_all, scene.account_id, wanted)
    looks = [each for each in await commands(scene.store, create) if each[0] == "ZMSCORE"]
    assert [len(look) - 2 for look in looks] == [4] * 5


async def test_without_credits_only_one_that_waits_is_reached(scene: Scene) -> None:
    _, first = await one(scene)
    await scene.create_many(0, 0)
    due_ms = await scene.clock.now_ms() + 60_000
    rest = [Request(due_ms, "POST", URL)] * (CREDITS - 1)
    await scene.store.schedules.create_all(scene.account_id, rest)
    assert await one(scene) == (EXISTING, first)
    assert (await one(scene, reference="order-2"))[0] is Verdict.UNPAID


@pytest.mark.parametrize(
    ("waits", "due_in_ms"), [(60_000, 30_000), (60_000, 90_000), (60_000, 60_000)]
)
async def test_it_is_due_no_later_than_the_longest_wait_allows(
    scene: Scene, waits: int, due_in_ms: int
) -> None:
    """From the first create on, whatever comes later."""
    _, first = await one(scene, 1000, max_wait_ms=waits)
    created_ms = ids.created_at_ms(first)
    await scene.clock.pass_ms(20)
    before_ms = await scene.clock.now_ms()
    [placed] = (await upsert(scene, due_in_ms, max_wait_ms=waits)).placed
    after_ms = await scene.clock.now_ms()
    assert placed[:2] == (EXISTING, first)
    latest_ms = created_ms + waits
    assert min(before_ms + due_in_ms, latest_ms) <= placed.due_ms
    assert placed.due_ms <= min(after_ms + due_in_ms, latest_ms)
    assert await scene.visible_at_ms(first) == placed.due_ms
    assert (await scene.get(first)).request.trigger_at_ms == placed.due_ms


@pytest.mark.parametrize("fields", [{}, {"labels": ("a",)}, {"retry_on": RetryOn.ANY}])
def test_a_packed_request_is_due_at_another_moment_however_many_fields_it_has(
    fields: dict[str, Any],
) -> None:
    for before_ms, after_ms in ((1, 2**41), (2**41, 2**33), (2**41, 1)):
        request = Request(before_ms, "POST", URL, **fields)
        moved = due_at(Packed(before_ms, pack_request(request)), after_ms)
        assert isinstance(moved, Packed)
        assert unpack_request(moved.request) == replace(request, trigger_at_ms=after_ms)
        assert moved.trigger_at_ms == after_ms


@pytest.mark.parametrize("behind_ms", [400, -400])
async def test_the_longest_wait_counts_from_that_create_whatever_a_process_takes_for_the_time(
    scene: Scene, behind_ms: int
) -> None:
    """It tells the store's time late, after a reply that took long."""
    _, first = await one(scene, 60_000)
    created_ms = ids.created_at_ms(first)
    with patch.object(scene.store.clock, "now_ms", lambda: created_ms - behind_ms):
        [placed] = (await upsert(scene, 60_000, max_wait_ms=5000)).placed
    assert placed[:2] == (EXISTING, first)
    assert placed.due_ms == created_ms + 5000
    assert await scene.visible_at_ms(first) == placed.due_ms


async def test_a_new_one_waits_no_longer_either(scene: Scene) -> None:
    _, first = await one(scene, 60_000, max_wait_ms=1000)
    found = await scene.get(first)
    assert found.request.trigger_at_ms == found.created_at_ms + 1000


async def test_what_has_waited_too_long_is_due_now(scene: Scene) -> None:
    _, first = await one(scene, 60_000)
    await scene.clock.pass_ms(20)
    [placed] = (await upsert(scene, 60_000, max_wait_ms=5)).placed
    assert placed[:2] == (EXISTING, first)
    assert placed.due_ms > ids.created_at_ms(first) + 5
    assert (await scene.claim_one()).schedule_id == first


async def test_in_one_call_the_later_meets_the_earlier(scene: Scene) -> None:
    due_ms = await scene.clock.now_ms() + 60_000
    plain = Request(due_ms, "POST", URL, reference="a")
    requests = [
        Upsert(plain, keep=False),
        Upsert(msgspec.structs.replace(plain, body=b"1"), keep=False),
        Upsert(msgspec.structs.replace(plain, body=b"2"), keep=True),
        msgspec.structs.replace(plain, reference="b"),
        Upsert(msgspec.structs.replace(plain, reference="b", body=b"3"), False, 10_000),
        Request(due_ms, "POST", URL),
        msgspec.structs.replace(plain, reference="b"),
        Upsert(msgspec.structs.replace(plain, reference="b"), keep=True),
    ]
    done = await scene.store.schedules.create_all(scene.account_id, requests)
    verdicts = [each.verdict for each in done.placed]
    assert verdicts == [DONE, EXISTING, EXISTING, DONE, EXISTING, DONE, DONE, SEVERAL]
    names = [each.schedule_id for each in done.placed]
    assert (len(set(names[:3])), names[4]) == (1, names[3])
    assert (await scene.get(names[0])).request.body == b"1"
    third = (await scene.get(names[3])).request
    assert third.body == b"3"
    assert third.trigger_at_ms < due_ms - 40_000
    assert await scene.visible_at_ms(names[3]) == third.trigger_at_ms
    assert await scene.credits() == CREDITS - 4


async def test_calls_that_come_together_make_one(scene: Scene) -> None:
    """In one script: the store puts together what comes while it is busy."""
    results = await asyncio.gather(*(upsert(scene, 60_000 + n, max_wait_ms=50) for n in range(40)))
    placed = [each.placed[0] for each in results]
    assert [each.verdict for each in placed].count(DONE) == 1
    assert len({each.schedule_id for each in placed}) == 1
    assert await scene.credits() == CREDITS - 1


@pytest.mark.parametrize("waits", [True, False])
async def test_a_repeat_after_a_lost_reply_replaces_nothing_twice(
    scene: Scene, waits: bool
) -> None:
    """Nor is another one made, though a worker claims it in between."""
    first = await scene.create(-1000, reference="order-1") if waits else None
    run, claimed = scene.store.server.run, list[Invocation]()

    async def losing(script: Any, *arguments: Any) -> Any:
        reply = await run(script, *arguments)
        if script is _CREATE and not claimed:
            claimed.extend(await scene.claim())
            raise OutcomeUnknown("The store's answer was lost")
        return reply

    with patch.object(scene.store.server, "run", losing):
        verdict, schedule_id = await one(scene, -2000, body=b"2")
    [held] = claimed
    assert (verdict, schedule_id) == (EXISTING if waits else DONE, held.schedule_id)
    assert held.request.body == b"2"
    assert first in (None, schedule_id)
    assert await scene.credits() == CREDITS - 1
    assert (await one(scene))[1] != schedule_id
    await scene.ack(claimed)


@pytest.mark.parametrize("keep", [True, False])
async def test_a_once_key_keeps_what_came_of_it(scene: Scene, keep: bool) -> None:
    once = Idempotency("key", "asked")
    _, first = await one(scene, -1000)
    done = await upsert(scene, -2000, keep=keep, once=once, max_wait_ms=None if keep else 9)
    assert done.placed[0][:2] == (EXISTING, first)
    await scene.ack([await scene.claim_one()])
    again = await upsert(scene, 5000, keep=keep, once=once)
    assert again.repeated
    assert again.placed == done.placed
    assert (await scene.store.schedules.created_before(scene.account_id, once)) == again
    assert await scene.credits() == CREDITS - 1


@pytest.mark.parametrize("keep", [True, False])
async def test_what_took_no_credit_is_not_noted_for_long(scene: Scene, keep: bool) -> None:
    """The rate alone bounds such notes, and a batch has a thousand."""
    for minutes, key in ((24 * 60, "new"), (1, "existing")):
        before = {*await scene.redis.keys()}
        await upsert(scene, keep=keep, once=Idempotency(key, "asked"))
        noted = {*await scene.redis.keys(scene.base + keys.ONCE + "*")} - before
        assert [await scene.redis.pttl(each) > 60_000 * (minutes - 1) for each in noted] == [True]
        assert all([await scene.redis.pttl(each) <= 60_000 * minutes for each in noted])
    assert not await scene.redis.keys(scene.base + keys.OPERATION + "*")
    request = Request(await scene.clock.now_ms() + 60_000, "POST", URL, reference="order-1")
    many = [Upsert(request, keep, None)] * 9
    await scene.store.schedules.create_all(scene.account_id, many)
    done = await scene.redis.keys(scene.base + keys.OPERATION + "*")
    assert len(done) == (not keep)
    assert all([0 < await scene.redis.pttl(each) <= 60_000 for each in done])
