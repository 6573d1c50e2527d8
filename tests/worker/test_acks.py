"""An outcome is recorded whatever happens on the way, and one bad one holds up no other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
import pytest
from structlog.testing import capture_logs

from scheduler.errors import OutcomeUnknown, StoreError, StoreRefused, StoreUnavailable
from scheduler.models import Invocation
from scheduler.store.lifecycle.end_rows import Ack
from scheduler.store.verdict import Verdict
from tests.worker.desk import AWAY, COMPLETED, LEASE_MS, Invocations, ScriptedStore
from tests.worker.scripted import until
from worker.acks import Acks
from worker.holdings import Holdings
from worker.leases import Touch

REFUSED = StoreRefused("too long")
UNFORESEEN = RuntimeError("nobody thought of it")
# As often as that a batch that failed by surprise is tried whole.
TRIES = 6


class Scene:
    """Acks over two scripted shards."""

    def __init__(self) -> None:
        store = ScriptedStore({0: 0, 1: 0})
        self.claims = store.claims
        self.raised = store.claims.raised["ack"]
        self.holdings = Holdings(1000, 10**6)
        self.touch = Touch(LEASE_MS, LEASE_MS)
        self.acked = 0
        self.acks = Acks(store.as_store, self.holdings, self.touch, self._note)

    def _note(self) -> None:
        self.acked += 1

    def end(self, invocations: list[Invocation]) -> None:
        self.holdings.add(invocations)
        for each in invocations:
            self.acks.add(Ack(each, COMPLETED, 0))

    async def settled(self) -> None:
        await asyncio.wait_for(self.holdings.emptied(), 5)
        await until(lambda: self.acks._senders == {})

    @property
    def recorded(self) -> list[Invocation]:
        return [ack.invocation for ack in self.claims.acked]

    @property
    def sizes(self) -> list[int]:
        return [len(batch) for batch in self.claims.batches]


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setattr("worker.upkeep._FIRST_PAUSE_S", 0.0)
    return Scene()


@pytest.mark.parametrize(
    "error", [StoreUnavailable("read only"), OutcomeUnknown("lost"), StoreError("whatever it is")]
)
async def test_an_ack_is_repeated_until_the_store_takes_it(scene: Scene, error: StoreError) -> None:
    scene.raised += [error] * 20
    [invocation] = held = Invocations().many(1)
    scene.end(held)
    await asyncio.sleep(0)
    assert len(scene.holdings) == 1
    await scene.settled()
    assert (scene.recorded, scene.acked) == ([invocation], 1)
    assert scene.touch.lost == {0}, "until it is recovered, nothing more is claimed there"


async def test_what_ends_together_is_sent_together_and_a_shard_waits_for_no_other(
    scene: Scene,
) -> None:
    make = Invocations()
    scene.claims.away.add(1)
    scene.end(there := make.many(2, 1))
    scene.end(here := make.many(3, 0))
    await until(lambda: scene.recorded == here)
    scene.claims.away.clear()
    await scene.settled()
    assert scene.recorded == here + there


async def test_what_ends_while_others_are_recorded_is_collected_too(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a thousand fires a second, spread, are hundreds of calls."""
    first, second, third = Invocations().many(3)
    record = scene.claims.ack

    async def ack(shard: int, acks: Sequence[Ack]) -> list[int]:
        codes = await record(shard, acks)
        if acks[0].invocation is first:
            scene.end([second])
            asyncio.get_running_loop().call_later(0.001, scene.end, [third])
        return codes

    monkeypatch.setattr(scene.claims, "ack", ack)
    scene.end([first])
    await until(lambda: len(scene.recorded) == 3)
    assert scene.sizes == [1, 2]


