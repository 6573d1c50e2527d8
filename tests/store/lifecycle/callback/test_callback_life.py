"""What becomes of a callback, from the end that sets it on. A table of who has one, and the rest of
its life: claims, attempts, leases, and how long the schedule is kept."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from scheduler.callbacks import Callback, CallbackOn, CallbackState, CallbackStatus
from scheduler.errors import Conflict, InvalidRequest, TooManyResends, UnknownSchedule
from scheduler.masks import masked_url
from scheduler.models import Invocation, Outcome
from scheduler.store import keys
from scheduler.store.lifecycle.callback.callbacks import CallbackAck
from scheduler.store.lifecycle.end.end_rows import Ack
from scheduler.store.verdict import Verdict
from tests.store.clocks import FakeClock
from tests.store.scene import COMPLETED, FAILED, LEASE_MS, OWN, URL, Scene, new_id

pytestmark = pytest.mark.sound
HERE = "https://example.com/ended"
NEW = "https://example.com/elsewhere?" + 700 * "x"
DEFAULT = "https://example.com/of-the-account"
DAY_MS, HOUR_MS = 86_400_000, 3_600_000


async def set_default(scene: Scene, on: str = "executed") -> None:
    await scene.redis.hset(scene.base + keys.CALLBACK, mapping={"url": DEFAULT, "on": on})


async def pending(scene: Scene) -> set[str]:
    names = await scene.redis.zrange(scene.base + keys.CALLBACKS, 0, -1)
    return {"sch_" + name.decode() for name in names}


async def ttl_ms(scene: Scene, schedule_id: str) -> int:
    return await scene.redis.pttl(scene.key(schedule_id))  # type: ignore[no-any-return]


async def expiring(scene: Scene) -> int:
    found = await scene.redis.hvals(scene.base + keys.EXPIRING)
    return sum(int(each) for each in found)


async def state_of(scene: Scene, call: Invocation) -> CallbackState:
    return (await scene.get(call.schedule_id)).callback


async def called(scene: Scene, outcome: Outcome = COMPLETED, **fields: Any) -> Invocation:
    """The callback of a schedule that has ended so, as a worker holds it."""
    await scene.run(outcome, **({"callback": OWN} | fields))
    return await scene.claim_one()


WISHES = [
    # what the schedule says, the account's default, which of two ends are reported
    (None, None, []),
    (None, "executed", [COMPLETED, FAILED]),
    (None, "failed", [FAILED]),
    (OWN, None, [COMPLETED, FAILED]),
    (OWN, "failed", [COMPLETED, FAILED]),
    (Callback(HERE, CallbackOn.FAILED), "executed", [FAILED]),
    (Callback(None), None, []),
    (Callback(None), "failed", [COMPLETED, FAILED]),
    (Callback(None, CallbackOn.FAILED), "executed", [FAILED]),
    (Callback(""), "executed", []),
]


@pytest.mark.parametrize(("wish", "default", "reported"), WISHES)
@pytest.mark.parametrize("lane", [None, "a"])
async def test_the_end_sets_the_callback(
    scene: Scene, wish: Callback | None, default: str | None, reported: list[Outcome], lane: str
) -> None:
    """In the step that records the outcome, among others that have none."""
    if default:
        await set_default(scene, default)
    outcomes = {}
    for outcome in (COMPLETED, FAILED):
        made = await scene.create(callback=wish, lane=lane, reference="b")
        outcomes[made] = outcome
    plain = await scene.create(callback=Callback(""), lane=lane)
    held = {each.schedule_id: each for each in await scene.claim()}
    acks = [Ack(held[plain], COMPLETED, 0)]
    acks += [Ack(held[made], outcome, 0) for made, outcome in outcomes.items()]
    assert await scene.store.ends.ack(scene.shard, acks) == [Verdict.DONE] * 3
    expected = {made for made, outcome in outcomes.items() if outcome in reported}
    assert await pending(scene) == expected
    for made in held:
        state = (await scene.get(made)).callback
        assert (state is not None) == (made in expected)
        assert (await ttl_ms(scene, made) == -1) == (made in expected)
    assert await scene.store.ends.ack(scene.shard, acks) == [Verdict.ENDED] * 3
    for call in await scene.claim():
        assert call.request.url == (HERE if wish and wish.url else DEFAULT)
        assert await scene.answer(call) == Verdict.DONE
    assert await pending(scene) == set()


async def test_a_cancellation_is_never_reported(scene: Scene) -> None:
    await set_default(scene)
    for wish in (None, OWN):
        made = await scene.create(60_000, callback=wish)
        await scene.cancel(made)
        assert (await scene.get(made)).callback is None
    assert await pending(scene) == set()
    assert await scene.redis.exists(keys.shard(scene.shard) + keys.CALLBACK_HEADS) == 0


async def test_one_that_its_owner_stopped_is_reported_as_failed(scene: Scene) -> None:
    invocation = await scene.held(callback=Callback(HERE, CallbackOn.FAILED), retries=1)
    assert await scene.retry([invocation], 60_000) == [Verdict.DONE]
    assert await pending(scene) == set()
    await scene.cancel(invocation.schedule_id)
    [call] = await scene.claim()
    assert json.loads(call.request.body or b"")["type"] == "schedule.failed"


async def test_the_report(scene: Scene) -> None:
    named = {"lane": "a", "reference": "b", "labels": ("c d", "e")}
    call = await called(scene, FAILED, **named, url=URL + "?token=hush")
    ended = await scene.get(call.schedule_id)
    assert b"hush" not in (call.request.body or b"")
    assert (call.is_callback, call.attempt, call.lane, call.retry) == (True, 1, None, None)
    assert (call.request.method, call.request.url, call.request.retries) == ("POST", HERE, 5)
    report = json.loads(call.request.body or b"")
    at = report["timestamp"]
    assert report == {
        "type": "schedule.failed",
        "timestamp": at,
        "data": {
            "scheduleId": call.schedule_id,
            "invocationId": "inv_" + call.schedule_id[4:],
            "lane": "a",
            "reference": "b",
            "labels": ["c d", "e"],
            "targetUrl": masked_url(URL + "?token=hush"),
            "targetMethod": "POST",
            "triggerAt": report["data"]["triggerAt"],
            "executedAt": at,
            "status": "failed",
            "statusCode": 503,
            "responseTimeMs": 30,
            "errorMessage": "Service Unavailable",
            "attempts": 1,
        },
    }
    assert ended.ended_at_ms == call.due_at_ms


@pytest.mark.parametrize(("outcome", "kept_ms"), [(COMPLETED, DAY_MS), (FAILED, 7 * DAY_MS)])
async def test_a_schedule_is_kept_from_the_end_of_its_callback_on(
    scene: Scene, outcome: Outcome, kept_ms: int
) -> None:
    weight = 0
    for reference in (None, "b"):
        call = await called(scene, outcome, reference=reference, lane="a")
        assert await ttl_ms(scene, call.schedule_id) == -1
        assert await expiring(scene) == weight
        before = await scene.store.accounts.stored_bytes(scene.account_id)
        assert await scene.answer(call, FAILED, 1) == Verdict.DONE
        assert await ttl_ms(scene, call.schedule_id) == -1
        await scene.clock.pass_ms(60)
        again = await scene.claim_one()
        assert again.schedule_id == call.schedule_id
        assert await scene.answer(again) == Verdict.DONE
        assert kept_ms - 5000 < await ttl_ms(scene, call.schedule_id) <= kept_ms
        assert await scene.store.accounts.stored_bytes(scene.account_id) == before
        weight = await expiring(scene)
        assert weight == before


async def test_attempts_of_a_callback(scene: Scene) -> None:
    call = await called(scene)
    assert await scene.answer(call, FAILED, 100) == Verdict.DONE
    state = await state_of(scene, call)
    assert (state.status, state.attempts, state.status_code) == (CallbackStatus.PENDING, 1, 503)
    assert await scene.answer(call, FAILED, 100) in (Verdict.ENDED, Verdict.HELD)
    assert await scene.claim() == []
    await scene.clock.pass_ms(110)
    again = await scene.claim_one()
    assert (again.attempt, again.retry and again.retry.number) == (2, 1)
    assert again.due_at_ms == state.next_attempt_at_ms
    assert again.request.body == call.request.body
    assert await scene.answer(call) == Verdict.HELD
    assert await scene.answer(again, FAILED) == Verdict.DONE
    assert await scene.answer(again, FAILED) == Verdict.ENDED
    state = await state_of(scene, call)
    assert (state.status, state.attempts, state.next_attempt_at_ms) == ("failed", 2, None)
    assert await scene.claim() == []


async def test_the_lease_of_a_callback(scene: Scene) -> None:
    """It is prolonged, given back, and taken over when it has ended."""
    call = await called(scene)
    assert await scene.claim(ahead_ms=2 * LEASE_MS) == []
    assert await scene.extend(LEASE_MS, [call]) == []
    await scene.release([call])
    again = await scene.claim_one()
    assert (again.schedule_id, again.attempt) == (call.schedule_id, 1)
    await scene.release([again])
    lost = await scene.claim_one(lease_ms=5)
    await scene.clock.pass_ms(10)
    # A claim that was asked for before the lease ended, or by a worker that gives grace.
    assert await scene.claim(take_over_by_ms=0) == []
    other = await scene.claim_one()
    assert (other.schedule_id, other.attempt) == (call.schedule_id, 1)
    assert await scene.extend(LEASE_MS, [lost]) == [lost]
    assert await scene.answer(lost) == Verdict.HELD
    assert await scene.answer(other) == Verdict.DONE
    for name in (keys.CALLBACKS, keys.CALLING):
        assert await scene.redis.exists(scene.base + name) == 0
    shard = keys.shard(scene.shard)
    await scene.redis.zadd(shard + keys.CALLBACK_HEADS, {scene.account_id[7:]: 1})
    await scene.redis.zadd(shard + keys.HEADS, {keys.CALLBACK_TURN: 1, scene.account_id[7:]: 1})
    assert await scene.claim() == []
    assert await scene.redis.exists(shard + keys.CALLBACK_HEADS, shard + keys.HEADS) == 0


async def test_a_tenth_of_a_claim_and_64_that_run(scene: Scene) -> None:
    await scene.ended(70)
    await scene.release([each for each in await scene.claim() if each.is_callback])
    await scene.create_many(100, 1)
    found = await scene.claim(most=100)
    assert [each.is_callback for each in found].count(True) == 10
    assert len(found) == 100
    await scene.release(found)
    calls = list[Invocation]()
    for _ in range(20):
        found = await scene.claim(most=120)
        calls += [each for each in found if each.is_callback]
        await scene.ack([each for each in found if not each.is_callback])
    assert len(calls) == 64
    look = (await scene.look()).next_look_ms
    assert look > await scene.clock.now_ms() + 1000
    await scene.answer(calls[0])
    assert len(await scene.claim()) == 1


async def calling(scene: Scene) -> list[Invocation]:
    """All the callbacks that claims bring now."""
    calls: list[Invocation] = []
    while more := await scene.claim():
        calls += more
    return calls


async def test_failed_attempts_keep_their_places_for_a_moment(fake_scene: Scene) -> None:
    """Callbacks of an account fail 50 times a second at most, and start one by one while most
    fail. A delivered one makes room at once."""
    scene, far_ms = fake_scene, fake_scene.clock.ms + HOUR_MS
    await scene.ended(140)
    await scene.clock.pass_ms(LEASE_MS + 1)  # of those that came with the schedules

    async def record(calls: list[Invocation], outcome: Outcome) -> None:
        due_ms = far_ms if outcome is FAILED else None
        acks = [CallbackAck(call, outcome, due_ms) for call in calls]
        assert set(await scene.store.callbacks.ack(scene.shard, acks)) == {Verdict.DONE}

    await record(await calling(scene), COMPLETED)
    first = await calling(scene)
    assert len(first) == 64
    await record(first[:48], FAILED)
    assert await calling(scene) == []
    assert (await scene.look()).next_look_ms == pytest.approx(scene.clock.ms + 8 * 20, abs=1)
    await scene.clock.pass_ms(7 * 20)
    assert await calling(scene) == [], "a claim for each would cost more than it brings"
    await scene.clock.pass_ms(20)
    held = await calling(scene)
    first_us = held[0].slot_us or 0
    assert first_us // 1000 == scene.clock.ms
    assert [each.slot_us for each in held] == [first_us + 20_000 * n for n in range(8)]
    assert await scene.store.check() == []
    await scene.clock.pass_ms(8 * 20)
    await record(held, COMPLETED)
    rest = await calling(scene)
    assert len(rest) == 4, "there are no more"
    assert {each.slot_us for each in rest} == {None}, "kept places are fewer than free ones"


async def test_an_account_whose_callbacks_fail_is_not_looked_at_in_vain(fake_scene: Scene) -> None:
    """Neither after each outcome nor because workers claim ahead: a claim brings eight."""
    scene, ahead_ms = fake_scene, 50
    await scene.ended(80)
    await scene.clock.pass_ms(LEASE_MS + 1)
    first = await calling(scene)
    acks = [CallbackAck(call, FAILED, scene.clock.ms + HOUR_MS) for call in first]
    await scene.store.callbacks.ack(scene.shard, acks)
    room_at_ms = scene.clock.ms + 8 * 20
    assert (await scene.look()).next_look_ms == pytest.approx(room_at_ms, abs=1)
    await scene.clock.pass_ms(8 * 20 - ahead_ms - 10)
    assert await scene.claim(ahead_ms=ahead_ms) == []
    assert (await scene.look()).next_look_ms == pytest.approx(room_at_ms, abs=1)
    await scene.clock.pass_ms(10)
    assert len(await scene.claim(ahead_ms=ahead_ms)) == 8


async def test_places_that_failed_attempts_keep_leave_nothing_behind(scene: Scene) -> None:
    """Not where nothing is pending, nor after attempts that did not fail."""
    for outcome in (FAILED, COMPLETED):
        assert await scene.answer(await called(scene), outcome) == Verdict.DONE
        assert await scene.redis.exists(scene.base + keys.CALLBACK) == 0
    await scene.answer(await called(scene), FAILED, HOUR_MS)
    assert await scene.redis.hkeys(scene.base + keys.CALLBACK) == [b"failing"]
    await scene.clock.pass_ms(20)
    await scene.answer(await called(scene))
    assert await scene.redis.exists(scene.base + keys.CALLBACK) == 0


async def test_each_attempt_is_kept_until_it_is_sent_again(fake_scene: Scene) -> None:
    """Those before the last one with the beginning of their messages: 60 characters."""
    scene, expected = fake_scene, list[tuple[int, ...]]()
    call = await called(scene)
    for number in range(1, 7):
        failed = replace(FAILED, error_message=f"{number}" + 199 * "é", response_time_ms=number)
        expected.append((number, scene.clock.ms, failed.status_code, number))
        await scene.answer(call, failed, 1000 if number < 6 else None)
        state = await state_of(scene, call)
        assert [msgspec.structs.astuple(each)[:4] for each in state.made] == expected
        assert state.made[-1].error_message == failed.error_message
        short = [f"{each}" + 58 * "é" + "…" for each in range(1, number)]
        assert [each.error_message for each in state.earlier] == short
        assert len(await scene.redis.hget(scene.key(call.schedule_id), "c")) < 1200
        await scene.clock.pass_ms(1000)
        if number < 6:
            call = await scene.claim_one()
    again = await scene.store.callbacks.resend(scene.account_id, call.schedule_id)
    assert again.made == ()
    await scene.answer(await scene.claim_one())
    state = await state_of(scene, call)
    assert [each.number for each in state.made] == [1]


async def test_accounts_share_the_tenth(scene: Scene) -> None:
    """And with many accounts' callbacks due, a claim of one account's schedules is as large."""
    neighbours = await scene.neighbours(3)
    for account_id in neighbours:
        for _ in range(3):
            await scene.create(account_id=account_id, callback=OWN)
    held = [each for each in await scene.claim() if not each.is_callback]
    assert await scene.ack(held) == [Verdict.DONE] * 9
    await scene.create_many(100, 1)
    for _ in range(3):
        found = await scene.claim(most=30, most_accounts=2)
        calls = Counter(each.account_id for each in found if each.is_callback)
        assert len(found) == 30
        assert (sum(calls.values()), len(calls)) == (3, 2)


async def test_a_claim_of_one_serves_both(scene: Scene) -> None:
    await scene.ended(3)
    await scene.create_many(3, 1)
    kinds = [(await scene.claim_one(most=1)).is_callback for _ in range(6)]
    assert kinds in ([False, True] * 3, [True, False] * 3)


async def test_a_suspension_stops_callbacks_and_a_pause_does_not(scene: Scene) -> None:
    await scene.ended(1)
    await scene.store.changes.suspend(scene.account_id)
    assert await scene.claim() == []
    await scene.store.changes.resume(scene.account_id)
    call = await scene.claim_one()
    await scene.pause()
    await scene.release([call])
    call = await scene.claim_one()
    await scene.store.changes.suspend(scene.account_id)
    assert await scene.answer(call, FAILED, 1) == Verdict.DONE
    await scene.clock.pass_ms(5)
    assert await scene.claim() == []
    await scene.store.changes.resume(scene.account_id)
    assert (await scene.claim_one()).is_callback


async def test_accounts_that_are_passed_over_keep_their_callbacks(scene: Scene) -> None:
    await scene.ended(1)
    batch = await scene.batch(pass_over=[scene.account_id])
    assert (batch.invocations, batch.next_look_ms) == ([], None)
    assert len(await scene.claim()) == 1


@pytest.mark.harmed
async def test_a_deletion_drops_callbacks(scene: Scene) -> None:
    await scene.ended(2)
    await set_default(scene)
    [*_, call] = await scene.claim()
    await scene.store.changes.delete(scene.account_id)
    assert await scene.answer(call) in (Verdict.ENDED, Verdict.HELD)
    assert await scene.claim() == []
    shard = keys.shard(scene.shard)
    assert await scene.redis.keys(scene.base + "*") == []
    assert await scene.redis.exists(shard + keys.CALLBACK_HEADS) == 0


async def test_a_replay_does_not_shorten_the_life_of_a_pending_callback(scene: Scene) -> None:
    made = await scene.run(FAILED, callback=OWN)
    await scene.store.schedules.replay(
        scene.account_id, made, lambda old: replace(old.request, replay_of=made)
    )
    assert await ttl_ms(scene, made) == -1
    [call] = [each for each in await scene.claim() if each.is_callback]
    assert await scene.answer(call) == Verdict.DONE
    assert DAY_MS - 5000 < await ttl_ms(scene, made) <= DAY_MS


RESENT = [
    # what the schedule says, whether the account has a default, the URL given, where it goes
    (OWN, False, None, HERE),
    (OWN, True, NEW, NEW),
    (Callback(HERE, CallbackOn.FAILED), False, None, HERE),
    (None, True, None, DEFAULT),
    (None, False, NEW, NEW),
    (None, False, None, None),
    (Callback(""), True, None, None),
    (Callback(""), True, NEW, NEW),
]


@pytest.mark.parametrize(("wish", "default", "url", "goes_to"), RESENT)
async def test_a_callback_is_sent_again(
    scene: Scene, wish: Callback | None, default: bool, url: str | None, goes_to: str | None
) -> None:
    made = await scene.run(FAILED, callback=wish, reference="b")
    for call in await scene.claim():
        assert await scene.answer(call, FAILED) == Verdict.DONE
    if default:
        await set_default(scene)
    ttl, resend = await ttl_ms(scene, made), scene.store.callbacks.resend
    if goes_to is None:
        with pytest.raises(InvalidRequest, match="callbackUrl: It is needed"):
            await resend(scene.account_id, made, url)
        assert ttl - 60_000 < await ttl_ms(scene, made) <= ttl
        return
    for _ in range(2):  # a repeat changes nothing
        again = await resend(scene.account_id, made, url, "an operation")
        assert (again.status, again.attempts) == ("pending", 0)
        assert again == (await scene.get(made)).callback
        assert await ttl_ms(scene, made) == -1
        assert await expiring(scene) == 0
    with pytest.raises(Conflict, match="pending already"):
        await resend(scene.account_id, made, url)
    call = await scene.claim_one()
    assert (call.request.url, call.attempt, call.retry) == (goes_to, 1, None)
    assert await scene.answer(call) == Verdict.DONE
    assert (await state_of(scene, call)).status is CallbackStatus.DELIVERED
    assert 7 * DAY_MS - 60_000 < await ttl_ms(scene, made) <= 7 * DAY_MS
    assert await expiring(scene) == await scene.store.accounts.stored_bytes(scene.account_id)


async def test_only_what_was_executed_is_sent_again(scene: Scene) -> None:
    waiting, cancelled = [await scene.create(60_000, callback=OWN) for _ in range(2)]
    await scene.cancel(cancelled)
    resend = scene.store.callbacks.resend
    for schedule_id, words in ((waiting, "not ended yet"), (cancelled, "cancelled already")):
        with pytest.raises(Conflict, match=words):
            await resend(scene.account_id, schedule_id)
    with pytest.raises(UnknownSchedule):
        await resend(scene.account_id, new_id())


async def test_callbacks_are_sent_again_at_a_rate(fake_scene: Scene, fake_clock: FakeClock) -> None:
    """50 a second, at once at first. What is refused costs nothing, nor does a repeat."""
    scene, resend = fake_scene, fake_scene.store.callbacks.resend
    ended_call = await called(scene)
    await scene.answer(ended_call)
    made = ended_call.schedule_id
    for number in range(50):
        await resend(scene.account_id, made, operation=f"{number}")
        await resend(scene.account_id, made, operation=f"{number}")
        with pytest.raises(Conflict):
            await resend(scene.account_id, made)
        await scene.answer(await scene.claim_one())
    before = await scene.redis.dump(scene.base + keys.RESENDS)
    for _ in range(3):
        with pytest.raises(TooManyResends, match="sent again; try again in 1 s"):
            await resend(scene.account_id, made, NEW)
    assert await scene.redis.dump(scene.base + keys.RESENDS) == before
    assert (await scene.get(made)).request.callback == OWN
    await fake_clock.pass_ms(20)
    assert (await resend(scene.account_id, made)).attempts == 0
    await fake_clock.pass_ms(HOUR_MS)
    assert not await scene.redis.exists(scene.base + keys.RESENDS)


async def test_a_dead_letter_that_is_dropped_keeps_its_callback(scene: Scene) -> None:
    """One too many leaves the list at once; it is forgotten when others are, after its callback."""
    ends = scene.store.ends
    ends._retention = ends._retention._replace(failed_most=1)
    made = []
    for _ in range(3):
        await scene.create(callback=OWN, reference="b")
        [held] = [each for each in await scene.claim() if not each.is_callback]
        await scene.ack([held], FAILED)
        made.append(held.schedule_id)
        await scene.clock.pass_ms(2)
    assert await scene.redis.zcard(scene.base + keys.FAILED) == 1
    assert [await ttl_ms(scene, each) for each in made] == [-1] * 3
    await scene.redis.delete(scene.base + keys.CALLING)
    await scene.redis.zadd(scene.base + keys.CALLBACKS, {each[4:]: 1.5 for each in made})
    await scene.redis.zadd(keys.shard(scene.shard) + keys.CALLBACK_HEADS, {scene.account_id[7:]: 1})
    await scene.redis.zadd(keys.shard(scene.shard) + keys.HEADS, {keys.CALLBACK_TURN: 1})
    for call in await scene.claim():
        assert await scene.answer(call) == Verdict.DONE
    days = [round(await ttl_ms(scene, each) / DAY_MS) for each in made]
    assert days == [1, 1, 7]


@pytest.mark.harmed
async def test_a_call_records_many_and_each_once(scene: Scene) -> None:
    await scene.ended(4)
    gone, again, over, damaged = calls = [each for each in await scene.claim() if each.is_callback]
    await scene.redis.delete(scene.key(gone.schedule_id), scene.key(damaged.schedule_id))
    await scene.redis.set(scene.key(damaged.schedule_id), "")
    due_ms = await scene.clock.now_ms() + 60_000
    acks = [CallbackAck(each, FAILED, due_ms if each is again else None) for each in calls]
    found = await scene.store.callbacks.ack(scene.shard, [*acks, acks[1], acks[2]])
    done, lost = Verdict.DONE, Verdict.ENDED
    assert found == [done, done, done, Verdict.DAMAGED, lost, lost]
    assert await pending(scene) == {again.schedule_id, damaged.schedule_id}
    assert await ttl_ms(scene, over.schedule_id) > 0
    assert await scene.store.callbacks.ack(scene.shard, acks[1:3]) == [lost] * 2


async def test_a_long_story_of_a_callback_weighs_in_the_quota_until_it_is_sent_again(
    scene: Scene,
) -> None:
    said = replace(FAILED, error_message="m" * 60)
    call = await called(scene)
    before = await scene.store.accounts.stored_bytes(scene.account_id)
    for wait_ms in (-1, -1, -1, -1, -1, None):
        await scene.answer(call, said, wait_ms)
        call = await scene.claim_one() if wait_ms else call
    story = await scene.redis.hstrlen(scene.key(call.schedule_id), "c")
    assert story > 400
    weighs = scene.store.accounts.stored_bytes
    assert await weighs(scene.account_id) == before + story - 128
    assert await scene.store.check() == []
    await scene.store.callbacks.resend(scene.account_id, call.schedule_id)
    assert await weighs(scene.account_id) == before
