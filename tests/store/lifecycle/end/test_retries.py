"""A schedule between two attempts: where it stands, what may happen to it, and how it ends."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.errors import Conflict
from scheduler.models import LogStatus, Outcome, Phases, Status
from scheduler.store import keys
from scheduler.store.lifecycle.end.end_rows import Ack
from scheduler.store.queries.listing import Selection
from scheduler.store.verdict import Verdict
from tests.store.lifecycle.end.dead_letters import letter_ids, replay, verdicts
from tests.store.scene import (
    COMPLETED,
    CREDITS,
    FAILED,
    Holdings,
    Scene,
    after_the_first_read,
)

pytestmark = pytest.mark.sound
WAIT_MS = 40
PHASES = Phases(3, 20, 31, 40, 1)
ENDED = Outcome(Status.FAILED, 500, 7, "Internal Server Error")


async def retried(scene: Scene, wait_ms: int = 60_000, times: int = 1) -> str:
    """A schedule whose first attempts have failed, and that waits for its next one."""
    schedule_id = await scene.create()
    for n in range(times):
        wait = wait_ms if n == times - 1 else 0
        assert await scene.retry([await scene.claim_one()], wait) == [1]
    return schedule_id


@pytest.mark.time_passes
async def test_after_an_attempt_that_failed_it_waits_for_the_next_one(scene: Scene) -> None:
    schedule_id = await scene.create()
    before = await scene.get(schedule_id)
    assert (before.attempts, before.retry) == (0, None)
    failed_ms = await scene.clock.now_ms()
    assert await scene.retry([await scene.claim_one()], WAIT_MS) == [1]
    found = await scene.get(schedule_id)
    assert (found.status, found.executing, found.outcome) == (Status.SCHEDULED, False, None)
    retry = found.retry
    assert (found.attempts, retry.number, retry.attempts, retry.outcome) == (1, 1, 1, FAILED)
    assert failed_ms <= retry.failed_at_ms <= await scene.clock.now_ms()
    assert failed_ms <= retry.due_at_ms - WAIT_MS <= await scene.clock.now_ms()
    assert await scene.visible_at_ms(schedule_id) == retry.due_at_ms
    await scene.claim_nothing_before(retry.due_at_ms)
    await scene.clock.pass_ms(WAIT_MS + 1)
    again = await scene.claim_one()
    assert (again.schedule_id, again.attempt, again.retry) == (schedule_id, 2, retry)
    assert again.due_at_ms == retry.due_at_ms


async def test_its_end_leaves_nothing_of_its_attempts_but_their_number(scene: Scene) -> None:
    for outcome in (COMPLETED, ENDED):
        schedule_id = await retried(scene, 0, times=2)
        assert await scene.ack([await scene.claim_one()], outcome) == [1]
        found = await scene.get(schedule_id)
        assert (found.status, found.outcome) == (outcome.status, outcome)
        assert (found.attempts, found.retry) == (3, None)
        assert set(await scene.redis.hkeys(scene.key(schedule_id))) == {b"r", b"o"}
        with pytest.raises(Conflict):  # it was not stopped
            await scene.cancel(schedule_id)
    assert not await scene.redis.exists(scene.base + keys.TRIED)
    usage = await scene.store.stats.usage(scene.account_id, 0, 2**52)
    assert (usage.completed, usage.failed, usage.total_response_time_ms) == (1, 1, 12 + 7)
    assert (await scene.holdings()).spent == 2


async def test_the_log_tells_each_attempt_and_statistics_the_last(scene: Scene) -> None:
    schedule_id = await retried(scene, 0, times=2)
    assert await scene.ack([await scene.claim_one()], ENDED) == [1]
    final, second, first = await scene.log()
    assert [each.status for each in (first, second, final)] == ["retrying", "retrying", "failed"]
    assert [each.attempt for each in (first, second, final)] == [1, 2, 3]
    nexts = [each.next_attempt_at_ms is not None for each in (first, second, final)]
    assert nexts == [True, True, False]
    assert first.executed_at_ms is not None
    assert (first.status_code, first.response_time_ms) == (503, 30)
    assert first.error_message == "Service Unavailable"
    assert await scene.log(statuses=[LogStatus.RETRYING]) == [second, first]
    assert await scene.log(statuses=[LogStatus.FAILED]) == [final]
    assert {each.schedule_id for each in await scene.log(url=final.url)} == {schedule_id}
    await scene.store.tick()
    # By rollups, and by reading the log where a bound cuts a second.
    at_ms = final.at_ms
    for from_ms, to_ms in ((0, at_ms + 60_000), (0, at_ms + 1), (first.at_ms, at_ms + 1)):
        usage = await scene.store.stats.usage(scene.account_id, from_ms, to_ms)
        assert (usage.completed, usage.failed, usage.total_response_time_ms) == (0, 1, 7)
    assert (await scene.store.stats.usage(scene.account_id, 0, at_ms)).executed == 0


async def test_between_attempts_it_is_listed_at_its_next_one(scene: Scene) -> None:
    schedule_id = await retried(scene)
    waiting, attempt = await scene.log()
    assert (waiting.status, attempt.status) == (LogStatus.SCHEDULED, LogStatus.RETRYING)
    assert waiting.schedule_id == attempt.schedule_id == schedule_id
    assert (waiting.attempt, attempt.attempt, waiting.executed_at_ms) == (1, 1, None)
    assert waiting.at_ms == waiting.next_attempt_at_ms == attempt.next_attempt_at_ms
    assert await scene.log(statuses=[LogStatus.SCHEDULED]) == [waiting]
    assert await scene.log(from_ms=waiting.at_ms, to_ms=waiting.at_ms + 1) == [waiting]
    soon, later = await scene.create(30_000), await scene.create(90_000)
    page = await scene.store.unended.page(scene.account_id, Selection())
    assert [each.schedule_id for each in page.schedules] == [soon, schedule_id, later]
    assert page.schedules[1] == await scene.get(schedule_id)
    assert [each.attempts for each in page.schedules] == [0, 1, 0]
    assert await letter_ids(scene) == []
    assert verdicts(await replay(scene, [schedule_id])) == [Verdict.NOT_ENDED]


async def test_ends_and_retries_of_one_call_are_both_recorded(scene: Scene) -> None:
    made = [await scene.create() for _ in range(4)]
    claimed = await scene.claim()
    due_ms = await scene.clock.now_ms() + 60_000
    acks = [
        Ack(each, FAILED, 0, due_ms) if n % 2 else Ack(each, COMPLETED, 0)
        for n, each in enumerate(claimed)
    ]
    assert await scene.store.ends.ack(scene.shard, acks) == [1] * 4
    assert await scene.store.ends.ack(scene.shard, acks) == [0] * 4
    statuses = [await scene.status(each.schedule_id) for each in claimed]
    assert statuses == ["completed", "scheduled"] * 2
    assert {each.schedule_id for each in claimed} == set(made)


async def test_a_cancellation_between_attempts_stops_the_rest_and_refunds_nothing(
    scene: Scene,
) -> None:
    schedule_id = await retried(scene, times=2)
    cancelled = await scene.cancel(schedule_id)
    assert cancelled.credits == CREDITS - 1
    assert (cancelled.each[0].stopped.attempts, cancelled.each[0].stopped.outcome) == (2, FAILED)
    found = await scene.get(schedule_id)
    assert (found.status, found.outcome, found.attempts) == (Status.FAILED, FAILED, 2)
    assert set(await scene.redis.hkeys(scene.key(schedule_id))) == {b"r", b"o"}
    final = (await scene.log())[0]
    assert (final.status, final.status_code, final.attempt) == (LogStatus.FAILED, 503, 2)
    assert final.executed_at_ms == found.ended_at_ms
    log = {"failed": 1, "retrying": 2}
    assert await scene.holdings() == Holdings(CREDITS - 1, 1, 0, 0, log)
    usage = await scene.store.stats.usage(scene.account_id, 0, 2**52)
    assert (usage.failed, usage.total_response_time_ms) == (1, 30)
    assert await scene.claim() == []
    again = await scene.cancel(schedule_id)
    assert again.each == [cancelled.each[0]._replace(repeated=True)]
    assert again.credits == CREDITS - 1
    assert await letter_ids(scene) == [schedule_id]
    assert verdicts(await replay(scene, [schedule_id])) == [Verdict.DONE]
    assert await letter_ids(scene) == []


@pytest.mark.parametrize("before", [0, 1])
async def test_a_cancellation_that_read_it_before_an_attempt_tells_that_one_and_refunds_nothing(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    """By the time that it writes, there was one more than it has read of."""
    schedule_id = await retried(scene, 0, before)

    async def it_is_attempted() -> None:
        assert await scene.retry([await scene.claim_one()], 60_000) == [1]

    after_the_first_read(monkeypatch, it_is_attempted)
    cancelled = await scene.cancel(schedule_id)
    assert cancelled.credits == CREDITS - 1
    assert cancelled.each[0].stopped.attempts == before + 1


async def test_how_long_its_parts_took_is_kept_of_each_attempt(scene: Scene) -> None:
    first = msgspec.structs.replace(FAILED, phases=Phases(None, 30_000))
    schedule_id = await scene.create()
    await scene.retry([await scene.claim_one()], 0, first)
    waiting = await scene.get(schedule_id)
    assert waiting.retry.outcome.phases == first.phases
    listed = await scene.store.unended.page(scene.account_id, Selection())
    assert listed.schedules == [waiting]
    again = await scene.claim_one()
    await scene.ack([again], msgspec.structs.replace(COMPLETED, phases=PHASES))
    ended = await scene.get(schedule_id)
    assert ended.outcome.phases == PHASES
    assert [each.phases for each in await scene.log()] == [PHASES, first.phases]
