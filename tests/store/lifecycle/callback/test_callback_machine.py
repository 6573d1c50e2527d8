"""Any order of ends, claims, answers, releases, extensions, repeats and time: callbacks do what a
model of a few lines does."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, multiple, rule

from scheduler.callbacks import Callback
from scheduler.errors import Conflict
from scheduler.models import Invocation
from scheduler.store import keys
from scheduler.store.lifecycle.callback.callbacks import CallbackAck
from scheduler.store.verdict import Verdict
from tests.store.losses import REPLY
from tests.store.scene import COMPLETED, FAILED, Scene, settled
from tests.store.whole.machines import (
    Life,
    LifeMachine,
    as_tests,
    invocations,
    leases,
    losses,
    schedules,
)
from tests.support.plain import redis_of

CREDITS = 1000


class CallbackMachine(LifeMachine):
    @initialize()
    def start(self) -> None:
        self.begin()
        self.scene = self.run(Scene.of(self.store, self.clock, CREDITS))
        self.model: dict[str, Life] = {}

    @rule(target=schedules, outcome=st.sampled_from([COMPLETED, FAILED]), lost=losses)
    def end(self, outcome: Any, lost: str) -> str:
        """What a claim brings besides is given back."""
        made: str = self.run(self.scene.create(callback=Callback("https://example.com/ended")))
        claimed = self.claimed(5000, 1)
        [held] = [each for each in claimed if not each.is_callback]
        for each in claimed:
            if each.is_callback:
                self.release(each)
        self.repeated(lambda: self.scene.ack([held], outcome), lost)
        self.model[made] = Life(self.clock.ms)
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
            life = self.model[each.schedule_id]
            life.begin(each)
            assert each.attempt == life.attempts + 1
        return found

    @rule(target=invocations, lease_ms=leases)
    def claim(self, lease_ms: int) -> Any:
        return multiple(*self.claimed(lease_ms))

    @rule(call=invocations, wait_ms=st.sampled_from([None, 1, 30]), lost=losses)
    def answer(self, call: Invocation, wait_ms: int | None, lost: str) -> None:
        life, outcome = self.model[call.schedule_id], FAILED if wait_ms else COMPLETED
        holds = life.is_held_by(call)
        due_ms = wait_ms and self.clock.ms + wait_ms
        acks = [CallbackAck(call, outcome, due_ms)]
        [verdict] = self.repeated(lambda: self.store.callbacks.ack(0, acks), lost)
        if holds:
            assert verdict == Verdict.DONE or lost == REPLY
            life.attempts, life.is_open = call.attempt, due_ms is not None
            life.wait(due_ms or 0)
        else:
            assert verdict in (Verdict.ENDED, Verdict.HELD)

    @rule(schedule_id=schedules)
    def send_again(self, schedule_id: str) -> None:
        account_id, is_open = self.scene.account_id, self.model[schedule_id].is_open
        found = self.run(settled(lambda: self.store.callbacks.resend(account_id, schedule_id)))
        assert isinstance(found, Conflict) == is_open
        if not is_open:
            self.model[schedule_id] = Life(self.clock.ms)

    @invariant()
    def the_store_is_as_the_model(self) -> None:
        ends_ms = {name[4:]: each.visible_at_us / 1000 for name, each in self.open()}
        held = {name[4:]: ends_ms[name[4:]] for name, each in self.open() if each.held}
        assert self.scores(self.scene.base + keys.CALLBACKS) == ends_ms
        assert self.scores(self.scene.base + keys.CALLING) == held
        for name, life in self.model.items():
            found = self.run(self.scene.get(name)).callback
            status = "pending" if life.is_open else "delivered"
            assert (found.status, found.attempts) == (status, life.attempts)
            age_ms = self.run(redis_of(self.store).pttl(self.scene.key(name)))
            assert (age_ms == -1) == life.is_open

    def at_the_end(self) -> None:
        assert self.run(self.store.check()) == []


TestCallbackMachine = as_tests(CallbackMachine, steps=50)
