"""Occurrences of recurring schedules: none is sent before its rule has advanced, whatever fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from scheduler.errors import OutcomeUnknown, StoreRefused, StoreUnavailable
from scheduler.models import Invocation, Occurrence, Outcome, Retry, Status
from scheduler.stages import Stage
from tests.worker.desk import AWAY, LEASE_MS, ScriptedStore
from tests.worker.scene import Scene
from tests.worker.scripted import Target, answer, answering, playing, until
from worker.leases import Touch
from worker.occurrences.advance import Occurrences

pytestmark = pytest.mark.usefixtures("quickly")

RULE = "rec_01KAQ0000000000000000000AA"
START_MS = 1_795_161_600_000  # of the store's clock
SLOT = Occurrence(RULE, START_MS)
LAST = Outcome(Status.FAILED, 500, 1, "Internal Server Error")


def hand_out(scene: Scene, url: str, shard: int = 0, **fields: Any) -> Invocation:
    return scene.hand_out(shard, url=url, **({"recurring": SLOT} | fields))


def held_up(
    scene: Scene, which: Callable[[Sequence[Invocation]], bool] = lambda _: True
) -> asyncio.Event:
    """From now on such occurrences do not advance until the event is set."""
    may_answer = asyncio.Event()

    async def slow(some: Sequence[Invocation]) -> None:
        if which(some):
            await may_answer.wait()

    scene.store.recurring.advancing = slow
    return may_answer


@pytest.fixture
async def target() -> AsyncIterator[Target]:
    async with playing(answering(*[answer()] * 10)) as target:
        yield target


async def test_none_is_sent_before_its_rule_has_advanced(scene: Scene, target: Target) -> None:
    may_answer, recurring = held_up(scene), scene.store.recurring
    known = scene.hand_out(url=target.url())
    await scene.start()
    await until(lambda: scene.recorded == [known])  # its secret is there from now on
    occurrence = hand_out(scene, target.url())
    abroad = hand_out(scene, target.url(), shard=1)
    other = scene.hand_out(url=target.url())
    scene.worker.claimer.wake()
    # Others of its account and shard go out meanwhile.
    await until(lambda: scene.recorded == [known, other] and recurring.asked != [])
    assert len(scene.pipeline.holdings) == 2
    assert len(target.requests) == 2
    may_answer.set()
    await until(lambda: len(scene.recorded) == 4)
    await scene.stop()
    assert {one for some in recurring.asked for one in some} == {occurrence, abroad}
    assert scene.pipeline.occurrences.advanced == 2


async def test_none_waits_for_late_ones_of_another_account(scene: Scene, target: Target) -> None:
    """The times that those missed are counted first, which takes a while."""
    may_answer = held_up(scene, lambda some: late in some)
    before = Occurrence(RULE, START_MS - 60_000)
    late = hand_out(scene, target.url(), recurring=before)
    in_time = hand_out(scene, target.url())
    theirs = hand_out(scene, target.url(), account="other", recurring=before)
    await scene.start()
    await until(lambda: {*scene.recorded} == {in_time, theirs})
    may_answer.set()
    await until(lambda: len(scene.recorded) == 3)
    await scene.stop()


async def test_late_ones_of_few_accounts_advance_at_once(scene: Scene, target: Target) -> None:
    """However many accounts have some: claims would wait for the store behind all of them."""
    may_answer, recurring = held_up(scene), scene.store.recurring
    before = Occurrence(RULE, START_MS - 60_000)
    late = [hand_out(scene, target.url(), account=f"late-{n}", recurring=before) for n in range(9)]
    await scene.start()
    await until(lambda: len(recurring.asked) == 8)
    assert scene.pipeline.holdings.stages() == {Stage.CLAIMED: 8, Stage.QUEUED: 1}
    may_answer.set()
    await until(lambda: {*scene.recorded} == {*late})
    await scene.stop()
    assert recurring.asked == [[each] for each in late]


async def test_what_moves_no_rule_asks_for_none(scene: Scene, target: Target) -> None:
    """Neither what `trigger` made, nor a retry: its rule advanced before the first attempt."""
    hand_out(scene, target.url(), recurring=Occurrence(RULE))
    retried = hand_out(scene, target.url(), retries=1)
    retried.retry, retried.attempt = Retry(1, 0, 1, LAST, 0), 2
    await scene.run_until(lambda: len(scene.recorded) == 2)
    assert scene.store.recurring.asked == []


async def test_what_moves_no_rule_waits_for_none(scene: Scene, target: Target) -> None:
    may_answer, recurring = held_up(scene), scene.store.recurring
    await scene.start()
    for _ in range(2):
        hand_out(scene, target.url())
    scene.worker.claimer.wake()
    await until(lambda: recurring.asked != [])
    retried = hand_out(scene, target.url(), retries=1)
    retried.retry, retried.attempt = Retry(1, 0, 1, LAST, 0), 2
    scene.worker.claimer.wake()
    await until(lambda: scene.recorded == [retried])
    may_answer.set()
    await until(lambda: len(scene.recorded) == 3)
    await scene.stop()


async def test_those_that_met_an_unforeseen_fault_are_asked_for_again(
    scene: Scene, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.start()
    occurrences = scene.pipeline.occurrences
    faults = [ZeroDivisionError("a rule"), None]
    advance = occurrences.advance

    async def failing(some: Sequence[Invocation]) -> list[Invocation]:
        if fault := faults.pop(0):
            raise fault
        return await advance(some)

    monkeypatch.setattr(occurrences, "advance", failing)
    occurrence = hand_out(scene, target.url())
    scene.worker.claimer.wake()
    await until(lambda: scene.recorded == [occurrence])
    await scene.stop()
    assert faults == []


async def test_one_that_another_worker_held_advances_again(scene: Scene, target: Target) -> None:
    """That worker may have been lost before it did."""
    lost = hand_out(scene, target.url())
    lost.attempt = 2
    await scene.run_until(lambda: scene.recorded == [lost])
    assert scene.store.recurring.asked == [[lost]]


async def test_one_that_has_expired_advances_before_it_ends(scene: Scene) -> None:
    expired = hand_out(scene, "http://example.com/", expires_at_ms=1)
    asked: list[list[Invocation]] = []

    async def note(some: Sequence[Invocation]) -> None:
        asked.append([*scene.recorded, *some])

    scene.store.recurring.advancing = note
    await scene.run_until(lambda: scene.recorded == [expired])
    assert asked == [[expired]]
    assert scene.claims.acked[0].outcome.error_message == "Expired before execution"


@pytest.mark.parametrize("error", [StoreUnavailable("away"), OutcomeUnknown("the reply was lost")])
async def test_while_the_store_does_not_answer_nothing_is_sent_and_nothing_is_lost(
    scene: Scene, target: Target, error: Exception
) -> None:
    recurring = scene.store.recurring
    recurring.raised = [error, error]
    occurrence = hand_out(scene, target.url())
    await scene.start()
    await until(lambda: recurring.raised == [])
    await until(lambda: scene.recorded == [occurrence])
    await scene.stop()
    # The last of the three was answered; before each repeat the lease was confirmed.
    assert recurring.asked == [[occurrence]] * 3
    assert scene.claims.extended.count(occurrence) >= 2
    assert (len(target.requests), occurrence.attempt) == (1, 1)


async def test_one_that_another_took_over_meanwhile_is_not_sent(
    scene: Scene, target: Target
) -> None:
    """The store was slow, or this process stood still: the lease ended."""
    scene.store.recurring.raised = [AWAY]
    taken = hand_out(scene, target.url())
    scene.claims.taken.add(taken)
    await scene.run_until(lambda: scene.claims.extended == [taken] and scene.held == 0)
    assert (target.requests, scene.recorded, scene.claims.released) == ([], [], [])


async def test_a_pause_between_advance_and_send_asks_for_the_lease_first(
    scene: Scene, target: Target
) -> None:
    async def pause(some: Sequence[Invocation]) -> None:
        for each in some:
            each.lease_until_s = 0.0
        scene.store.recurring.advancing = nothing

    async def nothing(_: Sequence[Invocation]) -> None: ...

    scene.store.recurring.advancing = pause
    occurrence = hand_out(scene, target.url())
    await scene.run_until(lambda: scene.recorded == [occurrence])
    assert scene.claims.extended == [occurrence]
    assert (len(target.requests), len(scene.store.recurring.asked)) == (1, 2)


@pytest.mark.parametrize("shard_away", [False, True])
async def test_a_drain_gives_back_what_was_advancing(
    scene: Scene, target: Target, *, shard_away: bool
) -> None:
    may_answer, recurring = held_up(scene), scene.store.recurring
    recurring.raised = [AWAY] if shard_away else []
    occurrence = hand_out(scene, target.url())
    await scene.start()
    await until(lambda: recurring.asked != [])
    scene.stopping.set()
    await until(lambda: scene.pipeline.is_closed)
    may_answer.set()
    await scene.stop()
    assert (target.requests, scene.claims.released, scene.held) == ([], [occurrence], 0)


@pytest.mark.parametrize("refused", [False, True])
async def test_a_rule_that_fails_every_call_holds_up_its_own_occurrence_alone(
    scene: Scene, target: Target, *, refused: bool
) -> None:
    recurring = scene.store.recurring
    recurring.raised = [StoreRefused("WRONGTYPE")] if refused else []
    with capture_logs() as told:
        given = [hand_out(scene, target.url()) for _ in range(3)]
        recurring.poison = given[1]
        await scene.start()
        await until(lambda: {*scene.recorded} == {given[0], given[2]})
        await until(lambda: scene.claims.released == [given[1]])
        assert given[1].due_at_ms > scene.store.clock.now_ms()
        await scene.stop()
    assert recurring.asked == [given, [given[0]], [given[1]], [given[2]]]
    faults = [each for each in told if each["event"] == "a recurring schedule cannot advance"]
    assert [each["schedule"] for each in faults] == [given[1].schedule_id]
    assert not [each for each in told if each["event"].startswith("lost touch")]


async def test_what_fails_in_one_shard_holds_up_no_other(scene: Scene, target: Target) -> None:
    make, fields = scene.claims.make, {"url": target.url(), "recurring": SLOT}
    given = [make.one(shard, **fields) for shard in (0, 0, 1)]
    recurring = scene.store.recurring
    recurring.poison = given[0]
    await scene.start()
    scene.pipeline.holdings.add(given)
    scene.pipeline.occurrences.put(given, scene.store.clock.readings)
    await until(lambda: {*scene.recorded} == {*given[1:]})
    await scene.stop()
    one, another, abroad = given
    assert recurring.asked == [[one, abroad, another], given[:2], [one], [another], [abroad]]


async def test_a_crowd_advances_piece_by_piece(
    scene: Scene, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And none of it is lost if the store goes away in the middle."""
    monkeypatch.setattr("worker.occurrences.advance._MOST_AT_ONCE", 2)
    recurring = scene.store.recurring
    recurring.raised = [None, AWAY]
    given = [hand_out(scene, target.url()) for _ in range(5)]
    await scene.run_until(lambda: {*scene.recorded} == {*given})
    assert recurring.asked[:2] == [given[:2], given[2:4]]
    assert [one for some in recurring.asked[2:] for one in some] == given[2:]
    assert len(target.requests) == 5


