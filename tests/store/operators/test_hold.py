"""On hold nothing is claimed; after a restore what may have been fired can be ended instead."""

from __future__ import annotations

import asyncio
import json

import pytest

from scheduler.callbacks import Callback
from scheduler.models import Delivery, Request, Status
from scheduler.recurrence.recurrence import Timing
from scheduler.recurrence.recurring import Draft
from scheduler.store import keys
from scheduler.store.operators.restore import _UNLEASE, NOT_SENT_AGAIN
from scheduler.store.verdict import Verdict
from tests.store.scene import URL, Scene, ids_of
from tests.support.servers import until_async

pytestmark = pytest.mark.sound

MINUTE_MS = 60_000
CALLBACK = Callback("https://example.com/ended")


async def test_on_hold_nothing_is_claimed_and_all_else_goes_on(scene: Scene) -> None:
    held = await scene.held()
    since_ms = await scene.store.hold.begin()
    due, cancelled = await scene.create(), await scene.create(MINUTE_MS)
    batch = await scene.batch()
    assert (batch.invocations, batch.on_hold) == ([], True)
    assert await scene.ack([held]) == [1]
    await scene.cancel(cancelled)
    assert await scene.store.hold.begin() == since_ms, "a repeat begins no other one"
    assert (await scene.store.hold.look()).since_ms == since_ms
    await scene.store.hold.end()
    assert (await scene.store.hold.look()).since_ms is None
    assert ids_of(await scene.claim()) == [due]


async def test_a_recurring_schedule_of_which_something_is_ended_goes_on_from_now(
    fake_scene: Scene,
) -> None:
    """Those of its times that have passed since the backup are not sent, but logged."""
    scene, recurring = fake_scene, fake_scene.store.recurring
    draft = Draft(Request(0, "POST", URL), Timing(every_ms=MINUTE_MS))
    rule = (await recurring.create(scene.account_id, draft)).rule
    await scene.store.hold.begin()
    await scene.clock.pass_ms(10 * MINUTE_MS + 1)
    await scene.store.tick()
    assert await recurring.overdue([scene.shard]) == {scene.shard: 0}
    await scene.store.restore.expire(await scene.clock.now_ms(), lambda _: None)
    assert await scene.status(rule.schedule_id) == Status.FAILED
    after = await recurring.read(scene.account_id, rule.recurring_id)
    assert after.slot_ms == (rule.slot_ms or 0) + 10 * MINUTE_MS
    assert [each.missed for each in await scene.log(statuses=["skipped"])] == [9]
    await scene.store.hold.end()
    assert await scene.claim() == []
    assert await scene.store.check() == []


async def test_what_may_have_been_fired_is_ended_and_the_rest_is_not(scene: Scene) -> None:
    by_ms = await scene.clock.now_ms()
    fired = [await scene.create_at(by_ms - MINUTE_MS), await scene.create_at(by_ms)]
    not_fired = await scene.create_at(by_ms + 1)
    suspended = await scene.account("suspended")
    theirs = await scene.create_at(by_ms - 1, account_id=suspended)
    await scene.store.changes.suspend(suspended)
    await scene.store.hold.begin()
    assert await scene.store.restore.due(by_ms) == 3
    steps: list[int] = []
    await scene.store.restore.expire(by_ms, steps.append)
    assert sum(steps) == 3
    for schedule_id in fired:
        schedule = await scene.get(schedule_id)
        assert (schedule.status, schedule.outcome.error_message) == (Status.FAILED, NOT_SENT_AGAIN)
    assert (await scene.store.schedules.get(suspended, theirs)).status is Status.FAILED
    assert await scene.status(not_fired) == Status.SCHEDULED
    await scene.store.restore.expire(by_ms, steps.append)
    assert sum(steps) == 3, "a repeat finds nothing"
    await scene.store.hold.end()
    assert ids_of(await scene.claim(ahead_ms=1000)) == [not_fired]
    await scene.store.changes.resume(suspended)


async def test_what_was_held_when_the_store_was_saved_is_due_as_before(scene: Scene) -> None:
    """The worker that held it has sent it, or has not."""
    held = await scene.lapsed(delivery=Delivery.AT_MOST_ONCE)
    await scene.store.hold.begin()
    await scene.store.restore.take_back()
    await scene.assert_sound()
    assert await scene.ack([held]) == [Verdict.HELD]
    await scene.store.hold.end()
    again = await scene.claim_one()
    assert (again.schedule_id, again.attempt) == (held.schedule_id, 2)


async def test_a_restore_wakes_no_suspended_account(scene: Scene) -> None:
    by_ms = await scene.clock.now_ms()
    held = (await scene.lapsed()).schedule_id
    ended, waiting = await scene.create_at(by_ms), await scene.create_at(by_ms + 1)
    await scene.store.changes.suspend(scene.account_id)
    await scene.store.hold.begin()
    await scene.store.restore.take_back()
    await scene.store.restore.expire(by_ms, lambda count: None)
    await scene.store.hold.end()
    assert [await scene.status(each) for each in (held, ended)] == [Status.FAILED] * 2
    assert await scene.claim(ahead_ms=1000) == []
    await scene.assert_sound()
    await scene.store.changes.resume(scene.account_id)
    assert ids_of(await scene.claim(ahead_ms=1000)) == [waiting]


