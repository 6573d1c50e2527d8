"""Any order of ends, claims, answers, releases, extensions, repeats and time: callbacks do what a
model of a few lines does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, initialize, invariant, multiple, rule

from scheduler.callbacks import Callback
from scheduler.errors import Conflict, OutcomeUnknown
from scheduler.models import Invocation
from scheduler.store import keys
from scheduler.store.lifecycle.callback.callbacks import CallbackAck
from scheduler.store.verdict import Verdict
from tests.store.losses import COMMAND, REPLY, losing
from tests.store.scene import COMPLETED, FAILED, Scene, settled
from tests.store.whole.machines import EXAMPLES, Machine
from tests.support.plain import redis_of

pytestmark = pytest.mark.timeout(600)
CREDITS = 1000
losses = st.sampled_from(["nothing", "nothing", REPLY, COMMAND])
leases = st.sampled_from([5, 50, 1000])


class Modelled(msgspec.Struct):
    """A callback as it should be; `visible_at_us` is its lease's end while a worker holds it."""

    due_at_ms: int
    visible_at_us: int
    held: bool = False
    status: str = "pending"
    attempts: int = 0

    def is_held_by(self, invocation: Invocation) -> bool:
        tokens = map(int, invocation.token.split(":"))
        return self.held and self.visible_at_us in tokens

    def wait(self, due_at_ms: int) -> None:
        self.held, self.due_at_ms, self.visible_at_us = False, due_at_ms, due_at_ms * 1000


class CallbackMachine(Machine):
    schedules = Bundle("schedules")
    invocations = Bundle("invocations")

    @initialize()
    def start(self) -> None:
        self.begin()
        self.scene = self.run(Scene.of(self.store, self.clock, CREDITS))
        self.model: dict[str, Modelled] = {}

    def due(self) -> set[str]:
        now_us = self.clock.us
        return {
            name
            for name, each in self.model.items()
            if each.status == "pending" and each.visible_at_us <= now_us
        }

    @rule(target=schedules, outcome=st.sampled_from([COMPLETED, FAILED]), lost=losses)
    def end(self, outcome: Any, lost: str) -> str:
        """What a claim brings besides is given back."""
        made: str = self.run(self.scene.create(callback=Callback("https://example.com/ended")))
        claimed = self.claimed(5000, 1)
        [held] = [each for each in claimed if not each.is_callback]
        self.release_all([each for each in claimed if each.is_callback])
        self.repeated(lambda: self.scene.ack([held], outcome), lost)
        self.model[made] = Modelled(self.clock.ms, self.clock.ms * 1000)
        return made

    def claimed(self, lease_ms: int, others: int = 0) -> list[Invocation]:
        """By claims until nothing is due."""
        found: list[Invocation] = []
        due = self.due()
        self.clock.more_us += 1  # no two leases end at the same moment
        while some := self.run(self.scene.claim(most=20, lease_ms=lease_ms)):
            found += some
        calls = [each for each in found if each.is_callback]
        assert {each.schedule_id for each in calls} == due
        assert len(calls) == len(due) == len(found) - others
        for each in calls:
            modelled = self.model[each.schedule_id]
            assert (each.attempt, each.due_at_ms) == (modelled.attempts + 1, modelled.due_at_ms)
            modelled.held, modelled.visible_at_us = True, int(each.token)
        return found

    @rule(target=invocations, lease_ms=leases)
    def claim(self, lease_ms: int) -> Any:
        return multiple(*self.claimed(lease_ms))

    def repeated(self, call: Callable[[], Awaitable[Any]], lost: str) -> Any:
        """What came of a call; of its repeat, if its reply was lost."""
        with losing(self.store, lost):
            found = self.run(settled(call))
        if lost == "nothing":
            return found
        assert isinstance(found, OutcomeUnknown)
        return self.run(call())

    @rule(call=invocations, wait_ms=st.sampled_from([None, 1, 30]), lost=losses)
    def answer(self, call: Invocation, wait_ms: int | None, lost: str) -> None:
        modelled, outcome = self.model[call.schedule_id], FAILED if wait_ms else COMPLETED
        holds = modelled.is_held_by(call)
        due_ms = wait_ms and self.clock.ms + wait_ms
        acks = [CallbackAck(call, outcome, due_ms)]
        [verdict] = self.repeated(lambda: self.store.callbacks.ack(0, acks), lost)
        if holds:
            assert verdict == Verdict.DONE or lost == REPLY
            modelled.attempts = call.attempt
            modelled.status = "pending" if wait_ms else "delivered"
            modelled.wait(due_ms or 0)
        else:
            assert verdict in (Verdict.ENDED, Verdict.HELD)

    @rule(call=invocations, lease_ms=leases, lost=losses)
    def extend(self, call: Invocation, lease_ms: int, lost: str) -> None:
        self.clock.more_us += 1
        modelled = self.model[call.schedule_id]
        holds, ends_us = modelled.is_held_by(call), self.clock.us + lease_ms * 1000
        with losing(self.store, lost):
            gone = self.run(settled(lambda: self.store.claims.extend(0, lease_ms, [call])))
        if holds and lost != COMMAND:
            modelled.visible_at_us = ends_us
        assert lost != "nothing" or (gone == []) == holds

    @rule(call=invocations)
    def release(self, call: Invocation) -> None:
        self.release_all([call])

    def release_all(self, calls: list[Invocation]) -> None:
        self.run(self.scene.release(calls))
        for each in calls:
            modelled = self.model[each.schedule_id]
            if modelled.is_held_by(each):
                modelled.wait(each.due_at_ms)

    @rule(schedule_id=schedules)
    def send_again(self, schedule_id: str) -> None:
        modelled, account_id = self.model[schedule_id], self.scene.account_id
        found = self.run(settled(lambda: self.store.callbacks.resend(account_id, schedule_id)))
        assert isinstance(found, Conflict) == (modelled.status == "pending")
        if modelled.status != "pending":
            self.model[schedule_id] = Modelled(self.clock.ms, self.clock.ms * 1000)

    @rule(ms=st.integers(1, 60))
    def time_passes(self, ms: int) -> None:
        self.clock.ms += ms

    @invariant()
    def the_store_is_as_the_model(self) -> None:
        pending = {n[4:]: m for n, m in self.model.items() if m.status == "pending"}
        places, ages = self.run(self.read())
        assert places["callbacks"] == {n: m.visible_at_us / 1000 for n, m in pending.items()}
        held = {n: m.visible_at_us / 1000 for n, m in pending.items() if m.held}
        assert places["calling"] == held
        for name, modelled in self.model.items():
            found = self.run(self.scene.get(name)).callback
            assert (found.status, found.attempts) == (modelled.status, modelled.attempts)
            assert (ages[name] == -1) == (modelled.status == "pending")

    async def read(self) -> tuple[dict[str, dict[str, float]], dict[str, int]]:
        client, places = redis_of(self.store), {}
        for name in (keys.CALLBACKS, keys.CALLING):
            found = await client.zrange(self.scene.base + name, 0, -1, withscores=True)
            places[name] = {member.decode(): score for member, score in found}
        return places, {name: await client.pttl(self.scene.key(name)) for name in self.model}

    def at_the_end(self) -> None:
        assert self.run(self.store.check()) == []


TestCallbackMachine = pytest.mark.slow(CallbackMachine.TestCase)
TestCallbackMachine.settings = settings(
    max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow]
)
