"""Acks: an outcome is recorded once, by who holds the schedule, with all that goes with it."""

from __future__ import annotations

from bisect import bisect_left

import pytest

from scheduler.models import Outcome, Status
from scheduler.rollups import CREATED, LATENESS_BOUNDS_MS, RESPONSE_BOUNDS_MS
from scheduler.store.lifecycle.end_rows import Ack
from scheduler.store.log.entries import url_place
from scheduler.store.verdict import Verdict
from tests.plain import redis_of
from tests.scheduler.scene import COMPLETED, CREDITS, FAILED, URL, Holdings, Scene


@pytest.mark.parametrize("outcome", [COMPLETED, FAILED], ids=["completed", "failed"])
async def test_an_ack_ends_the_schedule_and_logs_it(scene: Scene, outcome: Outcome) -> None:
    schedule_id = await scene.run(outcome)
    stored = await scene.store.schedules.get(scene.account_id, schedule_id)
    assert (stored.status, stored.outcome, stored.executing) == (outcome.status, outcome, False)
    [entry] = await scene.log()
    assert entry.executed_at_ms == stored.ended_at_ms
    assert (entry.schedule_id, entry.status) == (schedule_id, outcome.status)
    assert (entry.status_code, entry.response_time_ms) == (
        outcome.status_code,
        outcome.response_time_ms,
    )
    assert (entry.error_message, entry.url, entry.method) == (outcome.error_message, URL, "POST")
    assert (entry.created_at_ms, entry.scheduled_at_ms) == (
        stored.created_at_ms,
        stored.request.trigger_at_ms,
    )
    log = {str(outcome.status): 1}
    assert await scene.holdings() == Holdings(CREDITS - 1, 1, 0, 0, log)
    assert await scene.claim() == []
    await scene.assert_sound()


async def test_a_second_ack_is_not_counted(scene: Scene) -> None:
    await scene.create()
    invocation = await scene.claim_one()
    assert await scene.ack([invocation, invocation]) == [1, 0]
    assert await scene.ack([invocation], FAILED) == [0]
    assert await scene.holdings() == Holdings(CREDITS - 1, 1, 0, 0, {"completed": 1})
    await scene.assert_sound()


@pytest.mark.time_passes
async def test_an_ack_by_a_lost_token_is_refused(scene: Scene) -> None:
    schedule_id = await scene.create()
    first = await scene.claim_one(lease_ms=5)
    await scene.clock.pass_ms(6)
    second = await scene.claim_one()
    assert await scene.ack([first]) == [Verdict.HELD]
    assert await scene.status(schedule_id) == Status.SCHEDULED
    assert await scene.ack([second], FAILED) == [1]
    assert await scene.ack([first]) == [0]
    assert await scene.holdings() == Holdings(CREDITS - 1, 1, 0, 0, {"failed": 1})
    await scene.assert_sound()


@pytest.mark.time_passes
async def test_an_ack_after_the_leases_end_is_taken_if_nobody_took_over(scene: Scene) -> None:
    await scene.create()
    invocation = await scene.claim_one(lease_ms=5)
    await scene.clock.pass_ms(10)
    assert await scene.ack([invocation]) == [1]
    assert await scene.claim() == []
    await scene.assert_sound()


async def test_an_ack_of_what_was_given_back_is_refused(scene: Scene) -> None:
    schedule_id = await scene.create()
    invocation = await scene.claim_one()
    await scene.store.claims.release(scene.shard, [invocation])
    assert await scene.ack([invocation]) == [Verdict.HELD]
    assert await scene.status(schedule_id) == Status.SCHEDULED
    await scene.assert_sound()


async def test_an_ack_of_what_is_long_gone_changes_nothing(scene: Scene) -> None:
    schedule_id = await scene.run()
    await scene.create()
    invocation = await scene.claim_one()
    await redis_of(scene.store).delete(f"{scene.base}s:{schedule_id[4:]}")
    invocation.schedule_id = schedule_id
    before = await scene.holdings()
    assert await scene.ack([invocation]) == [Verdict.HELD]
    assert await scene.holdings() == before


