"""Keeps rules going: the next occurrence is made as one is about to be fired, and
rules whose occurrence is not as it should be are tended."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Iterable, Sequence

import structlog

from scheduler import ids
from scheduler.errors import Conflict, NotFound, Reason, StoreError, Unreadable
from scheduler.models import Invocation
from scheduler.recurrence.recurring import RuleState
from scheduler.store import keys
from scheduler.store.lifecycle.end.cancel import Canceller
from scheduler.store.queries.reading import read_one
from scheduler.store.recurring.chain import Chain
from scheduler.store.recurring.rules import StoredRule
from scheduler.store.recurring.steps import Found, Named, Step, Steps, parts_of
from scheduler.store.server import Argument, Server
from scheduler.store.server.clock import StoreClock
from scheduler.store.verdict import MOST_CHANGES_MET, Verdict

_TENDED_AT_ONCE = 100
# To find the next time of a rule takes 0.3 ms at most, and mostly a hundredth of that: others wait
# no longer for so long.
_TURN_S = 0.001
# Workers with an older tzdata leave a rule to newer ones for so long, while versions are exchanged.
# A rule is then older again: there may be none that are newer.
_LEFT_MS = 30_000
_log = structlog.get_logger(__name__)


class Tending:
    """Each call is safe to repeat, by several processes at a time. Raises StoreError: then some of
    it may have been done. Rules that cannot be read are left as they are, and logged. `missed`
    counts the slots that passed without an occurrence, `computed_anew` the rules that a newer
    tzdata has changed."""

    def __init__(
        self, server: Server, clock: StoreClock, steps: Steps, chain: Chain, canceller: Canceller
    ) -> None:
        self._server = server
        self._clock = clock
        self._steps = steps
        self._chain = chain
        self._canceller = canceller
        self._turn = asyncio.Lock()
        self.missed = 0
        self.computed_anew = 0

    async def advance(self, invocations: Iterable[Invocation]) -> None:
        """Makes the next occurrence of each rule whose occurrence is among these; for a worker that
        has claimed them, before it sends a byte. Where the rule has gone on already, and for
        invocations without a slot, nothing changes."""
        fired: dict[Named, set[str]] = {}
        sizes: dict[Named, int] = {}
        for each in invocations:
            mark = each.request.recurring
            if mark is not None and mark.slot_ms is not None:
                name = each.account_id, ids.local(mark.recurring_id)
                fired.setdefault(name, set()).add(ids.local(each.schedule_id))
                sizes[name] = each.size_bytes
        for part in parts_of(sizes):
            await self._advance({name: fired[name] for name in part})

    async def tend(self, account_id: str, recurring_ids: Iterable[str]) -> None:
        """Brings the occurrences of an account's rules in line with them, now."""
        await self._tend([(account_id, ids.local(each)) for each in recurring_ids])

    async def bring_back(self, account_id: str, recurring_ids: Iterable[str]) -> int:
        """After the store's clock was set back by more than an hour: rules that went on by it wait
        for a slot that is no longer next, and now get the one after now. Returns how many did. One
        that is changed meanwhile, or whose occurrence is held, is left as it is."""
        named = [(account_id, ids.local(each)) for each in recurring_ids]
        count = 0
        for part in parts_of(await self._steps.sizes(named)):
            found = [await self._brought_back(*each) for each in await self._steps.read(part)]
            steps = [each for each in found if each is not None]
            count += len(steps) - len(await self._carry_out(steps))
        return count

    async def overdue(self, shards: Sequence[int]) -> dict[int, int | StoreError]:
        """How many rules of each shard are due to be tended, in one round trip. A shard on hold has
        none, and one that cannot be read has its error instead. Read-only."""
        now_ms, commands = self._clock.now_ms(), list[Sequence[Argument]]()
        for prefix in map(keys.shard, shards):
            commands.append(("ZCOUNT", prefix + keys.RULES_DUE, "-inf", now_ms))
            commands.append(("EXISTS", prefix + keys.HOLD))
        try:
            replies = await self._server.reads(commands, damaged=True)
        except StoreError as error:
            if len(shards) == 1 or not self._server.routed:
                return dict.fromkeys(shards, error)
            alone = await asyncio.gather(*(self.overdue([each]) for each in shards))
            return {shard: due for each in alone for shard, due in each.items()}
        due_and_holds = zip(shards, replies[::2], replies[1::2], strict=True)
        return {shard: 0 if on_hold == 1 else due for shard, due, on_hold in due_and_holds}

    async def tend_due(self, shard: int) -> int:
        """Tends the rules of a shard that are due to be, 100 at most; returns how many were."""
        key = keys.shard(shard) + keys.RULES_DUE
        until = (self._clock.now_ms(), "BYSCORE", "LIMIT", 0, _TENDED_AT_ONCE)
        members = await self._server.read("ZRANGE", key, "-inf", *until)
        named = {each: name for each in members if (name := name_of(shard, each)) is not None}
        if len(named) < len(members):
            await self._server.call("ZREM", key, *(each for each in members if each not in named))
            _log.error("a member of the due recurring schedules names none", shard=shard)
        await self._tend([*named.values()])
        return len(members)

    async def _advance(self, fired: dict[Named, set[str]]) -> None:
        for _ in range(MOST_CHANGES_MET if fired else 0):
            steps = list[Step]()
            async for name, found in self._in_turns(await self._steps.read(list(fired))):
                if isinstance(found, Unreadable):
                    _log_unreadable(name, found)
                elif found is not None and found.occurrence in fired[name]:
                    try:
                        steps.append(await self._chain.advanced(found))
                    except Unreadable as error:
                        _log_unreadable(name, error)
            fired = {name: fired[name] for name in await self._carry_out(steps)}
            if not fired:
                return

    async def _tend(self, named: Sequence[Named]) -> None:
        for _ in range(MOST_CHANGES_MET if named else 0):
            changed = list[Named]()
            for part in parts_of(await self._steps.sizes(named)):
                changed += await self._tend_part(part)
            named = changed
            if not named:
                return

    async def _tend_part(self, named: Sequence[Named]) -> list[Named]:
        found = await self._steps.read(named)
        waiting = await self._unended([rule for _, rule in found if isinstance(rule, StoredRule)])
        steps = [
            await self._tended(name, rule, waiting) async for name, rule in self._in_turns(found)
        ]
        return await self._carry_out([each for each in steps if each is not None])

    async def _unended(self, rules: Iterable[StoredRule]) -> set[Named]:
        """The active ones among them whose occurrence has not ended."""
        some = [each for each in rules if each.state == RuleState.ACTIVE and each.occurrence]
        asked = list[Sequence[str]]()
        for each in some:
            key = keys.account(each.account_id) + keys.SCHEDULE + each.occurrence
            asked += ("HEXISTS", key, "r"), ("HEXISTS", key, "o")
        replies = await self._server.reads(asked, damaged=True)
        places = zip(some, replies[::2], replies[1::2], strict=True)
        return {each.name for each, is_there, has_ended in places if is_there and has_ended != 1}

    async def _tended(self, name: Named, rule: Found, unended: set[Named]) -> Step | None:
        """None: it cannot be done now, and is tended again."""
        try:
            if isinstance(rule, Unreadable):
                raise rule
            if rule is None:
                return Step.of_none(name)
            if rule.state == RuleState.ACTIVE:
                if rule.occurrence and name in unended:
                    return await self._renewed(rule) or self._chain.looked_at(rule)
                return await self._filled(_without(rule))
            if rule.state == RuleState.BLOCKED:
                return await self._filled(rule)
            if rule.occurrence:
                return await self._without_occurrence(rule)
            if rule.is_to_resume(self._clock.now_ms()):
                return await self._filled(rule, rule.resumes_at_ms)
            return self._chain.let_go(rule)
        except Unreadable as error:
            _log_unreadable(name, error)
            return Step.of_unreadable(name)

    async def _filled(self, rule: StoredRule, at_ms: int | None = None) -> Step | None:
        """`at_ms`: as if this were done then. None: workers with the newer tzdata of the rule have
        time to do it."""
        if not rule.is_newer:
            return await self._chain.filled(rule, now_ms=at_ms)
        shard, account = keys.parts(rule.account_id)
        key = keys.shard(shard) + keys.RULES_DUE
        due_ms = await self._server.read("ZSCORE", key, f"{account}:{rule.local}")
        if due_ms is None or float(due_ms) > self._clock.now_ms() - _LEFT_MS:
            return None
        after = rule.by_own_tzdata()
        return (await self._chain.filled(after, now_ms=at_ms)).with_definition(rule, after)

    async def _brought_back(self, name: Named, rule: Found) -> Step | None:
        try:
            if isinstance(rule, Unreadable):
                raise rule
            after = rule and rule.back_at(self._clock.now_ms())
            if rule is None or after is None or rule.state != RuleState.ACTIVE:
                return None
            return await self._changed_in_place(rule, after)
        except Unreadable as error:
            _log_unreadable(name, error)
            return None

    async def _renewed(self, rule: StoredRule) -> Step | None:
        """The change that a newer tzdata makes to an occurrence ahead; None if it makes none."""
        now_ms = self._clock.now_ms()
        if (rule.slot_ms or 0) <= now_ms or (after := rule.renewed()) is None:
            return None
        after.note_passed(now_ms)
        step = await self._changed_in_place(rule, after)
        if step is not None:
            step.with_definition(rule, after).computes_anew = True
        return step

    async def _changed_in_place(self, before: StoredRule, after: StoredRule) -> Step | None:
        """None if its occurrence waits no longer, untried."""
        packed = await self._waiting(before)
        return None if packed is None else await self._chain.moved(before, after, packed)

    async def _waiting(self, rule: StoredRule) -> bytes | None:
        """The stored request of its occurrence; None if that waits no longer, untried."""
        schedule_id = ids.schedule_id(rule.occurrence)
        try:
            found = await read_one(self._server, rule.account_id, schedule_id)
        except NotFound:
            return None
        if found.held or found.outcome is not None or found.attempt is not None:
            return None
        return found.packed or b""

    async def _without_occurrence(self, rule: StoredRule) -> Step | None:
        """The occurrence of a rule that is to have none is cancelled; one that is held finishes."""
        schedule_id = ids.schedule_id(rule.occurrence)
        [done] = (await self._canceller.by_id(rule.account_id, [schedule_id])).each
        refusal = done.refusal
        if isinstance(refusal, Conflict) and refusal.reason is Reason.KEEPS_CHANGING:
            return None
        if refusal is not None or done.stopped is not None:
            rule.note_fired()
        return self._chain.let_go(rule)

    async def _in_turns(
        self, found: Iterable[tuple[Named, Found]]
    ) -> AsyncIterator[tuple[Named, Found]]:
        """Each time for a turn. Each round of the event loop has one turn, of all calls."""
        until_s = -math.inf
        for each in found:
            if time.monotonic() > until_s:
                async with self._turn:
                    await asyncio.sleep(0)
                until_s = time.monotonic() + _TURN_S
            yield each

    async def _carry_out(self, steps: Sequence[Step]) -> list[Named]:
        """Returns the rules that have changed since they were read."""
        changed = list[Named]()
        for step, verdict in zip(steps, await self._steps.all(steps), strict=True):
            if verdict is Verdict.DONE:
                self.missed += step.missed
                self.computed_anew += step.computes_anew
            elif verdict is Verdict.CHANGED:
                changed.append((step.account_id, step.local))
            elif verdict is Verdict.DAMAGED and not step.is_put_off:
                name = {"account": step.account_id, "recurring": ids.recurring_id(step.local)}
                _log.error("a recurring schedule is damaged, or its account is", **name)
        return changed


def name_of(shard: int, member: bytes) -> Named | None:
    """The rule that a member of RULES_DUE names; None if it is damaged."""
    account, _, local = member.decode(errors="replace").partition(":")
    account_id = ids.account_id(shard, account)
    is_sound = ids.parse_sharded(account_id, "acc") is not None
    return (account_id, local) if is_sound and ids.is_recurring_id("rec_" + local) else None


def _without(rule: StoredRule) -> StoredRule:
    """An active rule without an occurrence that waits: its owner has cancelled it, or it has ended
    without an advance."""
    if rule.occurrence:
        rule.note_fired()
    else:
        rule.note_cancelled()
    return rule


def _log_unreadable(name: Named, error: Unreadable) -> None:
    account_id, local = name
    recurring = ids.recurring_id(local)
    sentence = "a recurring schedule cannot be read"
    _log.error(sentence, account=account_id, recurring=recurring, error=str(error))
