"""Recurring schedules as their owners see them: created, changed, paused, deleted."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from msgspec.structs import replace

from scheduler.errors import (
    FieldError,
    InvalidRequest,
    KeepsChanging,
    KeyReused,
    NotFound,
    RecurringNameTaken,
    TooManyRecurring,
    UnknownAccount,
    UnknownRecurring,
    Unreadable,
)
from scheduler.lane_settings import Pause
from scheduler.models import Idempotency
from scheduler.recurrence.recurrence import Timing, checked, first_slot
from scheduler.recurrence.recurring import (
    MOST_RECURRING,
    Created,
    Draft,
    Put,
    Rule,
    RulePage,
    RuleState,
)
from scheduler.rollups import DAY_MS
from scheduler.store import keys
from scheduler.store.idempotency import kept, noted, once_name
from scheduler.store.lifecycle.create.create import Schedules
from scheduler.store.lifecycle.create.results import CreateResult
from scheduler.store.lifecycle.end.cancel import Canceller
from scheduler.store.preconditions import ALWAYS, Precondition
from scheduler.store.recurring.chain import NO_ENTRY, Chain
from scheduler.store.recurring.reading import Rules
from scheduler.store.recurring.rules import (
    DELETED,
    StoredRule,
    created_before,
    creation_note,
    etag_of,
    new_rule,
    occurrence_of,
    redefined,
    shown,
)
from scheduler.store.recurring.steps import Step, Steps
from scheduler.store.recurring.tending import Tending
from scheduler.store.retention import Retention
from scheduler.store.scans import Scans
from scheduler.store.server import Server
from scheduler.store.server.clock import StoreClock
from scheduler.store.verdict import MOST_CHANGES_MET, Verdict, refusal

_AGAIN = (Verdict.CHANGED, Verdict.HELD)


class Recurring(Tending):
    """An account's rules. What changes one raises NotFound, PreconditionFailed, KeepsChanging,
    Unreadable and StoreError, and is safe to repeat. After a StoreError, `outcome` of
    `server/writes.py` says whether something was changed; after the others nothing was."""

    def __init__(
        self,
        server: Server,
        clock: StoreClock,
        retention: Retention,
        scans: Scans,
        schedules: Schedules,
        canceller: Canceller,
        horizon_days: int,
    ) -> None:
        steps = Steps(server, clock, retention)
        self._horizon_ms = horizon_days * DAY_MS
        chain = Chain(server.secrecy, clock, self._horizon_ms)
        super().__init__(server, clock, steps, chain, canceller)
        self._rules = Rules(server, steps, scans)
        self._schedules = schedules

    async def read(self, account_id: str, recurring_id: str) -> Rule:
        """Raises NotFound, Unreadable. Read-only."""
        return self._shown(await self._rules.one(account_id, recurring_id))

    async def by_name(self, account_id: str, name: str) -> Rule:
        """Raises NotFound, Unreadable. Read-only."""
        return await self.read(account_id, await self.id_of(account_id, name))

    async def id_of(self, account_id: str, name: str) -> str:
        """Of the rule that has the name now. Raises NotFound. Read-only."""
        recurring_id = await self._rules.id_of(account_id, name)
        if recurring_id is None:
            raise UnknownRecurring
        return recurring_id

    async def page(
        self,
        account_id: str,
        *,
        state: RuleState | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> RulePage:
        """In the order of creation. Those in one state count as a search, and a page of active ones
        may be short. Raises InvalidRequest for a bad cursor, TooManyScans. Read-only."""
        return await self._rules.page(account_id, state, limit, cursor)

    async def beginning(self, account_id: str, begin: str, most: int) -> list[tuple[str, str]]:
        """Names that begin so, with their ids. Raises TooManyScans. Read-only."""
        return await self._rules.beginning(account_id, begin, most)

    async def blocked(self, account_id: str, most: int) -> tuple[int, list[Rule]]:
        """How many are blocked, and some of them. Read-only."""
        return await self._rules.blocked(account_id, most)

    async def create(
        self, account_id: str, draft: Draft, once: Idempotency | None = None
    ) -> Created:
        """Stores a rule and its first occurrence, for a credit. Each call makes another; with
        `once`, one in 24 hours. Raises NotFound (the account), InvalidRequest, KeyReused,
        RecurringNameTaken, TooManyRecurring, InsufficientCredits, QuotaExceeded, TooManyLanes."""
        if once is not None:
            key = keys.account(account_id) + keys.ONCE + once_name(once)
            if (value := await self._server.read("GET", key)) is not None:
                return Created(created_before(draft, kept(value, once)), repeated=True)
        now_ms = self._clock.now_ms()
        rule = new_rule(account_id, draft, now_ms, self._server.secrecy)
        rule.slot_ms = await self._first_slot(rule.timing, now_ms)
        step = self._chain.begun(rule, now_ms)
        if once is not None:
            step.once = (once_name(once), creation_note(once, rule))
        answer = await self._steps.one(step, stores=True)
        if answer.verdict is Verdict.REPEATED:
            before = created_before(draft, noted(answer.known))
            return Created(before, repeated=before.recurring_id != rule.recurring_id)
        if answer.verdict is not Verdict.DONE:
            _refuse(answer.verdict, rule, UnknownAccount(account_id))
        return Created(self._shown(rule))

    async def put(
        self,
        account_id: str,
        name: str,
        make: Callable[[Rule | None], Draft],
        wanted: Precondition = ALWAYS,
    ) -> Put:
        """Creates the rule of this name, or changes it, to what `make` makes of it. What is so
        already stays as it is, and so does a pause. Raises as `create` and `change`."""
        for _ in range(MOST_CHANGES_MET):
            recurring_id = await self._rules.id_of(account_id, name)
            try:
                if recurring_id is None:
                    wanted.judge(None, is_there=False)
                    return Put((await self.create(account_id, make(None))).rule, created=True)
                return await self._change(account_id, recurring_id, make, wanted=wanted)
            except RecurringNameTaken:
                continue
            except NotFound:
                if recurring_id is None:
                    raise
        raise KeepsChanging

    async def change(
        self,
        account_id: str,
        recurring_id: str,
        make: Callable[[Rule], Draft],
        pausing: Callable[[Pause | None], Pause | None] = lambda pause: pause,
        wanted: Precondition = ALWAYS,
    ) -> Rule:
        """Replaces what a rule asks for by what `make` makes of it, and its pause by what `pausing`
        makes of that, in one step. The occurrence that waits follows; beside one that was sent, or
        is held, the next one is made. A pause cancels the one that waits; at its end the next one
        is made, as of that moment, and where it cannot be stored the rule is blocked. Changes
        nothing if all is so already. Raises also InvalidRequest, RecurringNameTaken, QuotaExceeded,
        TooManyLanes, and what the two raise."""
        return (await self._change(account_id, recurring_id, make, pausing, wanted)).rule

    async def _change(
        self,
        account_id: str,
        recurring_id: str,
        make: Callable[[Rule], Draft],
        pausing: Callable[[Pause | None], Pause | None] = lambda pause: pause,
        wanted: Precondition = ALWAYS,
    ) -> Put:
        """Only the first look tells `unchanged`: by a later one, this call may have made the change
        itself, and the reply was lost."""
        for look in range(MOST_CHANGES_MET):
            before = await self._in_time(account_id, recurring_id)
            draft, pause = make(self._shown(before)), pausing(before.pause)
            after = redefined(before, draft, pause, self._server.secrecy)
            wanted.judge(etag_of(before), is_so=after is None)
            unchanged = after is None and look == 0
            if after is None:
                break
            if before.pause is not None and after.pause is None and before.occurrence:
                # The pause has not cancelled it yet, and may do so any time.
                await self.tend(account_id, [recurring_id])
                continue
            step = await self._changed(before, after)
            stores = (after.definition, after.packed) != (before.definition, before.packed)
            answer = await self._steps.one(step, stores=stores)
            if answer.verdict is Verdict.DONE:
                break
            if answer.verdict not in _AGAIN:
                _refuse(answer.verdict, after)
        else:
            raise KeepsChanging
        is_paused = (after or before).pause is not None
        if is_paused and (before.occurrence or before.pause is None):
            await self.tend(account_id, [recurring_id])
        elif after is None:
            return Put(self._shown(before), unchanged=unchanged)
        return Put(await self.read(account_id, recurring_id), unchanged=unchanged)

    async def pause(
        self, account_id: str, recurring_id: str, pause: Pause, wanted: Precondition = ALWAYS
    ) -> Rule:
        """Cancels the occurrence that waits; one that is held finishes. One that has ended stays
        so; one that is paused gets this end and note. Repeats are harmless."""
        return await self.change(account_id, recurring_id, _the_same, pause.instead_of, wanted)

    async def resume(
        self, account_id: str, recurring_id: str, wanted: Precondition = ALWAYS
    ) -> Rule:
        """Makes the next occurrence of a paused rule, or tries to of a blocked one. Where it cannot
        be stored, the rule is blocked. Repeats are harmless."""
        for _ in range(MOST_CHANGES_MET):
            rule = await self._rules.one(account_id, recurring_id)
            self._shown(rule)  # the answer has to be readable before anything is changed
            if rule.state != RuleState.BLOCKED:
                break
            wanted.judge(etag_of(rule))
            if await self._is_done(await self._chain.filled(rule)):
                await self.tend(account_id, [recurring_id])
                wanted = ALWAYS
                break
        else:
            raise KeepsChanging
        return await self.change(account_id, recurring_id, _the_same, lambda _: None, wanted)

    async def delete(
        self, account_id: str, recurring_id: str, wanted: Precondition = ALWAYS
    ) -> str | None:
        """Cancels the occurrence that waits; one that is held finishes. Returns the name that it
        had, or ''. Also one whose request cannot be read. Of one that was deleted within an hour it
        does nothing and returns None: then 1,000 newer deletions of the account, or a minute."""
        try:
            rule = await self._rules.one(account_id, recurring_id)
        except NotFound:
            if await self._rules.was_deleted(account_id, recurring_id):
                wanted.judge(None, is_there=False, is_so=True)
                return None
            raise
        for _ in range(MOST_CHANGES_MET):
            wanted.judge(etag_of(rule))
            if await self._is_done(await self._chain.stopped(rule, DELETED)):
                break
            try:
                rule = await self._rules.one(account_id, recurring_id)
            except NotFound:  # deleted meanwhile: by this call, where a reply was lost
                break
        else:
            raise KeepsChanging
        await self.tend(account_id, [recurring_id])
        return rule.definition.name or ""

    async def trigger(
        self,
        account_id: str,
        recurring_id: str,
        once: Idempotency | None = None,
        wanted: Precondition = ALWAYS,
    ) -> CreateResult:
        """Makes an occurrence for now, beside the rule's times, whatever its state: of the rule
        as it was when `wanted` was judged. Raises as `Schedules.create_all`."""
        if once is not None:
            before = await self._schedules.created_before(account_id, once)
            if before is not None:
                return before
        rule = await self._rules.one(account_id, recurring_id)
        wanted.judge(etag_of(rule))
        now_ms = self._clock.now_ms()
        request = occurrence_of(rule.request(self._server.secrecy), rule.timing, None, now_ms)
        return await self._schedules.create_all(account_id, [request], once, now_ms)

    async def _in_time(self, account_id: str, recurring_id: str) -> StoredRule:
        """A rule, which is resumed first if the end of its pause has come."""
        rule = await self._rules.one(account_id, recurring_id)
        if not rule.is_to_resume(self._clock.now_ms()):
            return rule
        await self.tend(account_id, [recurring_id])
        return await self._rules.one(account_id, recurring_id)

    def _shown(self, rule: StoredRule) -> Rule:
        return shown(rule, self._server.secrecy)

    async def _is_done(self, step: Step) -> bool:
        """False: the rule has changed since it was read."""
        verdict = (await self._steps.one(step)).verdict
        if verdict is Verdict.CHANGED:
            return False
        if verdict is not Verdict.DONE:
            _refuse(verdict, None)
        return True

    async def _first_slot(self, timing: Timing, after_ms: int) -> int:
        """Raises InvalidRequest if there is none that schedules may be due at."""
        slot_ms = await first_slot(checked(timing), after_ms)
        if slot_ms > self._clock.now_ms() + self._horizon_ms:
            days = self._horizon_ms // DAY_MS
            field = "every" if timing.cron is None else "cron"
            field = field if timing.starts_at_ms is None else "startsAt"
            message = f"Its first time is more than {days:,} days ahead."
            raise InvalidRequest([FieldError(field, message)])
        return slot_ms

    async def _changed(self, before: StoredRule, after: StoredRule) -> Step:
        """The step to another definition, with what follows for the occurrence."""
        active = before.state == RuleState.ACTIVE
        ends = before.timing.ends_at_ms != after.timing.ends_at_ms
        differs = before.timing.times != after.timing.times
        differs |= ends and before.state == RuleState.ENDED
        if differs:
            after.cancelled_ms = 0
        if after.pause is not None or (before.state == RuleState.ENDED and not differs):
            resting = await self._at_rest(before, after, differs=differs)
            return resting.with_definition(before, after)
        waiting = await self._waiting(before) if active and before.occurrence else None
        now_ms, entry = self._clock.now_ms(), NO_ENTRY
        if differs or ends:
            with_slot = differs and waiting is not None
            entry = await self._chain.settled(before, now_ms, with_slot=with_slot)
            after.take_floor(before)
        if differs or (ends and before.state == RuleState.PAUSED):
            after.note_passed(now_ms)
            await self._first_slot(after.timing, after.settled_ms)
        elif active and not before.occurrence:
            after.note_cancelled()
        elif ends and before.slot_ms is not None:
            await self._first_slot(after.timing, before.slot_ms - 1)
        if waiting is not None:
            step = await self._chain.moved(before, after, waiting, entry)
            if step is not None:
                return step.with_definition(before, after)
        if active and before.occurrence:
            after.note_fired()
        return (await self._chain.filled(after, entry, now_ms)).with_definition(before, after)

    async def _at_rest(self, before: StoredRule, after: StoredRule, *, differs: bool) -> Step:
        """The step into a pause, or of a rule that stays paused or ended."""
        pause, now_ms = after.pause, self._clock.now_ms()
        if before.state == RuleState.ENDED and differs:
            await self._first_slot(after.timing, now_ms)
        if pause is None or before.state == RuleState.PAUSED:
            # A pause may have died before it cancelled the occurrence.
            due_ms = now_ms if before.occurrence else after.resumes_at_ms
            stays = after.place(before.occurrence, before.slot_ms)
            return Step.of(before, stays | after.pausing, due_ms)
        pause = replace(pause, since_ms=now_ms)
        step = await self._chain.stopped(before, RuleState.PAUSED, pause)
        if differs:
            step.fields["c"] = 0
        return step


def _the_same(rule: Rule) -> Draft:
    return rule.draft


def _refuse(verdict: Verdict, rule: StoredRule | None, unknown: NotFound | None = None) -> NoReturn:
    match verdict:
        case Verdict.UNKNOWN:
            raise unknown or UnknownRecurring()
        case Verdict.KEY_REUSED:
            raise KeyReused
        case Verdict.NAME_TAKEN if rule is not None:
            raise RecurringNameTaken(rule.definition.name or "")
        case Verdict.TOO_MANY:
            raise TooManyRecurring(MOST_RECURRING)
        case Verdict.CHANGED | Verdict.HELD:
            raise KeepsChanging
        case Verdict.DAMAGED:
            raise Unreadable("The recurring schedule is damaged, or its account is")
    raise refusal("", verdict)
