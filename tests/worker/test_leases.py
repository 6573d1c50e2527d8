"""Leases are extended in time, and an outage of the store takes none from a worker."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from scheduler.models import Invocation
from tests.worker.desk import AWAY, LEASE_MS, Invocations, ScriptedStore
from worker.holdings import Holdings
from worker.leases import ClockSteps, Leases, Touch

LEASE_S = LEASE_MS / 1000


class Moment:
    """Stands in place of the clock."""

    def __init__(self) -> None:
        self.s = 1000.0

    def elapsed_s(self) -> float:
        return self.s


@pytest.fixture
def moment(monkeypatch: pytest.MonkeyPatch) -> Moment:
    moment = Moment()
    monkeypatch.setattr("worker.leases.elapsed_s", moment.elapsed_s)
    return moment


class Scene:
    """Leases over two scripted shards."""

    def __init__(self) -> None:
        store = ScriptedStore({0: 0, 1: 0})
        self.claims = store.claims
        self.holdings = Holdings(10_000, 10**6)
        self.touch = Touch(LEASE_MS, LEASE_MS)
        self.leases = Leases(store.as_store, self.holdings, self.touch, LEASE_MS)


@pytest.fixture
def scene(moment: Moment) -> Scene:
    return Scene()


@pytest.mark.parametrize(
    ("store_uptime_ms", "grace_s"),
    [
        (5000, LEASE_S - 5),
        (-3_600_000, LEASE_S),  # its clock was set back: by it the store starts in an hour
        (LEASE_MS, 0),
    ],
)
def test_a_store_that_was_started_just_now_gives_a_lease_of_grace(
    moment: Moment, store_uptime_ms: int, grace_s: float
) -> None:
    touch = Touch(LEASE_MS, store_uptime_ms)
    moment.s += max(0, grace_s - 0.001)
    assert touch.has_grace(0) is touch.has_grace(7) is (grace_s > 0)
    moment.s += 0.002
    assert not touch.has_grace(0)


def test_a_shard_that_is_back_has_grace_for_a_lease_and_no_other_has(moment: Moment) -> None:
    touch = Touch(LEASE_MS, LEASE_MS)
    touch.lose([0], AWAY)
    moment.s += 100
    touch.regain(0)
    touch.regain(1)  # which was never lost
    moment.s += LEASE_S - 0.001
    assert (touch.has_grace(0), touch.has_grace(1)) == (True, False)
    moment.s += 0.002
    assert not touch.has_grace(0)


async def test_what_was_claimed_just_now_is_not_prolonged(scene: Scene, moment: Moment) -> None:
    make = Invocations()
    young = make.one(lease_until_s=moment.s + 0.76 * LEASE_S)
    old = make.one(lease_until_s=moment.s + 0.74 * LEASE_S)
    scene.holdings.add([young, old])
    await scene.leases.extend_all()
    assert scene.claims.extended == [old]


async def test_a_shard_that_fails_is_lost_and_the_others_are_prolonged(scene: Scene) -> None:
    make = Invocations()
    first, second = make.one(0, lease_until_s=0.0), make.one(1, lease_until_s=0.0)
    scene.holdings.add([first, second])
    scene.claims.away.add(0)
    await scene.leases.extend_all()
    assert scene.touch.lost == {0}
    assert scene.claims.extended == [second]
    await scene.leases.note_attempt(first)  # the next extension does
    await scene.leases.extend_all()
    assert scene.claims.calls.count(("extend", 0)) == 2, "until it is regained it is left alone"


async def test_many_are_confirmed_in_pieces_and_those_of_others_are_told(scene: Scene) -> None:
    held = Invocations().many(1200)
    scene.claims.taken = {held[3], held[1100]}
    assert await scene.leases.confirm(0, held) == [held[3], held[1100]]
    assert scene.claims.extended == held
    assert scene.claims.calls == [("extend", 0)] * 3


async def test_a_clock_that_was_set_back_is_mended_a_lease_later_in_all_shards(
    moment: Moment,
) -> None:
    """By then each worker that is alive has prolonged what it holds: the rest has no owner."""
    mended = list[int]()

    async def mend(shard: int, lease_ms: int) -> int:
        mended.append(shard)
        return lease_ms

    clock, back = SimpleNamespace(steps_back=3), SimpleNamespace(mend=mend)
    store = SimpleNamespace(clock=clock, clock_back=back, shards=SimpleNamespace(count=2))
    steps = ClockSteps(cast("Any", store), LEASE_MS)
    await steps.watch()
    clock.steps_back += 1
    for passes_s in (0.0, LEASE_S - 0.1):
        moment.s += passes_s
        await steps.watch()
    assert mended == []
    moment.s += 0.2
    for _ in range(2):
        await steps.watch()
    assert mended == [0, 1]


async def test_leases_of_a_shard_are_prolonged_by_one_call_at_a_time(scene: Scene) -> None:
    first, second = held = Invocations().many(2)
    gate, there = asyncio.Event(), []

    async def slow(shard: int, lease_ms: int, some: list[Invocation]) -> list[Invocation]:
        there.append((shard, some))
        await gate.wait()
        return []

    scene.claims.extend = slow  # type: ignore[method-assign]
    calls = [
        asyncio.create_task(scene.leases.confirm(shard, [each]))
        for shard, each in ((0, first), (0, second), (1, first))
    ]
    await asyncio.sleep(0)
    assert there == [(0, [first]), (1, [first])]
    gate.set()
    assert await asyncio.gather(*calls) == [[], [], []]
    assert there[2:] == [(0, held[1:])]
