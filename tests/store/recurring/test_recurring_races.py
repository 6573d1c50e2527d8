"""Eight clients of two processes at the same rules: claims and advances, cancellations one by one
and in bulk, pauses, changes, deletions, tending and lost replies between. `RACE_ROUNDS=2000` makes
it as long as the promise was judged by."""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from typing import Any

import pytest

from scheduler import ids
from scheduler.errors import (
    Conflict,
    InsufficientCredits,
    NotFound,
    StoreError,
    Unreadable,
)
from scheduler.lane_settings import Pause
from scheduler.recurrence.recurrence import Timing
from scheduler.recurrence.recurring import RuleState
from scheduler.store import Store, keys
from scheduler.store.queries.listing import Selection
from tests.store.losses import lossy
from tests.store.recurring.rules import draft
from tests.store.scene import LEASE_MS, Scene

pytestmark = [pytest.mark.sound, pytest.mark.timeout(900)]
ROUNDS = int(os.environ.get("RACE_ROUNDS", "30"))
NAMES = ("a", "b", "c")
# Slots come as fast as rounds do: a claim looks far ahead, and so fires each as soon as it waits.
EVERY = [Timing(every_ms=each) for each in (60_000, 90_000)]
AHEAD_MS = 10**10
_ALL = Selection(limit=1000)


class Race:
    def __init__(self, scene: Scene, stores: list[Store], seed: int) -> None:
        self.scene, self.stores, self.random = scene, stores, random.Random(seed)
        self.fired = Counter[tuple[str, int]]()
        self.acts: list[Any] = [self.fire] * 3 + [self.cancel, self.cancel, self.cancel_all]
        self.acts += [self.put] * 3 + [self.pause, self.resume, self.resume, self.delete, self.tend]
        self.acts += [self.trigger, self.credit]

    def store(self) -> Store:
        return self.random.choice(self.stores)

    async def rule(self) -> str:
        """One of them."""
        name = self.random.choice(NAMES)
        found = await self.scene.store.recurring.by_name(self.scene.account_id, name)
        return found.recurring_id

    async def fire(self) -> None:
        """As a worker does. Some are put back before they are sent, and some workers die."""
        store, end = self.store(), self.random.random()
        lease_ms = 5 if end < 0.2 else LEASE_MS
        claim = store.claims.claim(self.scene.shard, lease_ms=lease_ms, most=128, ahead_ms=AHEAD_MS)
        held = (await claim).invocations
        try:
            await store.recurring.advance(held)
        except StoreError:
            end = 0.3
        if end < 0.2:
            return
        if end < 0.4:
            await store.claims.release(self.scene.shard, held)
            return
        for each in held:
            mark = each.request.recurring
            if mark.slot_ms is not None:
                self.fired[mark.recurring_id, mark.slot_ms] += 1
        await self.scene.ack(held)

    async def cancel(self) -> None:
        rule = await self.scene.store.recurring.by_name(
            self.scene.account_id, self.random.choice(NAMES)
        )
        if rule.schedule_id is not None:
            await self.store().canceller.cancel(self.scene.account_id, rule.schedule_id)
            await self.some_tend(rule.recurring_id)

    async def cancel_all(self) -> None:
        store = self.store()
        done = await store.canceller.waiting(self.scene.account_id, Selection(limit=2))
        for each in done.each:
            if each.recurring_id is not None:
                await self.some_tend(each.recurring_id)

    async def some_tend(self, rule: str) -> None:
        """A process may die after a cancellation."""
        if self.random.random() < 0.7:
            await self.store().recurring.tend(self.scene.account_id, [rule])

    async def put(self) -> None:
        lane = self.random.choice([None, "a", "b"])
        reference = self.random.choice([None, "x", "y"])
        body = b"x" * self.random.randint(0, 100)
        fields = {"lane": lane, "reference": reference, "body": body}
        wanted = draft(self.random.choice(EVERY), self.random.choice(NAMES), **fields)
        await self.store().recurring.put(self.scene.account_id, wanted.name, lambda _: wanted)

    async def pause(self) -> None:
        await self.store().recurring.pause(self.scene.account_id, await self.rule(), Pause("us"))

    async def resume(self) -> None:
        await self.store().recurring.resume(self.scene.account_id, await self.rule())

    async def delete(self) -> None:
        if self.random.random() < 0.3:
            await self.store().recurring.delete(self.scene.account_id, await self.rule())

    async def trigger(self) -> None:
        await self.store().recurring.trigger(self.scene.account_id, await self.rule())

    async def tend(self) -> None:
        await self.store().recurring.tend_due(self.scene.shard)

    async def credit(self) -> None:
        """They run out now and then."""
        await self.scene.store.accounts.grant(self.scene.account_id, self.random.randint(1, 30))

    async def act(self) -> None:
        try:
            await self.random.choice(self.acts)()
        except Unreadable:
            raise
        except (Conflict, NotFound, StoreError, InsufficientCredits):
            pass

    async def round(self) -> None:
        await asyncio.gather(*(self.act() for _ in range(8)))

    async def settle(self) -> None:
        """All that processes left is tended, and leases of those that died have ended."""
        await self.scene.store.accounts.grant(self.scene.account_id, 1000)
        await asyncio.sleep(0.006)
        due = keys.shard(self.scene.shard) + keys.RULES_DUE
        for _ in range(5):  # also those that are to be looked at later
            for member in await self.scene.redis.zrange(due, 0, -1):
                await self.scene.redis.zadd(due, {member: 0})
            await self.scene.store.recurring.tend_due(self.scene.shard)

    async def judge(self) -> None:
        """No slot was fired twice; each active rule has one occurrence of its next slot."""
        account_id = self.scene.account_id
        twice = {each: count for each, count in self.fired.items() if count > 1}
        assert twice == {}
        rules = (await self.scene.store.recurring.page(account_id, limit=100)).rules
        page = await self.scene.store.unended.page(account_id, _ALL)
        assert page.next_cursor is None
        waiting = {each.schedule_id: each.request.recurring for each in page.schedules}
        slots = Counter(each for each in waiting.values() if each and each.slot_ms)
        assert [each for each, count in slots.items() if count > 1] == []
        assert not {tuple(each) for each in slots} & self.fired.keys()
        for rule in rules:
            assert rule.state in (RuleState.ACTIVE, RuleState.PAUSED)
            if rule.state == RuleState.ACTIVE:
                mark = waiting[str(rule.schedule_id)]
                assert mark == (rule.recurring_id, rule.slot_ms)
        named = {each.name for each in rules}
        assert len(named) == len(rules)
        prefix = self.scene.base + keys.RULE
        left = {key.decode() for key in await self.scene.redis.keys(prefix + "*")}
        assert left == {prefix + ids.local(each.recurring_id) for each in rules}


@pytest.mark.parametrize("seed", range(2))
async def test_no_slot_fires_twice_and_none_is_left_without_an_occurrence(
    scene: Scene, processes: list[Store], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.store.server.server._PAUSES_S", (0.0,) * 20)
    race = Race(scene, processes, seed)
    for each in processes:
        lossy(each, race.random, 0.025, "recurring", "lifecycle/end/end")
    for _ in range(ROUNDS):
        await race.round()
    await race.settle()
    await race.judge()
    assert len(race.fired) > ROUNDS / 2
