"""Any order of what owners and workers do with recurring schedules, of lost replies, lost workers
and empty accounts: no slot of a rule has two occurrences, and none is passed over in silence."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, NamedTuple

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, consumes, initialize, invariant, multiple, rule

from scheduler import ids
from scheduler.errors import Conflict, InsufficientCredits, InvalidRequest, NotFound
from scheduler.lane_settings import Pause
from scheduler.models import Idempotency, Invocation, LogStatus, Request
from scheduler.recurrence.recurrence import Timing
from scheduler.recurrence.recurring import Draft, Rule, RuleState
from scheduler.store.heads import heads_of, read_recurring
from scheduler.store.queries.listing import Selection
from scheduler.store.stored import CANCELLED
from tests.store.scene import URL, Scene, settled
from tests.store.whole.machines import Machine, as_tests, invocations, losses
from tests.support.plain import redis_of

CREDITS = 8
intervals = st.sampled_from([1000, 3000, 10_000])


class Modelled(msgspec.Struct):
    """A rule, of which every slot after `since_ms` is owed an occurrence or an entry in the log.
    `owed` are earlier ones, of which the log of a blocked rule has only the first. `began_ms`: when
    it got its times. `resumes_ms`: when its pause ends by itself."""

    timing: Timing
    since_ms: int
    began_ms: int
    owed: set[int] = set()
    resumes_ms: int | None = None

    def slots(self, until_ms: int) -> list[int]:
        every_ms = self.timing.every_ms or 1
        first_ms = (self.since_ms - self.timing.anchor_ms) // every_ms * every_ms + every_ms
        return [*range(self.timing.anchor_ms + first_ms, until_ms + 1, every_ms)]


class Occurrence(NamedTuple):
    """A schedule with a slot, as it is stored."""

    recurring_id: str
    slot_ms: int
    schedule_id: str
    is_cancelled: bool
    has_ended: bool


class RuleMachine(Machine):
    rules = Bundle("rules")

    @initialize(target=rules, every_ms=intervals)
    def start(self, every_ms: int) -> Any:
        self.begin()
        self.recurring = self.store.recurring
        self.scene = self.run(Scene.of(self.store, self.clock, CREDITS))
        self.account_id = self.scene.account_id
        self.model: dict[str, Modelled] = {}
        self.calls = 0
        # Rules of which an occurrence ended without an advance: they are looked after later.
        self.left: set[str] = set()
        self.claimed: set[str] = set()
        return self.create(every_ms, None, "nothing")

    def read(self, recurring_id: str) -> Rule:
        found: Rule = self.run(self.recurring.read(self.account_id, recurring_id))
        return found

    def told(self, call: Any, recurring_id: str, lost: str, *change: Any) -> Any:
        """What an owner's call comes to, about a rule."""
        return self.repeated(lambda: call(self.account_id, recurring_id, *change), lost)

    @rule(target=rules, every_ms=intervals, lane=st.sampled_from([None, "a"]), lost=losses)
    def create(self, every_ms: int, lane: str | None, lost: str) -> Any:
        self.calls += 1
        once = Idempotency(f"{self.calls}", "the same")
        draft = Draft(Request(0, "POST", URL, lane=lane), Timing(every_ms=every_ms))
        has_credit = self.run(self.scene.credits()) > 0
        made = self.repeated(lambda: self.recurring.create(self.account_id, draft, once), lost)
        if not has_credit:
            assert isinstance(made, InsufficientCredits)
            return multiple()
        self.model[made.rule.recurring_id] = Modelled(
            made.rule.timing, self.clock.ms, self.clock.ms
        )
        return made.rule.recurring_id

    @rule(target=invocations, most=st.integers(1, 5), lease_ms=st.sampled_from([500, 5000]))
    def claim(self, most: int, lease_ms: int) -> Any:
        self.clock.more_us += 1  # no two leases end at the same moment
        held = self.run(self.scene.claim(most=most, lease_ms=lease_ms))
        self.claimed |= {each.schedule_id for each in held}
        return multiple(*held)

    @rule(target=invocations, recurring_id=rules)
    def come_due(self, recurring_id: str) -> Any:
        """Its occurrence, and a worker claims it."""
        if due_ms := self.read(recurring_id).slot_ms:
            self.clock.ms = max(self.clock.ms, due_ms)
            self.run(self.store.tick())
        return self.claim(5, 5000)

    @rule(held=st.lists(invocations, min_size=1, max_size=4, unique_by=id), lost=losses)
    def advance(self, held: list[Invocation], lost: str) -> None:
        """Also by a worker whose leases have ended; and again by the one that takes them over."""
        self.repeated(lambda: self.recurring.advance(held), lost)
        self.run(self.recurring.advance(held))

    @rule(held=consumes(invocations), old=st.sampled_from([False] * 5 + [True]))
    def fire(self, held: Invocation, old: bool) -> None:
        """An old worker knows of no rules."""
        mark = held.request.recurring
        if not old:
            self.run(self.recurring.advance([held]))
        elif mark is not None:
            self.left.add(mark.recurring_id)
        self.run(self.scene.ack([held]))

    @rule(held=consumes(invocations))
    def release(self, held: Invocation) -> None:
        self.run(self.store.claims.release(0, [held]))

    @rule(held=consumes(invocations))
    def retry(self, held: Invocation) -> None:
        self.run(self.recurring.advance([held]))
        self.run(self.scene.retry([held], 700))

    @rule(recurring_id=rules, lost=losses)
    def cancel(self, recurring_id: str, lost: str) -> None:
        if waiting := self.read(recurring_id).schedule_id:
            done = self.repeated(lambda: self.scene.cancel(waiting), lost)
            if not isinstance(done, Conflict):
                assert {each.recurring_id for each in done.each} <= {recurring_id, None}

    @rule()
    def cancel_all(self) -> None:
        self.run(self.store.canceller.waiting(self.account_id, Selection(limit=100)))

    @rule(recurring_id=rules, in_ms=st.integers(-500, 8000))
    def put_off(self, recurring_id: str, in_ms: int) -> None:
        """Another triggerAt of the occurrence that waits."""
        if waiting := self.read(recurring_id).schedule_id:
            due_ms = self.clock.ms + in_ms
            self.run(settled(lambda: self.scene.change(waiting, trigger_at_ms=due_ms)))

    @rule(recurring_id=rules, method=st.sampled_from(["PUT", "PATCH"]), lost=losses)
    def change(self, recurring_id: str, method: str, lost: str) -> None:
        def changed(now: Rule) -> Draft:
            request = msgspec.structs.replace(now.request, method=method)
            return Draft(request, now.timing, now.name)

        found = self.told(self.recurring.change, recurring_id, lost, changed)
        assert found.request.method == method

    @rule(recurring_id=rules, every_ms=intervals, lost=losses)
    def retime(self, recurring_id: str, every_ms: int, lost: str) -> None:
        def changed(now: Rule) -> Draft:
            return Draft(now.request, Timing(every_ms=every_ms), now.name)

        before, stood = self.model[recurring_id], self.read(recurring_id)
        found = self.told(self.recurring.change, recurring_id, lost, changed)
        if before.timing != found.timing:
            self.compare_stopped(recurring_id, stood)
            since_ms = self.settled_ms(found, self.clock.ms)
            self.model[recurring_id] = Modelled(found.timing, since_ms, self.clock.ms)

    @rule(recurring_id=rules, in_ms=st.integers(-5000, 5000), lost=losses)
    def end(self, recurring_id: str, in_ms: int, lost: str) -> None:
        """Gives it an end, and takes that away again: the end moves no occurrence."""
        stood, change = self.read(recurring_id), self.recurring.change
        ends: list[int | None] = [self.clock.ms + in_ms]

        def changed(now: Rule) -> Draft:
            timing = msgspec.structs.replace(now.timing, ends_at_ms=ends[-1])
            return Draft(now.request, timing, now.name)

        done = self.told(change, recurring_id, lost, changed)
        if isinstance(done, InvalidRequest):
            return
        since_ms = self.model[recurring_id].since_ms
        self.compare_stopped(recurring_id, stood)
        self.model[recurring_id].since_ms = since_ms  # a late occurrence keeps its slot
        ends.append(None)
        self.run(change(self.account_id, recurring_id, changed))

    @rule(recurring_id=rules, lost=losses, for_ms=st.sampled_from([None, 500, 2000, 20_000]))
    def pause(self, recurring_id: str, lost: str, for_ms: int | None) -> None:
        stood = self.read(recurring_id)
        until_ms = None if for_ms is None else self.clock.ms + for_ms
        found = self.told(self.recurring.pause, recurring_id, lost, Pause("us", until_ms))
        self.compare_stopped(recurring_id, stood)
        self.model[recurring_id].resumes_ms = until_ms
        assert found.pause is not None
        assert found.pause.until_ms == until_ms
        assert (found.state, found.schedule_id) == (RuleState.PAUSED, None) or found.schedule_id

    @rule(recurring_id=rules, lost=losses)
    def resume(self, recurring_id: str, lost: str) -> None:
        was_paused = self.read(recurring_id).state is RuleState.PAUSED
        found = self.told(self.recurring.resume, recurring_id, lost)
        assert found.state is not RuleState.PAUSED
        if was_paused:
            self.resumed(recurring_id, found)

    @rule(recurring_id=consumes(rules), lost=losses)
    def delete(self, recurring_id: str, lost: str) -> None:
        stood = self.read(recurring_id)
        self.told(self.recurring.delete, recurring_id, lost)
        self.compare_stopped(recurring_id, stood)
        gone = self.run(settled(lambda: self.recurring.read(self.account_id, recurring_id)))
        assert isinstance(gone, NotFound)
        del self.model[recurring_id]

    @rule(recurring_id=rules)
    def trigger(self, recurring_id: str) -> None:
        self.told(self.recurring.trigger, recurring_id, "nothing")

    @rule(credits=st.integers(1, 4))
    def grant(self, credits: int) -> None:
        self.run(self.store.accounts.grant(self.account_id, credits))

    @rule(ms=st.one_of(st.integers(1, 1500), st.sampled_from([5000, 30_000, 70_000])))
    def time_passes(self, ms: int) -> None:
        self.clock.ms += ms
        self.run(self.store.tick())

    @rule(lost=losses)
    def tend(self, lost: str) -> None:
        self.repeated(lambda: self.recurring.tend_due(0), lost)

    @invariant()
    def no_slot_has_two_occurrences(self) -> None:
        slots = Counter(each[:2] for each in self.occurrences() if not each.is_cancelled)
        assert all(count == 1 for count in slots.values()), slots

    @invariant()
    def no_rule_has_two_occurrences_ahead(self) -> None:
        """One with a slot waits at a time, but for those that a worker has had."""
        ahead = Counter(
            each.recurring_id
            for each in self.occurrences()
            if not each.has_ended and each.schedule_id not in self.claimed
        )
        assert all(count == 1 for count in ahead.values()), ahead

    def resumed(self, recurring_id: str, now: Rule) -> None:
        """As of the end of its pause, if that has come."""
        modelled = self.model[recurring_id]
        at_ms = min(self.clock.ms, modelled.resumes_ms or self.clock.ms)
        modelled.since_ms, modelled.resumes_ms = self.settled_ms(now, at_ms), None

    def settled_ms(self, now: Rule, at_ms: int) -> int:
        """New times begin now, or after the newest slot that was sent: its owner may have moved it
        forward. One that a worker holds counts as sent, unless it waits again and was changed."""
        sent = (
            each.slot_ms
            for each in self.occurrences()
            if each.recurring_id == now.recurring_id
            and each.schedule_id in self.claimed
            and each.schedule_id != now.schedule_id
            and not each.is_cancelled
        )
        return max([at_ms, *sent])

    def occurrences(self) -> list[Occurrence]:
        client, found = redis_of(self.store), []
        for name in self.run(client.keys(self.scene.base + "[0-7]*")):
            packed, ended = self.run(client.hmget(name, "r", "o"))
            mark = heads_of(packed).recurring
            if mark and (one := read_recurring(mark)).slot_ms is not None:
                schedule_id = ids.schedule_id(name.decode()[-26:])
                is_cancelled = ended is not None and ended[7] == CANCELLED
                what = one.recurring_id, one.slot_ms, schedule_id
                found.append(Occurrence(*what, is_cancelled, ended is not None))
        return found

    def compare(self, recurring_id: str) -> None:
        """Brings the rule up to date, and looks for the slots that it owes."""
        modelled = self.model[recurring_id]
        while self.run(self.recurring.tend_due(0)):
            pass
        if recurring_id in self.left:
            self.run(self.recurring.tend(self.account_id, [recurring_id]))
        now = self.read(recurring_id)
        mine = [each for each in self.occurrences() if each.recurring_id == recurring_id]
        waiting = [each.schedule_id for each in mine if not each.has_ended]
        if now.state in (RuleState.PAUSED, RuleState.BLOCKED):
            assert now.schedule_id is None or now.schedule_id in waiting
        if now.state is RuleState.PAUSED:
            assert self.clock.ms < (modelled.resumes_ms or math.inf)
            return
        if modelled.resumes_ms is not None:
            self.resumed(recurring_id, now)
        assert now.slot_ms is not None
        assert now.slot_ms >= modelled.since_ms
        if now.state is RuleState.ACTIVE:
            assert now.schedule_id in waiting
        before_ms = now.slot_ms - (now.state is RuleState.BLOCKED)
        modelled.owed |= {*modelled.slots(before_ms)}
        modelled.since_ms = before_ms
        in_silence = self.in_silence(recurring_id)
        if now.state is RuleState.BLOCKED:
            # Of a stretch the first one is told at once, and the others as it ends.
            assert len(in_silence) <= max(0, now.missed - 1), (in_silence, now)
        else:
            assert not in_silence

    def compare_stopped(self, recurring_id: str, stood: Rule) -> None:
        """It got other times, or stopped, as of now: all that came up by then has been told. Of
        what a worker of an older version has sent the slot alone is known."""
        modelled = self.model[recurring_id]
        if stood.state in (RuleState.ACTIVE, RuleState.BLOCKED):
            modelled.owed |= {*modelled.slots(self.clock.ms)}
        modelled.since_ms = max(modelled.since_ms, self.clock.ms)
        assert not (silent := self.in_silence(recurring_id)), (sorted(silent), stood)
        modelled.owed = set()

    def in_silence(self, recurring_id: str) -> set[int]:
        """Those of its slots that are owed and have neither an occurrence nor an entry. None has
        two, but for a cancelled occurrence."""
        modelled = self.model[recurring_id]
        mine = [each for each in self.occurrences() if each.recurring_id == recurring_id]
        told = Counter(self.skipped(recurring_id, modelled))
        told.update(each.slot_ms for each in mine if not each.is_cancelled)
        twice = {slot_ms for slot_ms, count in told.items() if count > 1}
        assert not {slot_ms for slot_ms in twice if slot_ms > modelled.began_ms}, sorted(twice)
        return modelled.owed - told.keys() - {each.slot_ms for each in mine}

    def skipped(self, recurring_id: str, modelled: Modelled) -> list[int]:
        """The slots that entries of the log stand for, of the times that it has."""
        entries = self.run(self.scene.log(recurring_id=recurring_id, statuses=(LogStatus.SKIPPED,)))
        return [
            entry.scheduled_at_ms + n * (modelled.timing.every_ms or 1)
            for entry in entries
            if entry.scheduled_at_ms > modelled.began_ms
            for n in range(entry.missed)
        ]

    def at_the_end(self) -> None:
        for recurring_id in self.model:
            self.compare(recurring_id)
        self.run(self.scene.assert_sound())


TestRuleMachine = as_tests(RuleMachine)
