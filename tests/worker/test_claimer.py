"""Who is claimed from next, and what one shard's trouble does to the others."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from scheduler.errors import StoreError, StoreUnavailable
from scheduler.models import Invocation, Outcome, Request, Status
from scheduler.store import Store
from scheduler.store.claims.claims import Ack, Batch, Look
from scheduler.store.clock import StoreClock
from worker.acks import Acks
from worker.claimer import Claimer
from worker.holdings import Holdings
from worker.leases import Touch
from worker.presence import Presence

LEASE_MS = 15_000


class ScriptedClaims:
    """Shards with so many due each; those in `away` fail."""

    def __init__(self, clock: StoreClock, due: dict[int, int]) -> None:
        self.clock = clock
        self.due = due
        self.away: set[int] = set()
        self.claimed: list[tuple[int, int]] = []
        self.acks: list[StoreError | None] = []
        self._turn_ms = dict.fromkeys(due, 0.0)
        self._number = 0

    async def realign(self, shard: int) -> None: ...

    async def look(self, shards: Sequence[int]) -> dict[int, Look | StoreError]:
        return {
            shard: StoreUnavailable("away")
            if shard in self.away
            else Look(self._turn_ms[shard] if self.due[shard] else None, None)
            for shard in shards
        }

    async def claim(self, shard: int, *, most: int, **_: Any) -> Batch:
        await asyncio.sleep(0)
        if shard in self.away:
            raise StoreUnavailable("away")
        count = min(most, self.due[shard])
        self.due[shard] -= count
        self.claimed.append((shard, count))
        self._turn_ms[shard] = self.clock.now_us() / 1000
        return Batch(
            [self._invocation(shard) for _ in range(count)],
            self._turn_ms[shard] if self.due[shard] else None,
            self.due[shard] > 0,
            0,
        )

    async def ack(self, shard: int, acks: Sequence[Ack]) -> list[int]:
        error = self.acks.pop(0) if self.acks else None
        if error is not None:
            raise error
        return [1] * len(acks)

    def _invocation(self, shard: int) -> Invocation:
        self._number += 1
        request = Request(0, "GET", "http://example.com/")
        schedule_id = f"sch_{self._number:026}"
        return Invocation(shard, f"acc_{shard:02d}_x", schedule_id, "1", 1, math.inf, request)


class Desk:
    """A claimer over scripted shards, all its own; what it claims is held until `finish`."""

    def __init__(self, due: dict[int, int], slots: int) -> None:
        clock = StoreClock()
        self.claims = ScriptedClaims(clock, due)
        self.store = cast(
            "Store",
            SimpleNamespace(
                clock=clock, claims=self.claims, shards=SimpleNamespace(count=len(due))
            ),
        )
        self.holdings = Holdings(slots)
        self.touch = Touch(LEASE_MS, LEASE_MS)
        presence = cast("Presence", SimpleNamespace(shards=frozenset(due)))
        self.fired: list[Invocation] = []
        self.claimer = Claimer(
            self.store,
            self.holdings,
            presence,
            self.touch,
            lease_ms=LEASE_MS,
            ahead_ms=25,
            claimed=lambda batch: self.fired.extend(batch.invocations),
            looked=lambda: None,
        )

    async def turn(self) -> None:
        """One step, and the claims it started."""
        await self.claimer.step()
        for _ in range(5):
            await asyncio.sleep(0)

    def finish(self) -> None:
        self.holdings.remove(self.fired)
        self.fired.clear()
        self.claimer.wake()


@pytest.mark.parametrize(("slots", "turns"), [(64, 6), (1, 14)])
async def test_a_backlog_in_one_shard_does_not_keep_another_waiting(slots: int, turns: int) -> None:
    desk = Desk({0: 10_000, 1: 5}, slots)
    for _ in range(turns):
        await desk.turn()
        desk.finish()

    assert desk.claims.due[1] == 0
    assert 0 < sum(count for shard, count in desk.claims.claimed if shard == 0) < 10_000


async def test_a_shard_that_is_away_leaves_the_others_alone() -> None:
    desk = Desk({0: 3, 1: 3}, slots=64)
    desk.claims.away.add(0)
    for _ in range(4):
        await desk.turn()

    assert desk.touch.lost == {0}
    assert desk.claims.due == {0: 3, 1: 0}

    desk.claims.away.clear()
    desk.touch.regain(0)
    assert desk.touch.has_grace(0)
    assert not desk.touch.has_grace(1)


@pytest.mark.parametrize("error", [StoreUnavailable("read only"), StoreError("whatever it is")])
async def test_an_ack_is_repeated_until_the_store_takes_it(error: StoreError) -> None:
    desk = Desk({0: 1}, slots=4)
    await desk.turn()
    acks = Acks(desk.store, desk.holdings, desk.touch, desk.claimer.wake)
    desk.claims.acks = [error, error, None]

    acks.add(Ack(desk.fired[0], Outcome(Status.COMPLETED, 200, 1, ""), 0))
    await asyncio.sleep(0)
    assert len(desk.holdings) == 1
    await asyncio.wait_for(desk.holdings.emptied(), 5)

    assert desk.claims.acks == []
    assert desk.touch.lost == {0}, "until it is recovered, nothing more is claimed there"
