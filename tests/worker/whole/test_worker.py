"""One worker over a scripted store: what it does with leases that it is not sure of, after the
store was away, and when it stops."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
from structlog.testing import capture_logs

from scheduler.models import Invocation, RetryOn
from scheduler.runtime.elapsed import elapsed_s
from scheduler.runtime.settings import Settings
from scheduler.stages import Stage
from scheduler.store import Store
from scheduler.store.lifecycle.claim.claim import UnreadClaim
from scheduler.store.lifecycle.end.end_rows import Ack
from tests.support.waiting import DEADLINE_S
from tests.worker.desk import AWAY, COMPLETED, LEASE_MS, Invocations, ScriptedStore
from tests.worker.scene import Scene
from tests.worker.scripted import Line, answer, answering, dying, playing, until
from worker.worker import Worker, run_worker

pytestmark = pytest.mark.usefixtures("quickly")


async def test_what_another_worker_has_by_now_is_neither_sent_nor_recorded(scene: Scene) -> None:
    async with playing(answering(answer())) as target:
        invocation = scene.hand_out(url=target.url(), lease_until_s=0.0)
        scene.claims.taken.add(invocation)
        await scene.start()
        await until(lambda: scene.claims.extended != [] and scene.held == 0)
        following = scene.hand_out(url=target.url(), lease_until_s=0.0)
        await until(lambda: scene.recorded == [following])
        await scene.stop()
    assert scene.claims.extended == [invocation, following]
    assert (len(target.requests), scene.claims.released) == (1, [])


async def test_a_confirmation_that_fails_is_made_again(scene: Scene) -> None:
    async with playing(answering(answer())) as target:
        invocation = scene.hand_out(url=target.url(), lease_until_s=0.0)
        scene.claims.raised["extend"] += [AWAY, RuntimeError("nobody thought of it")]
        await scene.start()
        await until(lambda: scene.recorded == [invocation])
        await scene.stop()
    assert len(target.requests) == 1


async def test_a_confirmed_one_that_is_not_due_waits(scene: Scene) -> None:
    invocation = scene.in_the_wheel(0)
    await scene.start()
    await until(lambda: scene.pipeline.holdings.stages() == {Stage.TIMED: 1})
    scene.pipeline.wheel.clear()
    scene.pipeline.unsure.put(invocation)
    await until(lambda: scene.claims.extended == [invocation])
    await until(lambda: scene.pipeline.holdings.stages() != {Stage.UNSURE: 1})
    assert scene.pipeline.holdings.stages() == {Stage.TIMED: 1}
    await scene.stop()
    assert scene.claims.released == [invocation]


async def test_what_is_being_confirmed_when_it_is_told_to_stop_is_given_back(scene: Scene) -> None:
    asked, may_answer = asyncio.Event(), asyncio.Event()
    extend = scene.claims.extend

    async def slow(*arguments: Any) -> list[Invocation]:
        asked.set()
        await may_answer.wait()
        return await extend(*arguments)

    scene.claims.extend = slow  # type: ignore[method-assign]
    async with playing(answering(answer())) as target:
        invocation = scene.hand_out(url=target.url(), lease_until_s=0.0)
        await scene.start()
        await asked.wait()
        scene.stopping.set()
        await until(lambda: scene.pipeline.is_closed)
        may_answer.set()
        await scene.stop()
    assert (target.requests, scene.claims.released, scene.held) == ([], [invocation], 0)


async def test_a_drain_gives_back_what_lies_in_the_wheel_shard_by_shard(scene: Scene) -> None:
    given = [scene.in_the_wheel(shard) for shard in (0, 1, 0)]
    await scene.start()
    await until(lambda: scene.pipeline.holdings.stages() == {Stage.TIMED: 3})
    await scene.stop()
    assert set(scene.claims.released) == set(given)
    assert (scene.held, scene.recorded, len(scene.store.left)) == (0, [], 1)


@pytest.mark.parametrize("away", [0, 1])
async def test_a_shard_that_is_away_keeps_nothing_of_the_others_from_being_given_back(
    scene: Scene, away: int
) -> None:
    given = [scene.in_the_wheel(shard) for shard in (0, 1)]
    await scene.start()
    await until(lambda: scene.held == 2)
    scene.claims.away.add(away)
    with capture_logs() as told:
        await scene.stop()
    assert scene.claims.released == [given[1 - away]]
    assert "not given back; the leases will end" in [each["event"] for each in told]
    assert scene.held == 0


async def test_it_ends_after_what_it_does_in_the_background(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or the store would be closed under that."""

    async def no_recovery(_: object) -> None:
        """It would ask for the key first, by turns."""

    monkeypatch.setattr(Worker, "_recover", no_recovery)
    asked, may_answer, ended = asyncio.Event(), asyncio.Event(), list[str]()

    async def slow() -> None:
        asked.set()
        await may_answer.wait()
        ended.append("background")

    scene.store.sealing_keys.read = slow
    held = scene.claims.make.one()
    scene.claims.unread.append(UnreadClaim(held, "no such key", "a key"))
    await scene.start()
    assert scene.running is not None
    scene.running.add_done_callback(lambda _: ended.append("worker"))
    await asked.wait()
    scene.stopping.set()
    await until(lambda: scene.held == 0)
    for _ in range(50):
        await asyncio.sleep(0)
    may_answer.set()
    await scene.stop()
    assert ended == ["background", "worker"]