async def test_nothing_is_taken_from_a_worker_that_may_be_alive(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.store.operators.restore._LOOK_AGAIN_S", 0)
    held = await scene.held(lease_ms=60_000)
    await scene.store.hold.begin()
    await scene.store.restore.expire(await scene.clock.now_ms(), lambda count: None)
    looks = _UNLEASE.calls
    taken_back = asyncio.create_task(scene.store.restore.take_back())
    await until_async(lambda: _UNLEASE.calls > looks + 3, "some looks")
    assert not taken_back.done()
    assert await scene.ack([held]) == [1]
    await taken_back


async def test_a_restore_gives_back_what_was_held_in_lanes(scene: Scene) -> None:
    """Each lane has its own again, and a claim finds it."""
    made = [await scene.create(lane=lane) for lane in ("a", "b", "a", None)]
    assert sorted(ids_of(await scene.claim(lease_ms=5))) == sorted(made)
    await scene.clock.pass_ms(6)
    assert await scene.store.restore.due(await scene.clock.now_ms()) == 4
    await scene.store.restore.take_back()
    for lane, waiting in (("a", 2), ("b", 1)):
        queue = scene.base + keys.LANE_QUEUE + lane
        counts = [await scene.redis.zcount(queue, *each) for each in ((0, "inf"), ("-inf", "(0"))]
        assert counts == [waiting, 0]
    assert await scene.store.check() == []
    again = {each.schedule_id: each.attempt for each in await scene.claim()}
    assert again == dict.fromkeys(made, 2)


async def test_a_restore_ends_what_was_due_in_lanes_that_hold_it_back(scene: Scene) -> None:
    """Paused, limited and in a paused account; what was due later waits there as before."""
    by_ms = await scene.clock.now_ms()
    await scene.limit("limited", rate=1, per_ms=1000, parallelism=1)
    for lane in ("paused", None):
        await scene.pause(lane)
    ended = [
        await scene.create_at(by_ms - n, lane=lane)
        for lane in ("limited", "paused", None)
        for n in range(3)
    ]
    left = [await scene.create_at(by_ms + 1, lane=lane) for lane in ("limited", "paused")]
    await scene.store.hold.begin()
    await scene.store.restore.expire(by_ms, lambda count: None)
    await scene.store.hold.end()
    assert {await scene.status(each) for each in ended} == {Status.FAILED}
    assert await scene.store.check() == []
    await scene.clock.pass_ms(2)
    assert await scene.claim() == []
    await scene.resume()
    assert ids_of(await scene.claim()) == left[:1]
    await scene.resume("paused")
    assert ids_of(await scene.claim()) == left[1:]


async def test_callbacks_wait_on_hold_and_a_restore_sends_those_of_the_backup(scene: Scene) -> None:
    """A worker may have sent the one that it held as the store was saved: it comes again, under the
    same id. What the restore ends is reported as failed."""
    made = [await scene.run(callback=CALLBACK)]
    [lost] = await scene.claim(lease_ms=5)
    expired = await scene.create_at(await scene.clock.now_ms() - 1, callback=CALLBACK)
    await scene.clock.pass_ms(6)
    await scene.store.hold.begin()
    assert await scene.claim() == []
    await scene.store.restore.take_back()
    await scene.store.restore.expire(await scene.clock.now_ms(), lambda count: None)
    assert await scene.claim() == []
    await scene.store.hold.end()
    calls = await scene.claim()
    calls += await scene.claim()
    assert {each.is_callback for each in calls} == {True}
    assert sorted(ids_of(calls)) == sorted([*made, expired])
    reports = {each.schedule_id: json.loads(each.request.body or b"") for each in calls}
    assert reports[made[0]] == json.loads(lost.request.body or b"")
    assert reports[expired]["data"]["errorMessage"] == NOT_SENT_AGAIN


async def test_a_callback_that_cannot_be_read_is_put_off_and_its_neighbours_are_not(
    scene: Scene,
) -> None:
    bad = await scene.run(callback=CALLBACK)
    state = await scene.redis.hget(scene.key(bad), "c")
    await scene.redis.hset(scene.key(bad), "c", state + b"?")
    batch = await scene.batch()
    [unread] = batch.unread
    assert (unread.invocation.schedule_id, unread.invocation.is_callback) == (bad, True)
    unread.invocation.due_at_ms = await scene.clock.now_ms() + MINUTE_MS
    await scene.release([unread.invocation])
    good = await scene.create(callback=CALLBACK)
    await scene.ack(await scene.claim())
    assert ids_of(await scene.claim()) == [good]
    await scene.redis.hset(scene.key(bad), "c", state)
