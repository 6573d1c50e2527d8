"""Decides the next step of a rule: its slot, its occurrence, the missed times. The store is not
asked here; `docs/internals/recurring.md` has the reasons."""

from __future__ import annotations

import msgspec

from scheduler import ids
from scheduler.errors import Unreadable
from scheduler.lane_settings import Pause
from scheduler.recurrence.cron import may_take_long
from scheduler.recurrence.recurrence import (
    NONE_MISSED,
    Missed,
    following,
    missed_between,
    next_slot,
)
from scheduler.recurrence.recurring import RuleState
from scheduler.store.heads import NO_NAMES, RECURRING, names_of, with_slot
from scheduler.store.log.entries import pack_chunk, skipped_entry, skipped_places
from scheduler.store.recurring.merged import merged, timed_anew
from scheduler.store.recurring.rules import (
    DELETED,
    StoredRule,
    occurrence_of,
    packed_definition,
    state_value,
)
from scheduler.store.recurring.steps import REFUSALS, Step
from scheduler.store.secrecy import Secrecy
from scheduler.store.server import Argument
from scheduler.store.server.clock import StoreClock
from scheduler.store.stored import open_request, seal_request, sha1_of, unpack_fields
from scheduler.store.verdict import SENTENCES, Verdict, refusal

# How long after its slot an occurrence is looked for, at least and at most: it may wait in a lane,
# or have ended without an advance.
_WATCH_MS, _MOST_WATCH_MS = 60_000, 3_600_000
# How long before its next slot a blocked rule is tried again.
_TRY_AHEAD_MS = 5000
# How long it rests between two tries, for each time that it has missed, and at most.
_REST_MS, _MOST_REST_MS = 1000, 60_000
# How an array of up to 15 values begins in MessagePack, and a whole number of eight bytes, which
# one below the last has in fewer.
_SHORT_ARRAY, _LONG, _SHORTER = range(0x90, 0xA0), b"\xcf", 1 << 32
_RECURRING = bytes((RECURRING,))
# A chunk of the log with one entry, and its places in the index; empty: no entry.
Entry = tuple[Argument, ...]
NO_ENTRY: Entry = ()


