"""Any order of creates, claims, acks, retries, releases, extensions, changes, cancellations and
time: the store does what a model of a few lines does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, initialize, invariant, multiple, rule

from scheduler.errors import Conflict, InsufficientCredits, OutcomeUnknown
from scheduler.models import Invocation, Outcome, Plan, Request, Status, Upsert
from scheduler.store.verdict import Verdict
from tests.store.losses import COMMAND, REPLY, losing
from tests.store.scene import URL, Scene, settled
from tests.store.whole.machines import EXAMPLES, Machine
from tests.support.plain import redis_of

# Thousands of calls: on a busy machine that takes a while.
pytestmark = pytest.mark.timeout(600)

ACCOUNTS, CREDITS = 2, 6
accounts = st.integers(0, ACCOUNTS - 1)
leases = st.sampled_from([5, 50, 1000])
references = st.sampled_from([None, None, "a", "b"])
LANES = ("x", "y")
lanes = st.sampled_from([None, None, *LANES])
losses = st.sampled_from(["nothing", "nothing", REPLY, COMMAND])
# How often a claim looks past what it leaves to others.
LOOKS = 8


class Modelled(msgspec.Struct):
    """A schedule as it should be; `visible_at_us` is its lease's end while a worker holds it.
    `recorded` are its attempts that failed and were made again: which retry came after each, how
    many attempts there had been, how long the answer took."""

    account: int
    due_at_ms: int
    visible_at_us: int
    held: bool = False
    attempts: int = 0
    status: Status = Status.SCHEDULED
    recorded: list[tuple[int, int, int]] = []
    ended_ms: int = 0
    stopped: bool = False
    reference: str | None = None
    lane: str | None = None

    def is_held_by(self, invocation: Invocation) -> bool:
        tokens = map(int, invocation.token.split(":"))
        return self.held and self.visible_at_us in tokens


class StoreMachine(Machine):
    schedules = Bundle("schedules")
    invocations = Bundle("invocations")

    @initialize()
    def start(self) -> None:
        self.begin()
        self.scenes = [self.run(self.new_account(n)) for n in range(ACCOUNTS)]
        self.credits = [CREDITS] * ACCOUNTS
        self.spent = [0] * ACCOUNTS
        self.model: dict[str, Modelled] = {}

    async def new_account(self, number: int) -> Scene:
        account = await self.store.accounts.create(f"{number}", credits=CREDITS, plan=Plan.FREE)
        return Scene(self.store, self.clock, account.account_id)

    @rule(
        target=schedules,
        account=accounts,
        due_in_ms=st.integers(-100, 100),
        reference=references,
        lane=lanes,
    )
    def create(self, account: int, due_in_ms: int, reference: str | None, lane: str | None) -> Any:
        create = partial(self.scenes[account].create, due_in_ms, reference=reference, lane=lane)
        result = self.run(settled(create))
        if self.credits[account] == 0:
            assert isinstance(result, InsufficientCredits)
            return multiple()
        due_ms = self.clock.ms + due_in_ms
        self.model[result] = Modelled(
            account, due_ms, due_ms * 1000, reference=reference, lane=lane
        )
        self.credits[account] -= 1
        self.spent[account] += 1
        return result

    @rule(
        target=schedules,
        account=accounts,
        due_in_ms=st.integers(-100, 100),
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
        due_ms, scene = self.clock.ms + due_in_ms, self.scenes[account]
        meant = [
            (name, each)
            for name, each in self.open()
            if (each.account, each.reference, each.held) == (account, reference, False)
        ]
        wanted = Upsert(Request(due_ms, "POST", URL, reference=reference, lane=lane), keep)
        with losing(self.store, lost):
            create = self.store.schedules.create_all(scene.account_id, [wanted])
            [placed] = self.run(create).placed
        if len(meant) > 1:
            assert (placed.verdict, placed.due_ms) == (Verdict.SEVERAL, len(meant))
        elif meant:
            [(name, modelled)] = meant
            if not keep:
                if modelled.recorded:
                    modelled.recorded[-1] = (0, *modelled.recorded[-1][1:])
                modelled.due_at_ms, modelled.visible_at_us = due_ms, due_ms * 1000
                modelled.lane = lane
            assert placed == (Verdict.EXISTING, name, modelled.visible_at_us // 1000)
        elif self.credits[account] == 0:
            assert placed.verdict == Verdict.UNPAID
        else:
            assert (placed.verdict, placed.due_ms) == (Verdict.DONE, due_ms)
            new = Modelled(account, due_ms, due_ms * 1000, reference=reference, lane=lane)
            self.model[placed.schedule_id] = new
            self.credits[account] -= 1
            self.spent[account] += 1
            return placed.schedule_id
        return multiple()

    @rule(account=accounts, credits=st.integers(1, 3))
    def grant(self, account: int, credits: int) -> None:
        self.run(self.store.accounts.grant(self.scenes[account].account_id, credits))
        self.credits[account] += credits

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
        if ahead_ms >= 0 and self.left_to_others(by_ms, ahead_ms) < LOOKS:
            assert len(names) == min(most, len(due))
        for each in claimed:
            modelled = self.model[each.schedule_id]
            modelled.attempts += 1
            assert each.attempt == modelled.attempts
            assert each.token == str(self.clock.us + lease_ms * 1000)
            modelled.held, modelled.visible_at_us = True, int(each.token)
            assert (each.due_at_ms, each.lane) == (modelled.due_at_ms, modelled.lane)
            before = each.retry and (each.retry.number, each.retry.attempts)
            assert before == (modelled.recorded[-1][:2] if modelled.recorded else None)
        return multiple(*claimed)

    def due(self, by_ms: int, ahead_ms: int) -> set[str]:
        """The schedules that a claim may take; of held ones, those that it may take over."""
        now_us = self.clock.us
        by_us = min(now_us, by_ms * 1000)
        return {
            name
            for name, each in self.open()
            if each.visible_at_us <= (by_us if each.held else 2**60)
            and each.visible_at_us <= now_us + ahead_ms * 1000
        }

    def left_to_others(self, by_ms: int, ahead_ms: int) -> int:
        """How many ended leases a claim has to look past, at most in one account."""
        due, until_us = self.due(by_ms, ahead_ms), self.clock.us + ahead_ms * 1000
        left = [
            each.account
            for name, each in self.open()
            if each.held and each.visible_at_us <= until_us and name not in due
        ]
        return max(map(left.count, left), default=0)

    def open(self) -> list[tuple[str, Modelled]]:
        return [each for each in self.model.items() if each[1].status is Status.SCHEDULED]

    @rule(
        batch=st.lists(invocations, min_size=1, max_size=6),
        status=st.sampled_from([Status.COMPLETED, Status.FAILED]),
        ms=st.integers(0, 99),
        lost=losses,
    )
    def ack(self, batch: list[Invocation], status: Status, ms: int, lost: str) -> None:
        """Rows without a valid token get their verdict; the others are recorded once."""
        recorded: list[Invocation] = []
        expected: list[int] = []
        for each in batch:
            modelled = self.model[each.schedule_id]
            if each in recorded or modelled.status is not Status.SCHEDULED:
                expected.append(Verdict.ENDED)
            elif modelled.is_held_by(each):
                expected.append(Verdict.DONE)
                recorded.append(each)
            else:
                expected.append(Verdict.HELD)
        for each in recorded:
            self.model[each.schedule_id].status = status
            self.model[each.schedule_id].held = False
            self.model[each.schedule_id].ended_ms = ms
        outcome = Outcome(status, 200, ms, "")
        self.compare_codes(lambda: self.scenes[0].ack(batch, outcome), expected, lost)

    @rule(
        batch=st.lists(invocations, min_size=1, max_size=6),
        wait_ms=st.integers(-20, 100),
        ms=st.integers(0, 99),
        lost=losses,
    )
    def retry(self, batch: list[Invocation], wait_ms: int, ms: int, lost: str) -> None:
        """Rows held by their tokens wait again; recorded ones are known."""
        recorded: list[Invocation] = []
        expected: list[int] = []
        for each in batch:
            modelled = self.model[each.schedule_id]
            told = ((each.retry.number if each.retry else 0) + 1, each.attempt, ms)
            known = modelled.recorded[-1:] == [told] and not modelled.is_held_by(each)
            if each in recorded or known or modelled.status is not Status.SCHEDULED:
                expected.append(Verdict.ENDED)
            elif modelled.is_held_by(each):
                expected.append(Verdict.DONE)
                recorded.append(each)
            else:
                expected.append(Verdict.HELD)
        for each in recorded:
            modelled = self.model[each.schedule_id]
            modelled.held, modelled.due_at_ms = False, self.clock.ms + wait_ms
            modelled.visible_at_us = modelled.due_at_ms * 1000
            before = modelled.recorded[-1][0] if modelled.recorded else 0
            modelled.recorded.append((before + 1, each.attempt, ms))
        outcome = Outcome(Status.FAILED, 503, ms, "")
        self.compare_codes(lambda: self.scenes[0].retry(batch, wait_ms, outcome), expected, lost)

    def compare_codes(
        self, call: Callable[[], Awaitable[list[int]]], expected: list[int], lost: str
    ) -> None:
        with losing(self.store, lost):
            codes = self.run(settled(call))
        if lost != "nothing":
            assert isinstance(codes, OutcomeUnknown)
            codes = self.run(call())
            expected = [min(code, now) for code, now in zip(expected, codes, strict=True)]
        assert codes == expected

    @rule(schedule_id=schedules, due_in_ms=st.integers(-50, 100), reference=references, lane=lanes)
    def change(
        self, schedule_id: str, due_in_ms: int, reference: str | None, lane: str | None
    ) -> None:
        """A new triggerAt moves the next attempt, whichever it is; any other change does not."""
        modelled, due_ms = self.model[schedule_id], self.clock.ms + due_in_ms
        account_id = self.scenes[modelled.account].account_id
        before = self.run(self.store.schedules.get(account_id, schedule_id))

        def changed(request: Request) -> Request:
            changes = {"trigger_at_ms": due_ms, "method": "PUT", "reference": reference}
            return msgspec.structs.replace(request, lane=lane, **changes)

        result = self.run(
            settled(lambda: self.store.schedules.change(account_id, schedule_id, changed))
        )
        if modelled.status is not Status.SCHEDULED or modelled.held:
            assert isinstance(result, Conflict)
            return
        modelled.reference, modelled.lane = reference, lane
        if due_ms != before.request.trigger_at_ms:
            modelled.due_at_ms, modelled.visible_at_us = due_ms, due_ms * 1000
        assert result == self.run(self.store.schedules.get(account_id, schedule_id))
        assert (result.due_at_ms, result.request.method) == (modelled.due_at_ms, "PUT")

    @rule(invocation=invocations, lease_ms=leases, lost=losses)
    def extend(self, invocation: Invocation, lease_ms: int, lost: str) -> None:
        self.clock.more_us += 1
        modelled = self.model[invocation.schedule_id]
        holds, ends_us = modelled.is_held_by(invocation), self.clock.us + lease_ms * 1000
        with losing(self.store, lost):
            gone = self.run(settled(lambda: self.store.claims.extend(0, lease_ms, [invocation])))
        if lost != "nothing":
            assert isinstance(gone, OutcomeUnknown)
            if holds and lost == REPLY:
                modelled.visible_at_us = ends_us
            assert modelled.is_held_by(invocation) == holds
            return
        assert (gone == []) == holds
        if holds:
            assert invocation.token == str(ends_us)
            modelled.visible_at_us = ends_us

    @rule(invocation=invocations)
    def release(self, invocation: Invocation) -> None:
        modelled = self.model[invocation.schedule_id]
        holds = modelled.is_held_by(invocation)
        self.run(self.store.claims.release(0, [invocation]))
        if holds:
            modelled.held = False
            modelled.attempts -= 1
            modelled.visible_at_us = modelled.due_at_ms * 1000

    @rule(schedule_id=schedules)
    def cancel(self, schedule_id: str) -> None:
        modelled = self.model[schedule_id]
        account_id = self.scenes[modelled.account].account_id
        result = self.run(settled(lambda: self.store.canceller.cancel(account_id, schedule_id)))
        if modelled.stopped or modelled.status is Status.CANCELLED:
            assert result.each[0].repeated
        elif modelled.status is not Status.SCHEDULED or modelled.held:
            assert isinstance(result, Conflict)
            assert result.status == modelled.status
            return
        elif modelled.recorded:
            modelled.status, modelled.ended_ms = Status.FAILED, modelled.recorded[-1][2]
            modelled.stopped = True
            assert result.each[0].stopped.attempts == modelled.recorded[-1][1]
        else:
            self.credits[modelled.account] += 1
            self.spent[modelled.account] -= 1
            modelled.status = Status.CANCELLED
        assert result.credits == self.credits[modelled.account]

    @rule(ms=st.integers(1, 60))
    def time_passes(self, ms: int) -> None:
        self.clock.ms += ms

    @invariant()
    def the_store_is_as_the_model(self) -> None:
        for number, scene in enumerate(self.scenes):
            mine = {n[4:]: m for n, m in self.model.items() if m.account == number}
            open_ = {n: m for n, m in mine.items() if m.status is Status.SCHEDULED}
            places, held, ledger, referred = self.run(self.read(scene))
            at = {n: m.visible_at_us / 1000 for n, m in open_.items()}
            assert places["waiting"] == {n: at[n] for n, m in open_.items() if m.lane is None}
            assert places["laned"] == {n: at[n] for n, m in open_.items() if m.lane is not None}
            for lane in LANES:
                laned = {n: m for n, m in open_.items() if m.lane == lane}
                wanted = {n: -at[n] if m.held else at[n] for n, m in laned.items()}
                assert places["lane_queue:" + lane] == wanted
            assert held == {n: m.due_at_ms for n, m in open_.items() if m.held}
            assert ledger == [self.credits[number], self.spent[number]]
            named = [f"{m.reference}\0{n}" for n, m in open_.items() if m.reference is not None]
            assert referred == sorted(named)

    async def read(
        self, scene: Scene
    ) -> tuple[dict[str, dict[str, float]], dict[str, float], list[int], list[str]]:
        client = redis_of(self.store)

        async def scores(name: str) -> dict[str, float]:
            found = await client.zrange(scene.base + name, 0, -1, withscores=True)
            return {member.decode(): score for member, score in found}

        of_lanes = ["lane_queue:" + lane for lane in LANES]
        places = {name: await scores(name) for name in ("waiting", "laned", *of_lanes)}
        ledger = await client.hmget(scene.base + "account", "credits", "spent")
        referred = await client.zrange(scene.base + "references", 0, -1)
        return (
            places,
            await scores("held"),
            [int(value) for value in ledger],
            [member.decode() for member in referred],
        )

    def at_the_end(self) -> None:
        self.compare_logs()

    def compare_logs(self) -> None:
        for number, scene in enumerate(self.scenes):
            mine = {n: m for n, m in self.model.items() if m.account == number}
            listed = self.run(scene.log())
            retried = [(e.schedule_id, e.attempt) for e in listed if e.status == "retrying"]
            attempts = [(name, made) for name, m in mine.items() for _, made, _ in m.recorded]
            assert sorted(retried) == sorted(attempts)
            final = [(e.schedule_id, e.status) for e in listed if e.status != "retrying"]
            assert sorted(final) == sorted((name, m.status) for name, m in mine.items())
            usage = self.run(scene.store.stats.usage(scene.account_id, 0, self.clock.ms + 1))
            assert usage.total_response_time_ms == sum(m.ended_ms for m in mine.values())
            self.run(scene.assert_sound())


TestStoreMachine = pytest.mark.slow(StoreMachine.TestCase)
TestStoreMachine.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=40,
    # How many steps a rule refuses is chance, and so is how long one takes.
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
