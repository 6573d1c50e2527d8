"""Decides the next step of a rule: its slot, its occurrence, the missed times. The store is not
asked here; `docs/lifecycle.md` has the reasons."""

from __future__ import annotations

from scheduler import ids
from scheduler.recurrence import Missed, following, missed_between
from scheduler.recurring import RuleState
from scheduler.store.log.entries import pack_chunk, skipped_entry, skipped_places
from scheduler.store.recurring.rules import (
    DELETED,
    StoredRule,
    occurrence_of,
    packed_definition,
    state_value,
)
from scheduler.store.recurring.steps import REFUSALS, Step
from scheduler.store.recurring.timed import timed
from scheduler.store.secrecy import Secrecy
from scheduler.store.server import Argument
from scheduler.store.server.clock import StoreClock
from scheduler.store.stored import open_request, seal_request, sha1_of
from scheduler.store.verdict import SENTENCES, Verdict, refusal

# How long after its slot an occurrence is looked for, at least and at most: it may wait in a lane,
# or have ended without an advance.
_WATCH_MS, _MOST_WATCH_MS = 60_000, 3_600_000
# How long before its next slot a blocked rule is tried again.
_TRY_AHEAD_MS = 5000
# How long it rests between two tries, for each time that it has missed, and at most.
_REST_MS, _MOST_REST_MS = 1000, 60_000
_NONE = Missed(None, 0)
# A chunk of the log with one entry, and its places in the index; empty: no entry.
Entry = tuple[Argument, ...]