@pytest.mark.parametrize(
    ("error", "ends"),
    [
        (AWAY, nullcontext()),
        (RuntimeError("nobody thought of it"), pytest.raises(RuntimeError, match="nobody")),
    ],
    ids=["the store's", "its own"],
)
async def test_a_drain_gets_over_a_fault_of_the_store_and_hides_none_of_its_own(
    scene: Scene,
    error: Exception,
    ends: AbstractContextManager[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def failing(worker_id: str) -> None:
        raise error

    monkeypatch.setattr(scene.store, "leave", failing)
    await scene.start()
    with ends:
        await scene.stop()
    scene.running = None  # it has ended


async def test_after_the_store_was_away_it_prolongs_and_records_before_it_claims(
    scene: Scene,
) -> None:
    answered = asyncio.Event()

    async def slow(line: Line) -> None:
        await line.request()
        await answered.wait()
        await line.say(answer())
        await line.until_closed()

    calls = scene.claims.calls
    async with playing(slow) as target:
        held = [scene.hand_out(url=target.url()) for _ in range(2)]
        for each in held:
            each.lease_until_s = 10**9
        await scene.start()
        await until(lambda: len(target.requests) == 2)
        for each in held:  # old enough to be prolonged
            each.lease_until_s = elapsed_s() + 5
        scene.claims.away.add(0)
        await until(lambda: 0 in scene.worker.touch.lost)
        answered.set()
        # By then an ack waits for longer than a claim would take.
        await until(lambda: calls.count(("ack", 0)) >= 5)
        scene.claims.due[0] = 1
        before = len(calls)
        scene.claims.away.clear()
        await until(lambda: ("claim", 0) in calls[before:])
        since = [name for name, shard in calls[before:] if shard == 0]
        assert since.index("extend") < since.index("claim")
        assert since.index("ack") < since.index("claim")
        assert set(held) <= set(scene.recorded)


async def test_an_attempt_that_is_used_up_here_is_noted_in_the_store(scene: Scene) -> None:
    async with playing(dying, answering(answer())) as target:
        first = scene.hand_out(url=target.url())
        await scene.start()
        await until(lambda: scene.recorded == [first])
        second = scene.hand_out(url=target.url())
        await until(lambda: scene.recorded == [first, second])
        await scene.stop()
    assert [each.attempt for each in scene.claims.extended] == [2]


@pytest.mark.parametrize(("uptime_s", "grace"), [(1, True), (3600, False)])
async def test_after_the_stores_start_no_ended_lease_is_taken_over_for_a_while(
    monkeypatch: pytest.MonkeyPatch, uptime_s: int, grace: bool
) -> None:
    store, stopping = ScriptedStore({0: 1}), asyncio.Event()
    store.uptime_s = uptime_s

    async def opened(settings: Settings) -> ScriptedStore:
        return store

    monkeypatch.setattr(Store, "open", opened)
    running = asyncio.create_task(
        run_worker(Settings(lease_ms=LEASE_MS), stopping=stopping, on_ready=lambda: None)
    )
    await until(lambda: store.claims.asked != [])
    stopping.set()
    await asyncio.wait_for(running, DEADLINE_S)
    assert {asked["take_over_by_ms"] == 0 for asked in store.claims.asked} == {grace}
    assert store.closed


async def _record(worker: Worker, held: Invocation) -> None:
    worker.pipeline.endings._schedules.add(Ack(held, COMPLETED, 0, None))
    await worker.pipeline.holdings.emptied()


async def _record_together(worker: Worker, held: Invocation) -> None:
    elsewhere = Invocations().one(1)
    worker.pipeline.holdings.add([elsewhere])
    worker.pipeline.endings._schedules.add(Ack(elsewhere, COMPLETED, 0, None))
    await _record(worker, held)


async def _give_back(worker: Worker, held: Invocation) -> None:
    await worker.pipeline._give_back([held])


async def _put_off(worker: Worker, held: Invocation) -> None:
    worker.pipeline.unreadables.put([UnreadClaim(held, "damaged", "")])
    await worker.pipeline.unreadables.settle()


@pytest.mark.parametrize("settle", [_record, _record_together, _give_back, _put_off])
async def test_a_lease_is_not_prolonged_while_it_is_settled_by_its_token(
    scene: Scene,
    settle: Callable[[Worker, Invocation], Awaitable[None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server that does not know the script yet carries it out after later calls."""
    asked, known, enter = asyncio.Event(), asyncio.Event(), scene.claims._enter

    async def entered(name: str, shard: int) -> None:
        await enter(name, shard)
        if name != "extend":
            asked.set()
            await known.wait()

    monkeypatch.setattr(scene.claims, "_enter", entered)
    held = scene.claims.make.one(lease_until_s=0.0)
    scene.pipeline.holdings.add([held])
    settling = asyncio.create_task(settle(scene.worker, held))
    await asked.wait()
    prolonging = asyncio.create_task(scene.pipeline.leases.extend(0))
    for _ in range(5):
        await asyncio.sleep(0)
    assert scene.claims.extended == []
    known.set()
    await asyncio.gather(settling, prolonging)
    assert scene.held == 0


@pytest.mark.parametrize("status", ["404 Not Found", "307 Elsewhere", "204 No Content"])
async def test_any_answer_but_2xx_is_retried_if_the_schedule_asks_for_it(
    scene: Scene, status: str
) -> None:
    async with playing(answering(*[answer(b"", status)] * 2)) as target:
        asking = scene.hand_out(url=target.url(), retries=1, retry_on=RetryOn.ANY)
        other = scene.hand_out(url=target.url(), retries=1)
        await scene.start()
        await until(lambda: len(scene.claims.acked) == 2)
        await scene.stop()
    again = {ack.invocation: ack.next_attempt_at_ms for ack in scene.claims.acked}
    assert again[other] is None
    assert (again[asking] is None) == status.startswith("2")
