"""Any order of creates, claims, acks, retries, releases, extensions, changes, cancellations and
time: the store does what a model of a few lines does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, multiple, rule

from scheduler.errors import Conflict, InsufficientCredits
from scheduler.models import Invocation, Outcome, Plan, Request, Status, Upsert
from scheduler.store.verdict import Verdict
from tests.store.losses import losing
from tests.store.scene import URL, Scene, settled
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

ACCOUNTS, CREDITS = 2, 6
LANES = ("x", "y")
# How often a claim looks past what it leaves to others.
LOOKS = 8

accounts = st.integers(0, ACCOUNTS - 1)
batches = st.lists(invocations, min_size=1, max_size=6)
lanes = st.sampled_from([None, None, *LANES])
moments = st.integers(-100, 100)
named = st.fixed_dictionaries({"reference": st.sampled_from([None, None, "a", "b"]), "lane": lanes})
times_ms = st.integers(0, 99)


class Schedule(Life, kw_only=True):
    """`recorded` are its attempts that failed and were made again: which retry came after each, how
    many attempts there had been, how long the answer took."""

    account: int
    status: Status = Status.SCHEDULED
    recorded: list[tuple[int, int, int]] = msgspec.field(default_factory=list)
    ended_ms: int = 0
    stopped: bool = False
    reference: str | None = None
    lane: str | None = None

    def give_back(self) -> None:
        self.wait(self.due_at_ms)
        self.attempts -= 1

    def end(self, status: Status, ms: int = 0) -> None:
        self.is_open, self.held, self.status, self.ended_ms = False, False, status, ms


class StoreMachine(LifeMachine):
    @initialize()
    def start(self) -> None:
        self.begin()
        self.scenes = [self.run(self.new_account(n)) for n in range(ACCOUNTS)]
        self.granted = [CREDITS] * ACCOUNTS
        self.model: dict[str, Schedule] = {}

    async def new_account(self, number: int) -> Scene:
        account = await self.store.accounts.create(f"{number}", credits=CREDITS, plan=Plan.FREE)
        return Scene(self.store, self.clock, account.account_id)

    def of(self, account: int) -> dict[str, Schedule]:
        return {name: each for name, each in self.model.items() if each.account == account}

    def spent(self, account: int) -> int:
        """One credit for each schedule that was not cancelled."""
        return sum(each.status is not Status.CANCELLED for each in self.of(account).values())

    def credits(self, account: int) -> int:
        return self.granted[account] - self.spent(account)

    @rule(target=schedules, account=accounts, due_in_ms=moments, named=named)
    def create(self, account: int, due_in_ms: int, named: dict[str, Any]) -> Any:
        made = self.run(settled(partial(self.scenes[account].create, due_in_ms, **named)))
        if self.credits(account) == 0:
            assert isinstance(made, InsufficientCredits)
            return multiple()
        self.model[made] = Schedule(self.clock.ms + due_in_ms, account=account, **named)
        return made

    @rule(
        target=schedules,
        account=accounts,
        due_in_ms=moments,
        reference=st.sampled_from(["a", "b"]),
        keep=st.booleans(),
        lane=lanes,
        lost=losses,
    )
    def upsert(
        self,
        account: int,
        due_in_ms: int,
        reference: str,
        keep: bool,
        lane: str | None,
        lost: str,
    ) -> Any:
        due_ms, account_id = self.clock.ms + due_in_ms, self.scenes[account].account_id
        meant = [
            (name, each)
            for name, each in self.open()
            if (each.account, each.reference, each.held) == (account, reference, False)
        ]
        wanted = Upsert(Request(due_ms, "POST", URL, reference=reference, lane=lane), keep)
        with losing(self.store, lost):
            [placed] = self.run(self.store.schedules.create_all(account_id, [wanted])).placed
        if len(meant) > 1:
            assert (placed.verdict, placed.due_ms) == (Verdict.SEVERAL, len(meant))
        elif meant:
            [(name, found)] = meant
            if not keep:
                if found.recorded:
                    found.recorded[-1] = (0, *found.recorded[-1][1:])
                found.wait(due_ms)
                found.lane = lane
            assert placed == (Verdict.EXISTING, name, found.due_at_ms)
        elif self.credits(account) == 0:
            assert placed.verdict == Verdict.UNPAID
        else:
            assert (placed.verdict, placed.due_ms) == (Verdict.DONE, due_ms)
            made = Schedule(due_ms, account=account, reference=reference, lane=lane)
            self.model[placed.schedule_id] = made
            return placed.schedule_id
        return multiple()

    @rule(account=accounts, credits=st.integers(1, 3))
    def grant(self, account: int, credits: int) -> None:
        self.run(self.store.accounts.grant(self.scenes[account].account_id, credits))
        self.granted[account] += credits

    @rule(
        target=invocations,
        most=st.integers(1, 5),
        lease_ms=leases,
        ahead_ms=st.sampled_from([0, 0, 25, -10]),
        taken_over=st.sampled_from(["all", "all", "none", "some"]),
    )
    def claim(self, most: int, lease_ms: int, ahead_ms: int, taken_over: str) -> Any:
        self.clock.more_us += 1  # no two leases end at the same moment
        by_ms = {"all": 2**53, "none": 0, "some": self.clock.ms - 20}[taken_over]
        due = self.due(by_ms, ahead_ms)
        options = {"most": most, "lease_ms": lease_ms, "ahead_ms": ahead_ms}
        claimed = self.run(self.scenes[0].claim(take_over_by_ms=by_ms, **options))
        names = {each.schedule_id for each in claimed}
        assert len(names) == len(claimed)
        assert names <= due
        # Behind the clock, an account's turn may not have come yet.
        if ahead_ms >= 0 and self.left_to_others(due, ahead_ms) < LOOKS:
            assert len(names) == min(most, len(due))
        for each in claimed:
            found = self.model[each.schedule_id]
            found.begin(each)
            found.attempts += 1
            assert each.token == str(self.clock.us + lease_ms * 1000)
            assert (each.attempt, each.lane) == (found.attempts, found.lane)
            before = each.retry and (each.retry.number, each.retry.attempts)
            assert before == (found.recorded[-1][:2] if found.recorded else None)
        return multiple(*claimed)

    def left_to_others(self, due: set[str], ahead_ms: int) -> int:
        """How many ended leases a claim has to look past, at most in one account."""
        until_us = self.clock.us + ahead_ms * 1000
        left = [
            each.account
            for name, each in self.open()
            if each.held and each.visible_at_us <= until_us and name not in due
        ]
        return max(map(left.count, left), default=0)

    def judged(
        self, batch: list[Invocation], is_known: Callable[[Schedule, Invocation], bool]
    ) -> tuple[list[int], list[Invocation]]:
        """The verdict on each row, and the rows that are recorded: those held by their tokens,
        once."""
        verdicts: list[int] = []
        recorded: list[Invocation] = []
        for each in batch:
            found = self.model[each.schedule_id]
            if each in recorded or not found.is_open or is_known(found, each):
                verdicts.append(Verdict.ENDED)
            elif found.is_held_by(each):
                verdicts.append(Verdict.DONE)
                recorded.append(each)
            else:
                verdicts.append(Verdict.HELD)
        return verdicts, recorded

    @rule(
        batch=batches,
        status=st.sampled_from([Status.COMPLETED, Status.FAILED]),
        ms=times_ms,
        lost=losses,
    )
    def ack(self, batch: list[Invocation], status: Status, ms: int, lost: str) -> None:
        verdicts, recorded = self.judged(batch, lambda found, each: False)
        for each in recorded:
            self.model[each.schedule_id].end(status, ms)
        outcome = Outcome(status, 200, ms, "")
        self.compare_codes(lambda: self.scenes[0].ack(batch, outcome), verdicts, lost)

    @rule(batch=batches, wait_ms=st.integers(-20, 100), ms=times_ms, lost=losses)
    def retry(self, batch: list[Invocation], wait_ms: int, ms: int, lost: str) -> None:
        """Rows held by their tokens wait again; recorded ones are known."""

        def is_known(found: Schedule, each: Invocation) -> bool:
            told = ((each.retry.number if each.retry else 0) + 1, each.attempt, ms)
            return found.recorded[-1:] == [told] and not found.is_held_by(each)

        verdicts, recorded = self.judged(batch, is_known)
        for each in recorded:
            found = self.model[each.schedule_id]
            found.wait(self.clock.ms + wait_ms)
            before = found.recorded[-1][0] if found.recorded else 0
            found.recorded.append((before + 1, each.attempt, ms))
        outcome = Outcome(Status.FAILED, 503, ms, "")
        self.compare_codes(lambda: self.scenes[0].retry(batch, wait_ms, outcome), verdicts, lost)

    def compare_codes(
        self, call: Callable[[], Awaitable[list[int]]], expected: list[int], lost: str
    ) -> None:
        codes = self.repeated(call, lost)
        if lost != "nothing":
            expected = [min(code, now) for code, now in zip(expected, codes, strict=True)]
        assert codes == expected

    @rule(schedule_id=schedules, due_in_ms=st.integers(-50, 100), named=named)
    def change(self, schedule_id: str, due_in_ms: int, named: dict[str, Any]) -> None:
        """A new triggerAt moves the next attempt, whichever it is; any other change does not."""
        found, due_ms = self.model[schedule_id], self.clock.ms + due_in_ms
        scene = self.scenes[found.account]
        before = self.run(scene.get(schedule_id))
        fields = {"trigger_at_ms": due_ms, "method": "PUT", **named}
        changed = self.run(settled(lambda: scene.change(schedule_id, **fields)))
        if not found.is_open or found.held:
            assert isinstance(changed, Conflict)
            return
        found.reference, found.lane = named["reference"], named["lane"]
        if due_ms != before.request.trigger_at_ms:
            found.wait(due_ms)
        assert changed == self.run(scene.get(schedule_id))
        assert (changed.due_at_ms, changed.request.method) == (found.due_at_ms, "PUT")

    @rule(schedule_id=schedules)
    def cancel(self, schedule_id: str) -> None:
        found = self.model[schedule_id]
        done = self.run(settled(lambda: self.scenes[found.account].cancel(schedule_id)))
        if found.stopped or found.status is Status.CANCELLED:
            assert done.each[0].repeated
        elif not found.is_open or found.held:
            assert isinstance(done, Conflict)
            assert done.status == found.status
            return
        elif found.recorded:
            _, attempts, ms = found.recorded[-1]
            found.end(Status.FAILED, ms)
            found.stopped = True
            assert done.each[0].stopped.attempts == attempts
        else:
            found.end(Status.CANCELLED)
        assert done.credits == self.credits(found.account)

    @invariant()
    def the_store_is_as_the_model(self) -> None:
        for number, scene in enumerate(self.scenes):
            places = self.places(number)
            assert {name: self.scores(scene.base + name) for name in places} == places
            ledger = redis_of(self.store).hmget(scene.base + "account", "credits", "spent")
            assert [*map(int, self.run(ledger))] == [self.credits(number), self.spent(number)]

    def places(self, account: int) -> dict[str, dict[str, float]]:
        """Where the account's open schedules stand, by the ends of keys."""
        mine = {name[4:]: each for name, each in self.of(account).items() if each.is_open}
        at = {name: each.visible_at_us / 1000 for name, each in mine.items()}
        found: dict[str, dict[str, float]] = {
            "waiting": {name: at[name] for name, each in mine.items() if each.lane is None},
            "laned": {name: at[name] for name, each in mine.items() if each.lane is not None},
            "held": {name: each.due_at_ms for name, each in mine.items() if each.held},
            "references": {
                f"{each.reference}\0{name}": 0
                for name, each in mine.items()
                if each.reference is not None
            },
        }
        for lane in LANES:
            found["lane_queue:" + lane] = {
                name: -at[name] if each.held else at[name]
                for name, each in mine.items()
                if each.lane == lane
            }
        return found

    def at_the_end(self) -> None:
        for number, scene in enumerate(self.scenes):
            mine = self.of(number)
            listed = self.run(scene.log())
            told = sorted((e.schedule_id, e.attempt) for e in listed if e.status == "retrying")
            attempts = [(name, made) for name, each in mine.items() for _, made, _ in each.recorded]
            assert told == sorted(attempts)
            final = sorted((e.schedule_id, e.status) for e in listed if e.status != "retrying")
            assert final == sorted((name, each.status) for name, each in mine.items())
            usage = self.run(scene.store.stats.usage(scene.account_id, 0, self.clock.ms + 1))
            assert usage.total_response_time_ms == sum(each.ended_ms for each in mine.values())
            self.run(scene.assert_sound())


TestStoreMachine = as_tests(StoreMachine)