class Chain:
    """Makes steps that lead a rule to its next slot. Raises Unreadable for a rule whose request or
    time zone cannot be read here."""

    def __init__(self, secrecy: Secrecy, clock: StoreClock, horizon_ms: int) -> None:
        self._secrecy = secrecy
        self._clock = clock
        self._horizon_ms = horizon_ms

    async def filled(self, rule: StoredRule, entry: Entry = ()) -> Step:
        """Makes the occurrence of the first slot to come of a rule that has none. Slots that have
        passed and are not settled are missed; `entry` is for what was missed before these."""
        now_ms, timing, missed = self._clock.now_ms(), rule.timing, _NONE
        slot_ms = await following(timing, rule.settled_ms)
        if slot_ms is not None and slot_ms <= now_ms:
            missed = await missed_between(timing, rule.settled_ms, now_ms + 1)
            rule.note_passed(now_ms)
            slot_ms = await following(timing, rule.settled_ms)
        fields = rule.floors
        entry = self._entry(rule, missed) or entry
        if slot_ms is None or slot_ms > now_ms + self._horizon_ms:
            fields |= {"p": RuleState.ENDED, "i": "", "s": "", "m": 0}
            return _step(rule, fields, None, entry, missed.count)
        was_blocked = rule.state == RuleState.BLOCKED
        missed_in_all = rule.missed + missed.count if was_blocked else 0

        def blocked(verdict: Verdict) -> Step:
            state = state_value(RuleState.BLOCKED, reason_of(verdict))
            others = {"p": state, "i": "", "s": slot_ms, "m": missed_in_all}
            assert slot_ms is not None
            ahead_ms = slot_ms - _TRY_AHEAD_MS
            at_ms = ahead_ms if ahead_ms > now_ms else slot_ms
            rest_ms = min(missed_in_all * _REST_MS, _MOST_REST_MS)
            return _step(rule, fields | others, max(at_ms, now_ms + rest_ms), entry, missed.count)

        schedule = ids.local(ids.new_schedule_ids(1, now_ms)[0])
        made: dict[str, Argument] = {"i": schedule, "s": slot_ms}
        if rule.state != RuleState.ACTIVE:
            made |= {"p": RuleState.ACTIVE, "m": 0}
        step = _step(rule, fields | made, look_at_ms(slot_ms, now_ms), entry, missed.count)
        step.occurrence = (schedule, slot_ms, self.packed(rule, slot_ms, slot_ms))
        step.instead = blocked
        return step

    def begun(self, rule: StoredRule, now_ms: int) -> Step:
        """Stores a new rule, and its first occurrence."""
        slot_ms, definition = rule.slot_ms, packed_definition(rule.definition)
        assert slot_ms is not None
        fields: dict[str, Argument] = {"d": definition, "r": rule.packed, "p": rule.state}
        fields |= {"i": rule.occurrence, "s": slot_ms, "l": rule.fired_ms}
        step = Step.of(rule, fields, look_at_ms(slot_ms, now_ms))
        step.version, step.more_bytes = None, rule.size_bytes
        step.names = ("", rule.definition.name or "", "+")
        step.occurrence = (rule.occurrence, slot_ms, self.packed(rule, slot_ms, slot_ms))
        return step

    async def moved(self, before: StoredRule, after: StoredRule, packed: bytes) -> Step | None:
        """Changes the occurrence that waits, which was read as `packed`. Where its slot stays, or
        moves by a newer tzdata or a clock that was set back, the time stays to which its owner may
        have moved it. With other times, those that passed while it was late are missed. None if
        there is no slot left."""
        slot_ms, now_ms = before.slot_ms, self._clock.now_ms()
        entry: Entry = ()
        if before.computed != after.computed or after.fired_ms < before.fired_ms:
            slot_ms = await following(after.timing, after.settled_ms)
            entry = await self.passed(before, with_slot=True)
        if slot_ms is None:
            return None
        trigger_at_ms = open_request(packed, self._secrecy).trigger_at_ms
        is_owners = before.timing.times == after.timing.times and trigger_at_ms != before.slot_ms
        if slot_ms != before.slot_ms and not is_owners:
            trigger_at_ms = slot_ms
        step = Step.of(before, after.floors | {"s": slot_ms}, look_at_ms(slot_ms, now_ms))
        made = self.packed(after, slot_ms, trigger_at_ms)
        step.occurrence = (before.occurrence, trigger_at_ms, made, sha1_of(packed))
        step.entry = entry
        return step

    async def passed(self, rule: StoredRule, *, with_slot: bool) -> Entry:
        """For the log: the times up to now that an occurrence stood for because it was late, before
        the rule gets other times. Its own slot is not one of them where it is sent for that."""
        now_ms = self._clock.now_ms()
        if rule.slot_ms is None or rule.slot_ms > now_ms:
            return ()
        since_ms = rule.slot_ms - with_slot
        return self._entry(rule, await missed_between(rule.timing, since_ms, now_ms + 1))

    def stopped(self, rule: StoredRule, state: str) -> Step:
        """Puts a rule in a state without an occurrence; `let_go` is to follow."""
        if rule.state == RuleState.ACTIVE and not rule.occurrence:
            rule.note_cancelled()
        step = Step.of(rule, rule.floors | {"p": state, "m": 0}, self._clock.now_ms())
        if state == DELETED:
            step.names = (rule.definition.name or "", "", "-")
        return step

    async def resumed(self, rule: StoredRule) -> Step:
        """Slots that passed during a pause are not missed."""
        if rule.state == RuleState.BLOCKED:
            return await self.filled(rule)
        rule.note_passed(self._clock.now_ms())
        return await self.filled(rule)

    def packed(self, rule: StoredRule, slot_ms: int, trigger_at_ms: int) -> bytes:
        """The request of an occurrence."""
        if rule.timing.expires_after_ms is None:
            usual = timed(rule.packed, slot_ms, trigger_at_ms, self._secrecy)
            if usual is not None:
                return usual
        request = rule.request(self._secrecy)
        made = occurrence_of(request, rule.timing, slot_ms, trigger_at_ms)
        return seal_request(made, self._secrecy)

    async def advanced(self, rule: StoredRule) -> Step:
        """The occurrence of a rule is about to be fired: the next one is made, if there is one. Of
        a rule that goes by a newer tzdata it is left to workers that have that."""
        rule.note_fired()
        if rule.state != RuleState.ACTIVE:
            return self.let_go(rule)
        if rule.is_newer:  # by an older tzdata the same day may come again
            return Step.of(rule, rule.floors | {"i": ""}, self._clock.now_ms())
        step = await self.filled(rule)
        step.only_makes = bool(step.occurrence and not step.entry)
        return step

    def let_go(self, rule: StoredRule) -> Step:
        """A rule that is to have no occurrence has none; a deleted one goes."""
        if rule.state == DELETED:
            return Step.of_removal(rule)
        if not rule.occurrence:
            return Step.of(rule, {}, None)
        return Step.of(rule, rule.floors | {"i": ""}, None)

    def looked_at(self, rule: StoredRule) -> Step:
        """Its occurrence is as it should be. The later it is, the later is the next look."""
        return Step.of(rule, {}, look_at_ms(rule.slot_ms or 0, self._clock.now_ms()))

    def _entry(self, rule: StoredRule, missed: Missed) -> Entry:
        """The log's chunk of what was missed, and its places in the index; empty if nothing was. A
        blocked rule has one for all that it misses until it is active again."""
        if missed.first_ms is None or rule.missed:
            return ()
        request, recurring_id = rule.request(self._secrecy), rule.recurring_id
        why = SENTENCE_OF.get(rule.reason, "")
        entry = skipped_entry(recurring_id, request, missed.first_ms, missed.count, why)
        return (pack_chunk([entry]), *skipped_places(recurring_id, request))


def look_at_ms(slot_ms: int, now_ms: int) -> int:
    late_ms = now_ms - slot_ms
    return max(slot_ms, now_ms) + min(max(late_ms, _WATCH_MS), _MOST_WATCH_MS)


def reason_of(verdict: Verdict) -> str:
    """Why a rule is blocked, as it is stored."""
    return refusal("", verdict).reason


SENTENCE_OF = {reason_of(each): SENTENCES[each] for each in REFUSALS}


def _step(
    rule: StoredRule,
    fields: dict[str, Argument],
    due_ms: int | None,
    entry: Entry,
    missed: int,
) -> Step:
    step = Step.of(rule, fields, due_ms)
    step.entry, step.missed = entry, missed
    return step