class Advancing:
    """Claimed occurrences over a scripted store, and what becomes of those that cannot advance."""

    def __init__(self, count: int) -> None:
        store, self.unsure, self.put_off = ScriptedStore({0: 0}), list[Invocation](), list[Any]()
        self.recurring = store.recurring
        self.held = [store.claims.make.one(recurring=SLOT) for _ in range(count)]
        shelf, none = SimpleNamespace(put=self.put_off.extend), cast("Any", None)
        self.occurrences = Occurrences(
            store.as_store,
            Touch(LEASE_MS, LEASE_MS),
            cast("Any", shelf),
            cast("Any", SimpleNamespace(put=self.unsure.append)),
            none,
            ready=none,
        )


@pytest.mark.parametrize(("answers", "may_be_sent"), [([AWAY], 0), ([None, AWAY], 2), ([], 5)])
async def test_after_an_error_none_of_the_pieces_left_may_be_sent(
    monkeypatch: pytest.MonkeyPatch, answers: list[Exception | None], may_be_sent: int
) -> None:
    """As when a worker that stood still looks at all that it holds."""
    monkeypatch.setattr("worker.occurrences.advance._MOST_AT_ONCE", 2)
    desk = Advancing(5)
    desk.recurring.raised = answers
    assert await desk.occurrences.advance(desk.held) == desk.held[:may_be_sent]
    assert desk.unsure == desk.held[may_be_sent:]
    assert len(desk.recurring.asked) == min(3, may_be_sent // 2 + 1)


async def test_one_that_cannot_advance_is_put_off_and_may_not_be_sent() -> None:
    desk = Advancing(3)
    desk.recurring.poison = poison = desk.held[1]
    assert await desk.occurrences.advance(desk.held) == [desk.held[0], desk.held[2]]
    assert [each.invocation for each in desk.put_off] == [poison]
    assert desk.unsure == []


async def test_an_account_with_many_lets_others_advance_with_its_first(
    scene: Scene, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.occurrences.advance._MOST_AT_ONCE", 2)
    many = [hand_out(scene, target.url()) for _ in range(3)]
    other = hand_out(scene, target.url(), account="other")
    await scene.run_until(lambda: {*scene.recorded} == {*many, other})
    assert scene.store.recurring.asked == [[many[0], other], many[1:]]


@pytest.mark.parametrize("late_ms", [0, 60_000])
async def test_a_node_of_a_cluster_that_is_slow_holds_up_no_other(
    scene: Scene, target: Target, late_ms: int
) -> None:
    """Though as many accounts as may have late ones there."""
    scene.store.server.routed = True
    may_answer = held_up(scene, lambda some: any(each.shard == 1 for each in some))
    slot = Occurrence(RULE, START_MS - late_ms)
    abroad = [
        hand_out(scene, target.url(), shard=1, account=f"abroad-{n}", recurring=slot)
        for n in range(9)
    ]
    await scene.start()
    await until(lambda: len(scene.store.recurring.asked) == (8 if late_ms else 1))
    here = hand_out(scene, target.url(), recurring=slot)
    scene.worker.claimer.wake()
    await until(lambda: scene.recorded == [here])
    may_answer.set()
    await until(lambda: {*scene.recorded} == {here, *abroad})
    await scene.stop()


async def test_claims_pass_over_accounts_of_which_enough_wait(
    scene: Scene, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.occurrences.advance._MOST_AT_ONCE", 1)
    monkeypatch.setattr("worker.occurrences.advance._MOST_WAITING", 6)
    monkeypatch.setattr("worker.occurrences.advance._FEW", 1)
    may_answer = held_up(scene)
    many = [hand_out(scene, target.url()) for _ in range(7)]
    other = hand_out(scene, target.url(), account="other")
    await scene.start()
    crowding = [many[0].account_id]
    await until(lambda: scene.pipeline.occurrences.crowding() == crowding)
    third = scene.hand_out(url=target.url(), account="third")
    await until(lambda: scene.recorded == [third])
    assert scene.claims.asked[-1]["pass_over"] == crowding
    may_answer.set()
    await until(lambda: {*scene.recorded} == {*many, other, third})
    assert scene.pipeline.occurrences.crowding() == []
    await scene.stop()


async def test_a_drain_gives_back_those_whose_turn_has_not_come(
    scene: Scene, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.occurrences.advance._MOST_AT_ONCE", 1)
    may_answer, recurring = held_up(scene), scene.store.recurring
    given = [hand_out(scene, target.url()) for _ in range(3)]
    await scene.start()
    await until(lambda: recurring.asked != [])
    scene.stopping.set()
    await until(lambda: len(scene.claims.released) == 2)
    may_answer.set()
    await scene.stop()
    assert (target.requests, recurring.asked, scene.held) == ([], [given[:1]], 0)
    assert {*scene.claims.released} == {*given}
