"""An outcome is recorded whatever happens on the way, and one bad one holds up no other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from structlog.testing import capture_logs

from scheduler.errors import OutcomeUnknown, StoreRefused
from scheduler.models import Invocation
from scheduler.store.lifecycle.end.end_rows import Ack
from scheduler.store.verdict import Verdict
from tests.support.waiting import DEADLINE_S
from tests.worker.desk import COMPLETED, LEASE_MS, Invocations, ScriptedStore
from tests.worker.scripted import until
from worker.acks import Acks
from worker.claimer import ClaimSoon
from worker.holdings import Holdings
from worker.leases import Touch

REFUSED = StoreRefused("too long")
UNFORESEEN = RuntimeError("nobody thought of it")
# As often as that a batch that failed by surprise is tried whole.
TRIES = 6


class Noted(ClaimSoon):
    def __init__(self) -> None:
        super().__init__()
        self.acked, self.freed = 0, list[int]()

    def note_room(self) -> None:
        self.acked += 1

    def note_place(self, shard: int) -> None:
        self.freed.append(shard)


class Scene:
    """Acks over two scripted shards."""

    def __init__(self) -> None:
        store = ScriptedStore({0: 0, 1: 0})
        self.claims = store.claims
        self.raised = store.claims.raised["ack"]
        self.holdings = Holdings(1000, 10**6)
        self.touch = Touch(LEASE_MS, LEASE_MS)
        self.soon = Noted()
        self.acks = Acks(store.ends, self.holdings, self.touch, self.soon)

    def end(self, invocations: list[Invocation]) -> None:
        self.holdings.add(invocations)
        for each in invocations:
            self.acks.add(Ack(each, COMPLETED, 0))

    async def settled(self) -> None:
        await asyncio.wait_for(self.holdings.emptied(), DEADLINE_S)
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


async def test_an_ack_is_repeated_until_the_store_takes_it(scene: Scene) -> None:
    scene.raised += [OutcomeUnknown("lost")] * 20
    [invocation] = held = Invocations().many(1)
    scene.end(held)
    await asyncio.sleep(0)
    assert len(scene.holdings) == 1
    await scene.settled()
    assert (scene.recorded, scene.soon.acked) == ([invocation], 1)
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


async def test_a_few_outcomes_of_several_shards_share_a_call(scene: Scene) -> None:
    make = Invocations()
    held = [*make.many(2, 1), *make.many(3, 0), *make.many(1, 1)]
    scene.end(held)
    await scene.settled()
    assert scene.claims.together == [[1, 0]]
    assert sorted(scene.recorded, key=held.index) == held
    assert scene.soon.acked == 2
    assert scene.acks._tick is None, "nothing wakes it while there is nothing to record"


async def test_an_outcome_that_a_full_lane_waits_for_does_not_wait_for_the_tick(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.acks.TICK_S", 3600.0)
    _, *bounded = held = Invocations().many(3, 1)
    for each in bounded:
        each.bounded = True
    scene.end(held)
    scene.end(Invocations().many(1, 0))
    await until(lambda: scene.soon.freed == [1])
    assert scene.sizes == [3], "those of one round of the loop share a call, and other ones it"
    assert scene.recorded == held
    scene.acks._send_rest()
    await scene.settled()
    assert scene.soon.freed == [1], "where no place came free, nothing waits for one"


async def test_an_urgent_outcome_that_comes_while_others_are_sent_follows_at_once(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.acks.TICK_S", 3600.0)
    first, second = held = Invocations().many(2)
    first.bounded = second.bounded = True
    scene.end([first])
    await until(lambda: scene.sizes == [1])
    scene.end([second])
    await scene.settled()
    assert (scene.recorded, scene.soon.freed) == (held, [0, 0])


async def test_a_busy_worker_makes_few_calls_for_urgent_outcomes_of_all_shards(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.acks.TICK_S", 3600.0)
    monkeypatch.setattr("worker.acks._URGENT_EVERY_S", 3600.0)
    make = Invocations()
    held = [each for shard in (0, 1, 0, 1) for each in make.many(1, shard)]
    for each in held:
        each.bounded = True
        scene.end([each])
        await until(lambda: scene.acks._senders == {} and scene.recorded != [])
    for _ in range(20):
        await asyncio.sleep(0)
    assert scene.recorded == held[:1]
    scene.acks._send_urgent()
    await scene.settled()
    assert scene.claims.together == [[0, 1]]
    assert sorted(scene.soon.freed) == [0, 0, 1]


@pytest.mark.parametrize("error", [REFUSED, UNFORESEEN, OutcomeUnknown("lost")])
async def test_a_shard_that_fails_among_several_is_tried_again_alone(
    scene: Scene, error: Exception
) -> None:
    make = Invocations()
    scene.raised += [None, error]
    scene.end([*make.many(2, 1), *make.many(3, 0)])
    with capture_logs():
        await scene.settled()
    assert len(scene.claims.together) == 1
    assert len(set(scene.recorded)) == 5
    assert scene.touch.lost == ({0} if isinstance(error, OutcomeUnknown) else set())


@pytest.mark.parametrize(
    ("counts", "most_shards", "together"),
    [([60, 60, 60], 32, [[0, 1]]), ([1, 1, 1, 1], 2, [[0, 1], [2, 3]]), ([1, 1], 1, [])],
)
async def test_a_call_for_several_shards_is_bounded_as_one_for_one_is(
    scene: Scene, counts: list[int], most_shards: int, together: list[list[int]]
) -> None:
    scene.claims.most_shards = most_shards
    make = Invocations()
    held = [each for shard, count in enumerate(counts) for each in make.many(count, shard)]
    scene.end(held)
    await scene.settled()
    assert scene.claims.together == together
    assert len(scene.recorded) == len(held)


async def test_leases_being_prolonged_hold_up_the_outcomes_of_their_shard_only(
    scene: Scene,
) -> None:
    make = Invocations()
    scene.end(there := make.many(1, 1))
    scene.end(here := make.many(1, 0))
    async with scene.holdings.asking[1]:
        await until(lambda: scene.recorded == here)
    await scene.settled()
    assert scene.recorded == here + there


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


@pytest.mark.parametrize("verdict", [Verdict.HELD, Verdict.DAMAGED])
async def test_what_another_recorded_or_is_damaged_is_named_and_not_held_any_more(
    scene: Scene, verdict: Verdict
) -> None:
    mine, theirs = held = Invocations().many(2)
    scene.claims.taken.add(theirs)
    scene.claims.verdict = verdict
    with capture_logs() as told:
        scene.end(held)
        await scene.settled()
    assert [each["schedule"] for each in told] == [theirs.schedule_id]
    assert mine in scene.recorded


async def test_a_deleted_account_is_named_once(scene: Scene) -> None:
    scene.claims.verdict = Verdict.UNKNOWN
    gone = Invocations().many(600)
    scene.claims.taken.update(gone)
    with capture_logs() as told:
        scene.end(gone[:300])
        await scene.settled()
        scene.end(gone[300:])
        await scene.settled()
    assert [each["account"] for each in told] == [gone[0].account_id]


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


@pytest.mark.parametrize("is_urgent", [False, True])
async def test_an_outcome_that_comes_while_others_are_under_way_follows_them(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, is_urgent: bool
) -> None:
    asked, may_answer, ack = asyncio.Event(), asyncio.Event(), scene.claims.ack

    async def slow(shard: int, acks: Sequence[Ack]) -> list[Verdict]:
        asked.set()
        await may_answer.wait()
        return await ack(shard, acks)

    monkeypatch.setattr(scene.claims, "ack", slow)
    first, second = held = Invocations().many(2)
    second.bounded = is_urgent
    scene.end([first])
    await asked.wait()
    scene.end([second])
    may_answer.set()
    await scene.settled()
    assert (scene.recorded, scene.sizes) == (held, [1, 1])