async def test_one_batch_of_acks_serves_several_accounts(scene: Scene) -> None:
    others = [await scene.account(f"other {n}") for n in range(4)]
    local = [each for each in others if each.startswith(f"acc_{scene.shard:02d}")]
    assert local
    for account_id in [scene.account_id, *local] * 3:
        await scene.create(account_id=account_id)
    invocations = await scene.claim()
    outcomes = [COMPLETED if n % 2 else FAILED for n in range(len(invocations))]
    acks = [Ack(*pair, 0) for pair in zip(invocations, outcomes, strict=True)]
    assert await scene.store.ends.ack(scene.shard, acks) == [1] * len(acks)
    now_ms = await scene.clock.now_ms() + 1
    for account_id in [scene.account_id, *local]:
        usage = await scene.store.stats.usage(account_id, 0, now_ms)
        assert usage.executed == 3
    await scene.assert_sound()


async def test_a_large_batch_is_recorded_whole(scene: Scene) -> None:
    count = 2500
    await scene.create_many(count, await scene.clock.now_ms() - 1)
    invocations = await scene.claim(most=count)
    assert await scene.ack(invocations) == [1] * count
    assert (await scene.holdings()).log == {"completed": count}
    await scene.assert_sound()


async def test_the_log_entrys_id_is_its_moment_everywhere(scene: Scene) -> None:
    """Log, indexes, the schedule's end and the rollups' buckets all come from one number."""
    schedule_id = await scene.run(FAILED)
    client = redis_of(scene.store)
    [(stream_id, _)] = await client.xrange(scene.base + "log")
    at_ms = int(stream_id.split(b"-")[0])
    bucket, digest = url_place(URL)
    assert await client.xrange(scene.base + "index:failed") == [(stream_id, {b"h": b""})]
    assert await client.xrange(f"{scene.base}index:{bucket}") == [(stream_id, {b"h": digest})]
    stored = await scene.store.schedules.get(scene.account_id, schedule_id)
    assert stored.ended_at_ms == at_ms
    second = at_ms // 1000
    expected = {
        f"minute:{second // 60}": (second % 60, False),
        f"hour:{second // 3600}": (second // 60 % 60, True),
        f"day:{second // 86400}": (second // 3600 % 24, True),
    }
    for name, (field, with_spread) in expected.items():
        rollup = {
            name.decode(): int(value)
            for name, value in (await client.hgetall(scene.base + name)).items()
            if name[:1].isdigit() and not name.endswith(CREATED.encode())
        }
        bucket = bisect_left(RESPONSE_BOUNDS_MS, FAILED.response_time_ms)
        spread = {f"{field}b0": 1, f"{field}r{bucket}": 1} if with_spread else {}
        assert rollup == {f"{field}f": 1, f"{field}t": FAILED.response_time_ms} | spread


async def test_lateness_is_counted_in_its_bucket(scene: Scene) -> None:
    lateness = [-5, 0, 1, 2, 3, 60_000, 60_001, 10**9]
    for late_ms in lateness:
        await scene.create()
        await scene.ack([await scene.claim_one()], late_ms=late_ms)
    buckets: dict[int, int] = {}
    async for key in redis_of(scene.store).scan_iter(match=scene.base + "day:*"):
        for name, value in (await redis_of(scene.store).hgetall(key)).items():
            _, is_bucket, number = name.decode().partition("b")
            if is_bucket and number.isdigit():
                buckets[int(number)] = buckets.get(int(number), 0) + int(value)
    last = len(LATENESS_BOUNDS_MS)
    assert buckets == {0: 2, 1: 1, 2: 1, 3: 1, last - 2: 1, last - 1: 1, last: 1}
