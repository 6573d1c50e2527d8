"""Any order of creates, claims, acks, releases, extensions, cancellations and time: the store does
what a model of a few lines does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import ExitStack
from typing import Any, TypeVar

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
)

from scheduler.errors import Conflict, InsufficientCredits
from scheduler.models import Invocation, Outcome, Plan, Status
from scheduler.settings import Settings
from tests.scheduler.clocks import FakeClock, fakeredis_time
from tests.scheduler.conftest import open_fake
from tests.scheduler.scene import Scene, settled

T = TypeVar("T")

ACCOUNTS, CREDITS = 2, 6
accounts = st.integers(0, ACCOUNTS - 1)
leases = st.sampled_from([5, 50, 1000])


class Modelled(msgspec.Struct):
    """A schedule as it should be."""

    account: int
    trigger_at_ms: int
    visible_at_ms: int
    token: str | None = None
    attempts: int = 0
    status: Status = Status.SCHEDULED


class StoreMachine(RuleBasedStateMachine):
    schedules = Bundle("schedules")
    invocations = Bundle("invocations")

    @initialize()
    def start(self) -> None:
        self.clock = FakeClock()
        self.stack = ExitStack()
        self.stack.enter_context(fakeredis_time(self.clock))
        self.runner = self.stack.enter_context(asyncio.Runner())
        self.store = self.run(open_fake(Settings(shards=1)))
        self.scenes = [self.run(self.new_account(n)) for n in range(ACCOUNTS)]
        self.credits = [CREDITS] * ACCOUNTS
        self.spent = [0] * ACCOUNTS
        self.model: dict[str, Modelled] = {}

    def run(self, call: Awaitable[T]) -> T:
        async def awaited() -> T:
            return await call

        return self.runner.run(awaited())

    async def new_account(self, number: int) -> Scene:
        account = await self.store.accounts.create(f"{number}", credits=CREDITS, plan=Plan.FREE)
        return Scene(self.store, self.clock, account.account_id)

    @rule(target=schedules, account=accounts, due_in_ms=st.integers(-100, 100))
    def create(self, account: int, due_in_ms: int) -> Any:
        result = self.run(settled(lambda: self.scenes[account].create(due_in_ms)))
        if self.credits[account] == 0:
            assert isinstance(result, InsufficientCredits)
            return multiple()
        due_ms = self.clock.ms + due_in_ms
        self.model[result] = Modelled(account, due_ms, due_ms)
        self.credits[account] -= 1
        self.spent[account] += 1
        return result

    @rule(account=accounts, credits=st.integers(1, 3))
    def grant(self, account: int, credits: int) -> None:
        self.run(self.store.accounts.grant(self.scenes[account].account_id, credits))
        self.credits[account] += credits

    @rule(
        target=invocations,
        most=st.integers(1, 5),
        lease_ms=leases,
        grace_ms=st.sampled_from([0, 0, 0, 20]),
    )
    def claim(self, most: int, lease_ms: int, grace_ms: int) -> Any:
        due = {name for name, each in self.model.items() if self.is_due(each)}
        fresh = {name for name in due if self.model[name].token is None}
        claimed = self.run(self.scenes[0].claim(most=most, lease_ms=lease_ms, grace_ms=grace_ms))
        names = {each.schedule_id for each in claimed}
        assert len(names) == len(claimed)
        if grace_ms == 0:
            assert names <= due
            assert len(names) == min(most, len(due))
        else:
            assert names <= fresh
            self.prolong(due - fresh, self.clock.ms + grace_ms)
        for each in claimed:
            modelled = self.model[each.schedule_id]
            modelled.attempts += 1
            assert each.attempt == modelled.attempts
            modelled.token = each.token
            modelled.visible_at_ms = self.clock.ms + lease_ms
        return multiple(*claimed)

    def is_due(self, each: Modelled) -> bool:
        return each.status is Status.SCHEDULED and each.visible_at_ms <= self.clock.ms

    def prolong(self, names: set[str], until_ms: int) -> None:
        """Of the ended leases a claim may have reached only some: the store says which."""
        for name in names:
            scene = self.scenes[self.model[name].account]
            visible_at_ms = self.run(scene.visible_at_ms(name))
            assert visible_at_ms in (until_ms, self.model[name].visible_at_ms)
            self.model[name].visible_at_ms = int(visible_at_ms)

    @rule(
        invocation=invocations,
        status=st.sampled_from([Status.COMPLETED, Status.FAILED]),
        ms=st.integers(0, 99),
    )
    def ack(self, invocation: Invocation, status: Status, ms: int) -> None:
        modelled = self.model[invocation.schedule_id]
        [code] = self.run(self.scenes[0].ack([invocation], Outcome(status, 200, ms, "")))
        if modelled.status is not Status.SCHEDULED:
            assert code == 0
        elif modelled.token != invocation.token:
            assert code == -1
        else:
            assert code == 1
            modelled.status, modelled.token = status, None

    @rule(invocation=invocations, lease_ms=leases)
    def extend(self, invocation: Invocation, lease_ms: int) -> None:
        modelled = self.model[invocation.schedule_id]
        lost = self.run(self.store.claims.extend(0, lease_ms, [invocation]))
        assert (lost == []) == (modelled.token == invocation.token)
        if not lost:
            modelled.visible_at_ms = self.clock.ms + lease_ms

    @rule(invocation=invocations)
    def release(self, invocation: Invocation) -> None:
        modelled = self.model[invocation.schedule_id]
        self.run(self.store.claims.release(0, [invocation]))
        if modelled.token == invocation.token:
            modelled.token = None
            modelled.attempts -= 1
            modelled.visible_at_ms = modelled.trigger_at_ms

    @rule(schedule_id=schedules)
    def cancel(self, schedule_id: str) -> None:
        modelled = self.model[schedule_id]
        account_id = self.scenes[modelled.account].account_id
        result = self.run(settled(lambda: self.store.schedules.cancel(account_id, schedule_id)))
        if modelled.status is not Status.SCHEDULED or modelled.token is not None:
            assert isinstance(result, Conflict)
            assert result.status == modelled.status
            return
        self.credits[modelled.account] += 1
        self.spent[modelled.account] -= 1
        assert result == self.credits[modelled.account]
        modelled.status = Status.CANCELLED

    @rule(ms=st.integers(1, 60))
    def time_passes(self, ms: int) -> None:
        self.clock.ms += ms

    @invariant()
    def the_store_is_as_the_model(self) -> None:
        for number, scene in enumerate(self.scenes):
            mine = {n[4:]: m for n, m in self.model.items() if m.account == number}
            open_ = {n: m for n, m in mine.items() if m.status is Status.SCHEDULED}
            waiting, held, ledger = self.run(self.read(scene))
            assert waiting == {n: m.visible_at_ms for n, m in open_.items()}
            assert held == {n: m.trigger_at_ms for n, m in open_.items() if m.token is not None}
            assert ledger == [self.credits[number], self.spent[number]]

    async def read(self, scene: Scene) -> tuple[dict[str, float], dict[str, float], list[int]]:
        client = self.store.client
        waiting = await client.zrange(scene.base + "waiting", 0, -1, withscores=True)
        held = await client.zrange(scene.base + "held", 0, -1, withscores=True)
        ledger = await client.hmget(scene.base + "account", "credits", "spent")
        return (
            {name.decode(): score for name, score in waiting},
            {name.decode(): score for name, score in held},
            [int(value) for value in ledger],
        )

    def teardown(self) -> None:
        if not hasattr(self, "stack"):
            return
        with self.stack:
            try:
                self.compare_logs()
            finally:
                self.run(self.store.aclose())

    def compare_logs(self) -> None:
        for number, scene in enumerate(self.scenes):
            expected = {n: m.status for n, m in self.model.items() if m.account == number}
            listed = self.run(scene.log())
            assert {entry.schedule_id: entry.status for entry in listed} == expected
            assert len(listed) == len(expected)
            self.run(scene.assert_sound())


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(
    max_examples=80,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
