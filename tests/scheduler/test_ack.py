"""Acks: an outcome is recorded once, by who holds the schedule, with all that goes with it."""

from __future__ import annotations

from bisect import bisect_left

import pytest

from scheduler.models import Outcome, Status
from scheduler.rollups import CREATED, RESPONSE_BOUNDS_MS
from scheduler.store.log.entries import url_place
from scheduler.store.verdict import Verdict
from tests.scheduler.scene import COMPLETED, CREDITS, FAILED, URL, Holdings, Scene

pytestmark = pytest.mark.sound


@pytest.mark.parametrize("outcome", [COMPLETED, FAILED], ids=["completed", "failed"])
async def test_an_ack_ends_the_schedule_and_logs_it(scene: Scene, outcome: Outcome) -> None:
    schedule_id = await scene.run(outcome)
    stored = await scene.get(schedule_id)
    assert (stored.status, stored.outcome, stored.executing) == (outcome.status, outcome, False)
    [entry] = await scene.log()
    assert (entry.schedule_id, entry.url, entry.method) == (schedule_id, URL, "POST")
    assert (entry.created_at_ms, entry.scheduled_at_ms, entry.executed_at_ms) == (
        stored.created_at_ms,
        stored.request.trigger_at_ms,
        stored.ended_at_ms,
    )
    assert (entry.status, entry.status_code) == (outcome.status, outcome.status_code)
    assert entry.response_time_ms == outcome.response_time_ms
    assert entry.error_message == outcome.error_message
    log = {str(outcome.status): 1}
    assert await scene.holdings() == Holdings(CREDITS - 1, 1, 0, 0, log)
    assert await scene.claim() == []


async def test_a_second_ack_is_not_counted(scene: Scene) -> None:
    invocation = await scene.held()
    assert await scene.ack([invocation, invocation]) == [1, 0]
    assert await scene.ack([invocation], FAILED) == [0]
    assert await scene.holdings() == Holdings(CREDITS - 1, 1, 0, 0, {"completed": 1})


@pytest.mark.time_passes
async def test_an_ack_by_a_lost_token_is_refused(scene: Scene) -> None:
    first = await scene.lapsed()
    second = await scene.claim_one()
    assert await scene.ack([first]) == [Verdict.HELD]
    assert await scene.status(first.schedule_id) == Status.SCHEDULED
    assert await scene.ack([second], FAILED) == [1]
    assert await scene.ack([first]) == [0]
    assert await scene.holdings() == Holdings(CREDITS - 1, 1, 0, 0, {"failed": 1})


@pytest.mark.time_passes
async def test_an_ack_after_the_leases_end_is_taken_if_nobody_took_over(scene: Scene) -> None:
    assert await scene.ack([await scene.lapsed()]) == [1]
    assert await scene.claim() == []


async def test_an_ack_of_what_was_given_back_is_refused(scene: Scene) -> None:
    invocation = await scene.held()
    await scene.release([invocation])
    assert await scene.ack([invocation]) == [Verdict.HELD]
    assert await scene.status(invocation.schedule_id) == Status.SCHEDULED


@pytest.mark.harmed
async def test_an_ack_of_what_is_long_gone_changes_nothing(scene: Scene) -> None:
    schedule_id = await scene.run()
    invocation = await scene.held()
    await scene.redis.delete(scene.key(schedule_id))
    invocation.schedule_id = schedule_id
    before = await scene.holdings()
    assert await scene.ack([invocation]) == [Verdict.HELD]
    assert await scene.holdings() == before


async def test_a_large_batch_is_recorded_whole(scene: Scene) -> None:
    count = 2500
    await scene.create_many(count, await scene.clock.now_ms() - 1)
    invocations = await scene.claim(most=count)
    assert await scene.ack(invocations) == [1] * count
    assert (await scene.holdings()).log == {"completed": count}


async def test_the_log_entrys_id_is_its_moment_everywhere(scene: Scene) -> None:
    """Log, indexes, the schedule's end and the rollups' buckets all come from one number."""
    schedule_id = await scene.run(FAILED)
    client = scene.redis
    [(stream_id, _)] = await client.xrange(scene.base + "log")
    at_ms = int(stream_id.split(b"-")[0])
    bucket, digest = url_place(URL)
    assert await client.xrange(scene.base + "index:failed") == [(stream_id, {b"h": b""})]
    assert await client.xrange(f"{scene.base}index:{bucket}") == [(stream_id, {b"h": digest})]
    stored = await scene.get(schedule_id)
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
