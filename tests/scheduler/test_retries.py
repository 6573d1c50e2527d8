"""A schedule between two attempts: where it stands, what may happen to it, and how it ends."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from scheduler.errors import Conflict
from scheduler.models import LogStatus, Outcome, Request, Status
from scheduler.store import keys
from scheduler.store.lifecycle.end_rows import Ack
from scheduler.store.queries.listing import Selection
from scheduler.store.stored import pack_request
from scheduler.store.verdict import Verdict
from tests.scheduler.chunks import logged
from tests.scheduler.letters import letter_ids, replay, verdicts
from tests.scheduler.scene import (
    COMPLETED,
    CREDITS,
    FAILED,
    Holdings,
    Scene,
    after_the_first_read,
    settled,
)

pytestmark = pytest.mark.sound
WAIT_MS = 40
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
    assert await scene.log(status=LogStatus.RETRYING) == [second, first]
    assert await scene.log(status=LogStatus.FAILED) == [final]
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
    assert await scene.log(status=LogStatus.SCHEDULED) == [waiting]
    assert await scene.log(from_ms=waiting.at_ms, to_ms=waiting.at_ms + 1) == [waiting]
    soon, later = await scene.create(30_000), await scene.create(90_000)
    page = await scene.store.unended.page(scene.account_id, Selection())
    assert [each.schedule_id for each in page.schedules] == [soon, schedule_id, later]
    assert page.schedules[1] == await scene.get(schedule_id)
    assert [each.attempts for each in page.schedules] == [0, 1, 0]
    assert await letter_ids(scene) == []
    assert verdicts(await replay(scene, [schedule_id])) == [Verdict.NOT_ENDED]


@pytest.mark.time_passes
async def test_a_lost_worker_counts_as_an_attempt_and_not_as_a_retry(scene: Scene) -> None:
    schedule_id = await retried(scene, 0)
    due_ms = (await scene.claim_one(lease_ms=10)).due_at_ms
    await scene.clock.pass_ms(11)
    taken = await scene.claim_one(lease_ms=10)
    assert (taken.attempt, taken.retry.number, taken.retry.attempts) == (3, 1, 1)
    assert taken.due_at_ms == due_ms
    await scene.clock.pass_ms(11)
    assert await scene.retry([await scene.claim_one()], 0) == [1]
    found = await scene.get(schedule_id)
    assert (found.retry.number, found.retry.attempts, found.attempts) == (2, 4, 4)
    assert (await scene.claim_one()).attempt == 5


async def test_what_is_given_back_waits_for_the_same_moment_with_the_same_number(
    scene: Scene,
) -> None:
    await retried(scene, 20)
    first = await scene.claim_one(ahead_ms=1000)
    await scene.release([first])
    assert await scene.visible_at_ms(first.schedule_id) == first.due_at_ms
    again = await scene.claim_one(ahead_ms=1000)
    assert (again.attempt, again.retry, again.due_at_ms) == (2, first.retry, first.due_at_ms)


async def test_an_attempt_of_a_worker_that_lost_its_lease_is_not_recorded(scene: Scene) -> None:
    """Nor is that of its neighbours in the same step, until it is left out."""
    gone = await scene.lapsed()
    mine = await scene.claim_one()
    neighbour = await scene.held()
    assert await scene.retry([gone, neighbour], 0) == [Verdict.HELD, Verdict.DONE]
    [entry] = await scene.log(status=LogStatus.RETRYING)
    assert entry.schedule_id == neighbour.schedule_id
    assert await scene.ack([mine]) == [1]
    assert await scene.retry([mine], 0) == [0]


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
    with pytest.raises(Conflict) as refused:
        await scene.cancel(schedule_id)
    assert refused.value.status == Status.FAILED
    assert await letter_ids(scene) == [schedule_id]
    assert verdicts(await replay(scene, [schedule_id])) == [Verdict.DONE]
    assert await letter_ids(scene) == []


async def test_while_a_later_attempt_is_made_it_can_neither_be_stopped_nor_changed(
    scene: Scene,
) -> None:
    schedule_id = await retried(scene, 0)
    await scene.claim_one()
    for call in (lambda: scene.cancel(schedule_id), lambda: scene.change(schedule_id)):
        refused = await settled(call)
        assert isinstance(refused, Conflict)
        assert refused.status == Status.SCHEDULED
    assert (await scene.get(schedule_id)).executing


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


async def test_cancellations_that_race_retries_have_one_winner_each(scene: Scene) -> None:
    """Whichever wins, a stopped schedule was attempted and paid for, a cancelled one was not."""
    rounds = 70
    stopped = 0
    for n in range(rounds):
        schedule_id = await scene.create()

        async def attempt() -> None:
            for each in await scene.claim():
                assert await scene.retry([each], 60_000) == [1]

        async def cancel(schedule_id: str = schedule_id, n: int = n) -> bool:
            """Whether it was stopped."""
            for _ in range(n % 7):
                await asyncio.sleep(0)
            while isinstance(result := await settled(lambda: scene.cancel(schedule_id)), Conflict):
                assert result.status == Status.SCHEDULED  # it is being attempted
                await asyncio.sleep(0)
            return result.each[0].stopped is not None

        _, was_stopped = await asyncio.gather(attempt(), cancel())
        stopped += was_stopped
        assert await scene.claim() == []
    assert stopped
    found = await scene.holdings()
    assert (found.spent, found.waiting) == (stopped, 0)
    assert found.log.get("cancelled", 0) == rounds - stopped


async def test_a_new_trigger_time_moves_the_next_attempt_and_nothing_else_does(
    scene: Scene,
) -> None:
    schedule_id = await retried(scene)
    before = await scene.get(schedule_id)
    changed = await scene.change(schedule_id, method="PUT", retries=7)
    assert changed.retry == before.retry is not None
    assert (changed.request.method, changed.request.retries) == ("PUT", 7)
    assert await scene.claim() == []
    to_ms = await scene.clock.now_ms() - 5
    changed = await scene.change(schedule_id, trigger_at_ms=to_ms)
    assert changed == await scene.get(schedule_id)
    assert changed.retry == msgspec.structs.replace(before.retry, due_at_ms=to_ms)
    assert changed.request.trigger_at_ms == to_ms
    claimed = await scene.claim_one()
    assert (claimed.attempt, claimed.due_at_ms, claimed.retry) == (2, to_ms, changed.retry)


async def test_a_schedule_that_asks_for_no_retries_is_stored_in_the_same_bytes(
    scene: Scene,
) -> None:
    plain = Request(1, "POST", "https://example.com/")
    careful = Request(1, "POST", "https://example.com/", expires_at_ms=5, method_given=False)
    assert pack_request(plain) == msgspec.msgpack.encode((1, "P", "example.com/", {}, None))
    assert pack_request(careful) == msgspec.msgpack.encode(
        (1, "P", "example.com/", {}, None, "at-least-once", 5, False)
    )
    await scene.run()
    [stream] = await scene.redis.xrange(scene.base + keys.LOG)
    [[*entry]] = msgspec.msgpack.decode(stream[1][b"e"])
    assert len(entry) == 9
    assert not await scene.redis.exists(scene.base + keys.TRIED)


async def test_delays_are_stored_though_no_retries_are_asked_for(scene: Scene) -> None:
    request = (await scene.get(await scene.create(60_000, retry_delays_ms=(1000, 60_000)))).request
    assert (request.retries, request.retry_delays_ms) == (0, (1000, 60_000))


async def test_an_account_whose_next_attempt_comes_first_is_looked_at_in_time(
    scene: Scene,
) -> None:
    await scene.create(3_600_000)
    await retried(scene, 1000)
    batch = await scene.store.claims.claim(scene.shard, lease_ms=1000, most=10)
    due_ms = (await scene.log(status=LogStatus.RETRYING))[0].next_attempt_at_ms
    assert batch.next_look_ms == due_ms


async def test_many_cancellations_stop_what_was_attempted_and_refund_the_others(
    scene: Scene,
) -> None:
    attempted, waiting = await retried(scene), await scene.create(60_000)
    done = await scene.cancel_all([attempted, waiting])
    first, second = done.each
    assert (first.schedule_id, first.refusal) == (attempted, None)
    assert first.stopped.outcome == FAILED
    assert (second.schedule_id, second.refusal, second.stopped) == (waiting, None, None)
    assert done.credits == CREDITS - 1
    again = await scene.cancel_all([attempted, waiting])
    assert [str(each.refusal) for each in again.each] == [
        "The schedule is failed already",
        "The schedule is cancelled already",
    ]
    log = {"retrying": 1, "failed": 1, "cancelled": 1}
    assert await scene.holdings() == Holdings(CREDITS - 1, 1, 0, 0, log)


async def test_those_that_are_stopped_together_are_one_chunk_of_the_log(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if one of them was attempted once more since they were read: it is stopped after."""
    others = [await retried(scene) for _ in range(20)]
    first = await retried(scene, 0)

    async def it_is_attempted() -> None:
        assert await scene.retry([await scene.claim_one()], 60_000) == [1]

    assert await logged(scene) == [1] * 21
    after_the_first_read(monkeypatch, it_is_attempted)
    done = await scene.cancel_all([*others, first])
    assert [each.stopped and each.stopped.attempts for each in done.each] == [1] * 20 + [2]
    assert await logged(scene) == [1] * 22 + [21]