async def test_who_waits_for_what_has_come_does_not_wait_for_what_comes_meanwhile(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shard that is back would not be claimed from while targets go on answering."""
    make, record, goes_on = Invocations(), scene.claims.ack, True

    async def ack(shard: int, acks: Sequence[Ack]) -> list[int]:
        if goes_on:
            scene.end(make.many(1))
        return await record(shard, acks)

    monkeypatch.setattr(scene.claims, "ack", ack)
    scene.end(come := make.many(200))
    await asyncio.wait_for(scene.acks.settle(0, 60), 5)
    assert set(come) <= set(scene.recorded)
    goes_on = False
    await scene.settled()


async def test_a_refused_batch_is_sent_one_by_one_and_only_the_bad_one_is_given_up(
    scene: Scene,
) -> None:
    first, bad, third = held = Invocations().many(3)
    scene.raised += [REFUSED, None, REFUSED, None]
    with capture_logs() as told:
        scene.end(held)
        await scene.settled()
    assert scene.recorded == [first, third]
    assert scene.sizes == [3, 1, 1, 1]
    assert [(each["event"], each["schedule"]) for each in told] == [
        ("an outcome cannot be recorded", bad.schedule_id)
    ]
    assert scene.touch.lost == set()


async def test_an_outcome_of_a_damaged_account_is_given_up_at_once_and_named(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, damaged = held = Invocations().many(2)
    record = scene.claims.ack

    async def ack(shard: int, acks: Sequence[Ack]) -> list[Verdict]:
        await record(shard, acks)
        return [Verdict.DAMAGED if each.invocation is damaged else Verdict.DONE for each in acks]

    monkeypatch.setattr(scene.claims, "ack", ack)
    with capture_logs() as logged:
        scene.end(held)
        await scene.settled()
    assert scene.sizes == [2]
    assert [(each["event"], each["schedule"]) for each in logged] == [
        ("an outcome cannot be recorded", damaged.schedule_id)
    ]


async def test_what_nobody_foresaw_is_repeated_as_it_is(scene: Scene) -> None:
    held = Invocations().many(3)
    scene.raised += [UNFORESEEN] * (TRIES - 1)
    with capture_logs() as told:
        scene.end(held)
        await scene.settled()
    assert scene.recorded == held
    assert scene.sizes == [3] * TRIES
    assert [each["event"] for each in told] == ["an ack failed; it is repeated"]


async def test_what_stays_unforeseen_is_sent_one_by_one_and_given_up_one_by_one(
    scene: Scene,
) -> None:
    first, bad, third = held = Invocations().many(3)
    scene.raised += [*[UNFORESEEN] * TRIES, None, *[UNFORESEEN] * TRIES, None]
    with capture_logs() as told:
        scene.end(held)
        await scene.settled()
    assert scene.recorded == [first, third]
    assert scene.sizes == [3] * TRIES + [1] * (1 + TRIES + 1)
    given_up = [each for each in told if each["event"] == "an outcome cannot be recorded"]
    assert [each["schedule"] for each in given_up] == [bad.schedule_id]


@pytest.mark.parametrize("error", [REFUSED, UNFORESEEN, AWAY])
async def test_after_any_error_what_comes_later_is_recorded(scene: Scene, error: Exception) -> None:
    make = Invocations()
    scene.raised += [error] * TRIES
    with capture_logs():
        scene.end(make.many(1))
        await scene.settled()
    scene.raised.clear()
    scene.end(later := make.many(2))
    await scene.settled()
    assert scene.recorded[-2:] == later


async def test_what_another_recorded_is_not_held_any_more_and_named_with_its_trace(
    scene: Scene,
) -> None:
    mine, theirs, traced = held = Invocations().many(3)
    traced.request = msgspec.structs.replace(traced.request, trace=bytes(range(24)))
    scene.claims.taken |= {theirs, traced}
    with capture_logs() as told:
        scene.end(held)
        await scene.settled()
    assert [(each["schedule"], each.get("trace_id")) for each in told] == [
        (theirs.schedule_id, None),
        (traced.schedule_id, "000102030405060708090a0b0c0d0e0f"),
    ]
    assert mine in scene.recorded


async def test_batches_are_bounded_in_number(scene: Scene) -> None:
    scene.end(held := Invocations().many(600))
    await scene.settled()
    assert scene.sizes == [128, 128, 128, 128, 88]
    assert scene.recorded == held


async def test_batches_are_bounded_in_bytes(scene: Scene) -> None:
    sizes = [60_000, 60_000, 60_000, 200_000, 0, 0]
    make = Invocations()
    scene.end(held := [make.one(url="http://example.com/".ljust(size, "x")) for size in sizes])
    await scene.settled()
    assert scene.sizes == [2, 1, 1, 2]
    assert scene.recorded == held


async def test_settling_ends_when_all_is_recorded_or_the_time_is_up(scene: Scene) -> None:
    await scene.acks.settle(0, 5)
    scene.end(Invocations().many(1))
    await scene.acks.settle(0, 5)
    assert len(scene.recorded) == 1
    scene.claims.away.add(0)
    scene.end(Invocations().many(1))
    await scene.acks.settle(0, 0.01)
    assert len(scene.holdings) == 1
    scene.claims.away.clear()
    await scene.settled()