class Chain:
    """Makes steps that lead a rule to its next slot. Raises Unreadable for a rule whose request or
    time zone cannot be read here."""

    def __init__(self, secrecy: Secrecy, clock: StoreClock, horizon_ms: int) -> None:
        self._secrecy = secrecy
        self._clock = clock
        self._horizon_ms = horizon_ms

    async def filled(
        self, rule: StoredRule, entry: Entry = NO_ENTRY, now_ms: int | None = None
    ) -> Step:
        """Makes the occurrence of the first slot to come of a rule that has none. Slots that have
        passed and are not settled are missed. `entry`: of `settled`, as of the same moment.
        `now_ms`: as if this were done then. It ends a pause, in which no slot is missed."""
        now_ms, timing = self._clock.now_ms() if now_ms is None else now_ms, rule.timing
        missed, was_blocked = NONE_MISSED, rule.state == RuleState.BLOCKED
        was_paused = rule.state == RuleState.PAUSED
        if was_paused:
            rule.note_passed(now_ms)
        slot_ms = await following(timing, rule.settled_ms)
        if slot_ms is not None and slot_ms <= now_ms:
            missed = await missed_between(timing, rule.settled_ms, now_ms + 1)
            rule.note_passed(now_ms)
            slot_ms = await following(timing, rule.settled_ms)
        fields = dict[str, Argument]()
        if was_paused:
            fields["h"] = ""
        if was_blocked:
            first_entry, still_blocked = await self._go_on_missing(rule, missed)
            blocked_entry, entry = first_entry or entry, self._told(rule) or entry
            fields |= rule.stretch
        else:
            blocked_entry = entry = self._entry(rule, missed) or entry
            still_blocked = {"m": 0, "u": ""}
        if slot_ms is None or slot_ms > now_ms + self._horizon_ms:
            fields |= rule.place("", None) | {"p": RuleState.ENDED}
            return _step(rule, fields, None, entry, missed.count)

        step = self._made(rule, slot_ms, now_ms, fields | still_blocked, blocked_entry)
        step.fields = fields | step.fields
        if rule.state != RuleState.ACTIVE:
            step.fields["p"] = RuleState.ACTIVE
        step.entry, step.missed = entry, missed.count
        return step

    def _made(
        self,
        rule: StoredRule,
        slot_ms: int,
        now_ms: int,
        blocked: dict[str, Argument],
        entry: Entry = NO_ENTRY,
    ) -> Step:
        """Makes the occurrence of a slot. If that cannot be stored, the rule is blocked, with these
        fields beside, and this entry."""

        def instead(verdict: Verdict) -> Step:
            state = state_value(RuleState.BLOCKED, reason_of(verdict))
            ahead_ms = slot_ms - _TRY_AHEAD_MS
            at_ms = ahead_ms if ahead_ms > now_ms else slot_ms
            was_blocked = rule.state == RuleState.BLOCKED
            rest_ms = min((rule.missed if was_blocked else 0) * _REST_MS, _MOST_REST_MS)
            fields = blocked | rule.place("", slot_ms) | {"p": state}
            return _step(rule, fields, max(at_ms, now_ms + rest_ms), entry, step.missed)

        schedule = ids.local(ids.new_schedule_ids(1, now_ms)[0])
        step = Step.of(rule, rule.place(schedule, slot_ms), look_at_ms(slot_ms, now_ms))
        step.occurrence = (schedule, *self.row(rule, slot_ms))
        step.instead = instead
        return step

    def begun(self, rule: StoredRule, now_ms: int) -> Step:
        """Stores a new rule, and its first occurrence."""
        slot_ms, definition = rule.slot_ms, packed_definition(rule.definition)
        assert slot_ms is not None
        fields: dict[str, Argument] = {"d": definition, "r": rule.packed, "p": rule.state}
        fields["n"] = rule.stands(rule.occurrence, slot_ms)
        step = Step.of(rule, fields, look_at_ms(slot_ms, now_ms))
        step.version, step.more_bytes = None, rule.size_bytes
        step.names = ("", rule.definition.name or "", "enters")
        step.occurrence = (rule.occurrence, *self.row(rule, slot_ms))
        return step

    async def moved(
        self, before: StoredRule, after: StoredRule, packed: bytes, entry: Entry = NO_ENTRY
    ) -> Step | None:
        """Changes the occurrence that waits, which was read as `packed`: in what the rule differs,
        and in nothing else. Where its slot stays, or moves by a newer tzdata or a clock that was
        set back, the time stays to which its owner may have moved it. `entry`: of `settled`. None
        if there is no slot left."""
        slot_ms, now_ms = before.slot_ms, self._clock.now_ms()
        if before.computed != after.computed or after.fired_ms < before.fired_ms:
            slot_ms = await following(after.timing, after.settled_ms)
        if slot_ms is None:
            return None
        request = open_request(packed, self._secrecy)
        names = names_of(request.lane, request.reference)
        trigger_at_ms = request.trigger_at_ms
        is_owners = before.timing.times == after.timing.times and trigger_at_ms != before.slot_ms
        if slot_ms != before.slot_ms and not is_owners:
            trigger_at_ms = slot_ms
        place = after.place(before.occurrence, slot_ms)
        step = Step.of(before, place, look_at_ms(slot_ms, now_ms))
        if after.packed is not before.packed:
            rules = before.request(self._secrecy), after.request(self._secrecy)
            request = merged(request, *rules)
        request = timed_anew(request, (before.timing, after.timing), slot_ms, trigger_at_ms)
        made = seal_request(request, self._secrecy)
        step.occurrence = (before.occurrence, trigger_at_ms, made)
        step.occurrence += (*names_of(request.lane, request.reference), sha1_of(packed), *names)
        step.entry = entry
        return step

    async def settled(self, rule: StoredRule, now_ms: int, *, with_slot: bool = False) -> Entry:
        """For the log: the times up to now that a rule owes, before it gets other times or stops.
        None of them counts again. `with_slot`: its occurrence is not sent for its own slot, and has
        no entry of its own."""
        slot_ms, since_ms = rule.slot_ms, rule.settled_ms
        if rule.state == RuleState.BLOCKED:
            rule.note_missed(await missed_between(rule.timing, since_ms, now_ms + 1))
            rule.note_passed(now_ms)
            return self._told(rule)
        if rule.state != RuleState.ACTIVE or slot_ms is None or slot_ms > now_ms:
            return NO_ENTRY
        own = Missed(slot_ms, 1) if with_slot else NONE_MISSED
        behind = await missed_between(rule.timing, max(since_ms, slot_ms), now_ms + 1)
        if behind.count:
            rule.note_passed(now_ms)
        if since_ms >= slot_ms:  # another end has settled some of those behind it
            return self._entry(rule, own, behind)
        return self._entry(rule, own + behind)

    async def stopped(self, rule: StoredRule, state: str, pause: Pause | None = None) -> Step:
        """Puts a rule in a state without an occurrence; `let_go` is to follow. What came up until
        now is missed, but for the slot of an occurrence: that is sent, or cancelled."""
        now_ms = self._clock.now_ms()
        if rule.state == RuleState.ACTIVE and not rule.occurrence:
            rule.note_cancelled()
        entry = NO_ENTRY
        try:
            entry = await self.settled(rule, now_ms)
        except Unreadable:  # the log has no entry without a URL
            if state != DELETED:
                raise
        rule = msgspec.structs.replace(rule, pause=pause)
        stays = rule.place(rule.occurrence, rule.slot_ms) | rule.stretch
        step = Step.of(rule, stays | rule.pausing | {"p": state}, now_ms)
        step.entry = entry
        if state == DELETED:
            step.names = (rule.definition.name or "", "", "leaves")
        return step

    def row(self, rule: StoredRule, slot_ms: int) -> tuple[Argument, ...]:
        """Of the occurrence of a slot, behind its id, as `put.inc.lua` has it."""
        if rule.timing.expires_after_ms is None:
            usual = retimed(rule.packed, slot_ms, self._secrecy)
            if usual is not None:
                return slot_ms, usual, *NO_NAMES
        request = rule.request(self._secrecy)
        made = occurrence_of(request, rule.timing, slot_ms, slot_ms)
        names = names_of(request.lane, request.reference)
        return slot_ms, seal_request(made, self._secrecy), *names

    async def advanced(self, rule: StoredRule) -> Step:
        """The occurrence of a rule is about to be fired: the next one is made, if there is one. Of
        a rule that goes by a newer tzdata it is left to workers that have that."""
        rule.note_fired()
        if rule.state != RuleState.ACTIVE:
            return self.let_go(rule)
        if rule.is_newer:  # by an older tzdata the same day may come again
            return Step.of(rule, rule.place("", rule.slot_ms), self._clock.now_ms())
        step = self._made_at_once(rule) or await self.filled(rule)
        step.only_makes = bool(step.occurrence and not step.entry)
        return step

    def _made_at_once(self, rule: StoredRule) -> Step | None:
        """The same as `filled` of an active rule whose next slot is found at once and lies ahead,
        as nearly all do, in two thirds of the time; None of any other."""
        timing, now_ms = rule.definition.timing, self._clock.now_ms()
        if timing.cron is not None and may_take_long(timing.cron):
            return None
        slot_ms = next_slot(timing, rule.settled_ms)
        if slot_ms is None or not now_ms < slot_ms <= now_ms + self._horizon_ms:
            return None
        return self._made(rule, slot_ms, now_ms, {"m": 0, "u": ""})

    def let_go(self, rule: StoredRule) -> Step:
        """A rule that is to have no occurrence has none; a deleted one goes. One whose pause has an
        end is looked after then."""
        if rule.state == DELETED:
            return Step.of_removal(rule)
        if not rule.occurrence:
            return Step.of(rule, {}, rule.resumes_at_ms)
        return Step.of(rule, rule.place("", rule.slot_ms), rule.resumes_at_ms)

    def looked_at(self, rule: StoredRule) -> Step:
        """Its occurrence is as it should be. The later it is, the later is the next look."""
        return Step.of(rule, {}, look_at_ms(rule.slot_ms or 0, self._clock.now_ms()))

    async def _go_on_missing(
        self, rule: StoredRule, missed: Missed
    ) -> tuple[Entry, dict[str, Argument]]:
        """Notes what a blocked rule has missed; the entry and the fields with which it stays
        blocked. Its first miss has an entry at once, those behind that have one when it goes on."""
        is_first = missed.count > 0 and rule.missed == 0
        rule.note_missed(missed)
        if not is_first:
            return NO_ENTRY, rule.stretch
        first_ms, behind = missed.first_ms or 0, NONE_MISSED
        if missed.count > 1:
            second_ms = await following(rule.timing, first_ms)
            behind = Missed(second_ms, missed.count - 1)
        entry = self._entry(rule, Missed(first_ms, 1))
        return entry, msgspec.structs.replace(rule, untold=behind).stretch

    def _told(self, rule: StoredRule) -> Entry:
        """The entry of what a blocked rule has missed, but for what has one already."""
        untold, rule.untold = rule.untold, NONE_MISSED
        return self._entry(rule, untold)

    def _entry(self, rule: StoredRule, *missed: Missed) -> Entry:
        """The log's chunk of what was missed, and its places in the index; empty if nothing was."""
        told = [(each.first_ms, each.count) for each in missed if each.first_ms is not None]
        if not told:
            return NO_ENTRY
        request, recurring_id = rule.request(self._secrecy), rule.recurring_id
        why = SENTENCE_OF.get(rule.reason, "")
        entries = [skipped_entry(recurring_id, request, *each, why) for each in told]
        return (pack_chunk(entries), *skipped_places(recurring_id, request))


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


def retimed(packed: bytes, slot_ms: int, secrecy: Secrecy) -> bytes | None:
    """The same as `seal_request` makes of a rule's stored request at this slot, in half the time;
    None if the request has a lane or a reference, is unusual, or cannot be read."""
    if packed[:1] != _RECURRING or slot_ms < _SHORTER:
        return None
    head, sealed = with_slot(packed, slot_ms)
    try:
        text = secrecy.open(sealed)
        if text[0] not in _SHORT_ARRAY or text[1] != 0:
            return None
        unpack_fields(text)  # a damaged one makes no occurrence
    except (Unreadable, msgspec.MsgspecError, ValueError, LookupError):
        return None
    made = b"%b%b%b%b" % (text[:1], _LONG, slot_ms.to_bytes(8, "big"), text[2:])
    return head + secrecy.seal(made)
