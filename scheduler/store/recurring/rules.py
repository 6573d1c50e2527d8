"""How a rule lies in the store.

Its HASH has `v`, a version that each write raises by one; `d`, the definition (msgpack: name,
timing, version of tzdata); `r`, the request of its occurrences, packed, sealed and with heads as
requests are, due at 0 and without a slot; `p`, its state, and behind a space why it is blocked;
`n`, where it stands, three values with a space between: the occurrence that is made for its next
slot (empty: none), that slot (ms; empty: none), and the newest slot (ms) that was fired or missed.
Of an active rule without an occurrence the slot is that of the one that was cancelled; of a blocked
one, the next slot to be made. `c` is the newest slot (ms) that was cancelled. No occurrence is made
of the newest slot that was fired or missed, of `c`, and of earlier ones. With other times only the
former counts, which never goes back. `m` counts the slots missed since the rule was blocked last,
also after it went on. `u` has those of them that no log entry tells yet: the first (ms), a space,
and how many ("": none). `h` is its pause (msgpack; "": it is not paused).
"""

from __future__ import annotations

import hashlib

import msgspec

from scheduler import ids
from scheduler.errors import Unreadable
from scheduler.lane_settings import Pause
from scheduler.models import Idempotency, Occurrence, Request
from scheduler.recurrence.recurrence import NONE_MISSED, TZDATA_VERSION, Missed, Timing
from scheduler.recurrence.recurring import Draft, Rule, RuleState
from scheduler.store import keys
from scheduler.store.idempotency import Made, asked
from scheduler.store.secrecy import Secrecy
from scheduler.store.server import Argument
from scheduler.store.stored import open_request, seal_request
from scheduler.store.verdict import Verdict

FIELDS = ("v", "d", "r", "p", "n", "c", "m", "u", "h")
STORED_FIELDS = tuple(each.encode() for each in FIELDS)
# As scripts number them in `rule_states`, where active and deleted rules are not.
STATE_NUMBERS: dict[str, int] = {
    RuleState.PAUSED.value: 1,
    RuleState.BLOCKED.value: 2,
    RuleState.ENDED.value: 3,
}
# The state of a rule whose owner has deleted it, until its occurrence is cancelled.
DELETED = "deleted"
_STATES: dict[str, str] = {DELETED: DELETED} | {each.value: each for each in RuleState}
# The store's clock may have been ahead by so much without a rule changing for it.
LONGEST_AHEAD_MS = 3_600_000
# Of a rule, beside its request and definition.
_RULE_BYTES = 256
# Of a creation's note.
_RECURRING_ID_BYTES, _SLOT_BYTES = 16, 6
_encode = msgspec.msgpack.Encoder().encode


class Definition(msgspec.Struct, array_like=True, frozen=True):
    name: str | None
    timing: Timing
    tzdata: str


_decode = msgspec.msgpack.Decoder(Definition).decode
_decode_pause = msgspec.msgpack.Decoder(Pause).decode


def _definition_of(packed: bytes) -> Definition:
    """Without the anchor that older versions left behind after a change from `every` to `cron`."""
    definition = _decode(packed)
    if definition.timing.cron is None or definition.timing.anchor_ms == 0:
        return definition
    timing = msgspec.structs.replace(definition.timing, anchor_ms=0)
    return msgspec.structs.replace(definition, timing=timing)


class StoredRule(msgspec.Struct):
    """A rule as it was read. `state` is a RuleState or DELETED. `request` stays packed."""

    account_id: str
    local: str
    version: int
    definition: Definition
    packed: bytes
    state: str
    reason: str
    occurrence: str
    slot_ms: int | None
    fired_ms: int
    cancelled_ms: int
    missed: int
    untold: Missed
    size_bytes: int
    pause: Pause | None = None

    @property
    def name(self) -> tuple[str, str]:
        return self.account_id, self.local

    @property
    def recurring_id(self) -> str:
        return ids.recurring_id(self.local)

    @property
    def timing(self) -> Timing:
        return self.definition.timing

    @property
    def computed(self) -> tuple[Timing, str]:
        """All that its slots follow from."""
        return self.timing.times, self.definition.tzdata

    @property
    def is_by_zone(self) -> bool:
        """Its slots follow from tzdata."""
        return self.timing.cron is not None and self.timing.zone != "UTC"

    @property
    def is_newer(self) -> bool:
        """Its slots follow from a newer tzdata than this process has."""
        return self.is_by_zone and self.definition.tzdata > TZDATA_VERSION

    def renewed(self) -> StoredRule | None:
        """The same by this process's tzdata; None if that is not newer, or does not matter."""
        if not self.is_by_zone or self.definition.tzdata >= TZDATA_VERSION:
            return None
        return self.by_own_tzdata()

    def by_own_tzdata(self) -> StoredRule:
        definition = msgspec.structs.replace(self.definition, tzdata=TZDATA_VERSION)
        size_bytes = weight_of(packed_definition(definition), self.packed)
        return msgspec.structs.replace(self, definition=definition, size_bytes=size_bytes)

    @property
    def resumes_at_ms(self) -> int | None:
        """When its pause ends by itself; None: it is not paused, or has no end."""
        return None if self.pause is None else self.pause.until_ms

    def is_to_resume(self, now_ms: int) -> bool:
        """The end of its pause has come, and no worker has resumed it yet."""
        at_ms = self.resumes_at_ms
        return at_ms is not None and at_ms <= now_ms

    @property
    def settled_ms(self) -> int:
        """Up to this slot none is made."""
        return max(self.fired_ms, self.cancelled_ms)

    def note_fired(self) -> None:
        """Its occurrence was fired, or is about to be."""
        self.fired_ms = max(self.fired_ms, self.slot_ms or 0)

    def note_cancelled(self) -> None:
        """Its owner has cancelled its occurrence."""
        self.cancelled_ms = max(self.cancelled_ms, self.slot_ms or 0)

    def note_passed(self, now_ms: int) -> None:
        """Slots up to now are not missed."""
        self.fired_ms = max(self.fired_ms, now_ms)

    def note_missed(self, missed: Missed) -> None:
        """It is blocked, and these came up."""
        self.missed, self.untold = self.missed + missed.count, self.untold + missed

    def take_floor(self, before: StoredRule) -> None:
        """`before`, of which this is a change, was settled."""
        self.fired_ms = max(self.fired_ms, before.fired_ms)
        self.missed, self.untold = before.missed, before.untold

    def back_at(self, now_ms: int) -> StoredRule | None:
        """The same without what a clock has left that was ahead: slots from now on count again.
        None if no clock was ahead by more than an hour; so long it is as if it had stood still. An
        owner may have had an occurrence of a later slot sent: the one that waits was made now."""
        latest_ms = now_ms + LONGEST_AHEAD_MS
        if self.fired_ms <= latest_ms:
            return None
        if not self.occurrence:  # nothing tells when its last slot was sent
            return None
        if ids.created_at_ms(ids.schedule_id(self.occurrence)) <= latest_ms:
            return None
        cancelled_ms = self.cancelled_ms if self.cancelled_ms < self.fired_ms else 0
        return msgspec.structs.replace(self, fired_ms=now_ms, cancelled_ms=cancelled_ms)

    def stands(self, occurrence: str, slot_ms: int | None) -> str:
        """Its `n` with this occurrence and slot."""
        return f"{occurrence} {'' if slot_ms is None else slot_ms} {self.fired_ms}"

    def place(self, occurrence: str, slot_ms: int | None) -> dict[str, Argument]:
        return {"n": self.stands(occurrence, slot_ms), "c": self.cancelled_ms}

    @property
    def stretch(self) -> dict[str, Argument]:
        """What it has missed since it was blocked."""
        first_ms, count = self.untold.first_ms, self.untold.count
        return {"m": self.missed, "u": f"{first_ms} {count}" if count else ""}

    @property
    def pausing(self) -> dict[str, Argument]:
        return {"h": "" if self.pause is None else _encode(self.pause)}

    def request(self, secrecy: Secrecy) -> Request:
        """Raises Unreadable."""
        return open_request(self.packed, secrecy)


def stored_rule(account_id: str, local: str, row: list[bytes | None]) -> StoredRule | None:
    """Of the values of FIELDS; None if there is no such rule. Raises Unreadable."""
    version, definition, packed, state, stands, cancelled, missed, untold, pause = row
    if version is None:
        return None
    try:
        told, _, reason = (state or b"").decode().partition(" ")
        occurrence, slot, fired = (stands or b"").decode().split(" ")
        return StoredRule(
            account_id,
            local,
            int(version),
            _definition_of(definition or b""),
            packed or b"",
            _STATES[told],
            reason,
            occurrence,
            int(slot) if slot else None,
            int(fired),
            int(cancelled or 0),
            int(missed or 0),
            Missed(*map(int, untold.split(b" "))) if untold else NONE_MISSED,
            weight_of(definition or b"", packed or b""),
            _decode_pause(pause) if pause else None,
        )
    except (msgspec.MsgspecError, TypeError, ValueError, KeyError) as error:
        raise Unreadable(f"The recurring schedule {ids.recurring_id(local)} is damaged") from error


def weight_of(definition: bytes, packed: bytes) -> int:
    """The weight of a rule itself in its account's bytes; its occurrences count as schedules."""
    return _RULE_BYTES + len(definition) + len(packed)


def packed_definition(definition: Definition) -> bytes:
    return _encode(definition)


def defined(draft: Draft, recurring_id: str) -> Definition:
    """With the anchor of its intervals, which is its beginning or its creation."""
    timing = draft.timing
    if timing.every_ms is None:
        timing = msgspec.structs.replace(timing, anchor_ms=0)
    else:
        begins_ms = timing.starts_at_ms
        anchor_ms = ids.created_at_ms(recurring_id) if begins_ms is None else begins_ms
        timing = msgspec.structs.replace(timing, anchor_ms=anchor_ms)
    return Definition(draft.name, timing, TZDATA_VERSION)


def new_rule(account_id: str, draft: Draft, now_ms: int, secrecy: Secrecy) -> StoredRule:
    """A rule that is not stored yet, without a slot; with the id of its first occurrence."""
    recurring_id = ids.new_recurring_id(now_ms)
    definition = defined(draft, recurring_id)
    packed = seal_request(template(draft.request, recurring_id), secrecy)
    size_bytes = weight_of(packed_definition(definition), packed)
    occurrence = ids.local(ids.new_schedule_ids(1, now_ms)[0])
    what = (account_id, ids.local(recurring_id), 0, definition, packed, RuleState.ACTIVE, "")
    return StoredRule(*what, occurrence, None, now_ms, 0, 0, NONE_MISSED, size_bytes)


def redefined(
    rule: StoredRule, draft: Draft, pause: Pause | None, secrecy: Secrecy
) -> StoredRule | None:
    """The rule as the draft asks for it, with this pause; None if it is so already. One that has
    ended, and stays so, is not paused. Raises Unreadable."""
    definition = defined(draft, rule.recurring_id)
    before, was = rule.definition, rule.request(secrecy)
    request = msgspec.structs.replace(template(draft.request, rule.recurring_id), trace=was.trace)
    if definition.timing.times == before.timing.times:
        definition = msgspec.structs.replace(definition, tzdata=before.tzdata)
    timing, was_timing = definition.timing, before.timing
    has_same_end = timing.times == was_timing.times and timing.ends_at_ms == was_timing.ends_at_ms
    if rule.state == RuleState.ENDED and has_same_end:
        pause = None
    packed = rule.packed
    if request != was:
        packed = seal_request(request, secrecy)
    elif definition == before and pause == rule.pause:
        return None
    size_bytes = weight_of(packed_definition(definition), packed)
    return msgspec.structs.replace(
        rule, definition=definition, packed=packed, size_bytes=size_bytes, pause=pause
    )


def template(request: Request, recurring_id: str) -> Request:
    """The request that a rule keeps: without its times, and with the rule. Its trace is the one of
    the rule's create, to which fires of occurrences have a link."""
    mark, fields = Occurrence(recurring_id), {"trigger_at_ms": 0, "expires_at_ms": None}
    return msgspec.structs.replace(request, **fields, recurring=mark)


def occurrence_of(
    request: Request, timing: Timing, slot_ms: int | None, trigger_at_ms: int
) -> Request:
    """A template's request for one time."""
    mark = request.recurring
    assert mark is not None
    lasts_ms = timing.expires_after_ms
    return msgspec.structs.replace(
        request,
        trigger_at_ms=trigger_at_ms,
        expires_at_ms=None if lasts_ms is None else trigger_at_ms + lasts_ms,
        recurring=Occurrence(mark.recurring_id, slot_ms),
    )


def shown(rule: StoredRule, secrecy: Secrecy) -> Rule:
    """As its owner sees it. Raises Unreadable."""
    waits = bool(rule.occurrence) and rule.state == RuleState.ACTIVE
    has_next = waits or rule.state == RuleState.BLOCKED
    return Rule(
        recurring_id=rule.recurring_id,
        name=rule.definition.name,
        timing=rule.timing,
        request=rule.request(secrecy),
        state=RuleState(rule.state),
        created_at_ms=ids.created_at_ms(rule.recurring_id),
        reason=rule.reason,
        slot_ms=rule.slot_ms if has_next else None,
        schedule_id=ids.schedule_id(rule.occurrence) if waits else None,
        pause=rule.pause,
        missed=rule.missed,
        etag=etag_of(rule),
    )


def etag_of(rule: StoredRule) -> str:
    """A digest of its settings, its pause and its state: it stays as occurrences come and go."""
    state = str(state_value(rule.state, rule.reason)).encode()
    settings = (packed_definition(rule.definition), rule.packed, _encode(rule.pause))
    what = b"\0".join((*settings, state))
    return hashlib.sha1(what, usedforsecurity=False).hexdigest()


def key_of(account_id: str, local: str) -> str:
    return keys.account(account_id) + keys.RULE + local


def state_value(state: str, reason: str = "") -> Argument:
    return f"{state} {reason}" if reason else state


def creation_note(once: Idempotency, rule: StoredRule) -> bytes:
    """The value of the Idempotency-Key of a call that created a rule, which `idempotency` reads:
    its note is the rule, then the slot."""
    head = asked(once) + bytes((Verdict.DONE, 0)) + ids.to_bytes("sch_" + rule.occurrence)
    slot = (rule.slot_ms or 0).to_bytes(_SLOT_BYTES, "big")
    return head + ids.to_bytes(rule.recurring_id) + slot


def created_before(draft: Draft, made: Made) -> Rule:
    """The rule as it was created, made again from its note and the repeated request."""
    recurring = ids.from_bytes(made.note[:_RECURRING_ID_BYTES])
    recurring_id = ids.recurring_id(ids.local(recurring))
    definition = defined(draft, recurring_id)
    return Rule(
        recurring_id=recurring_id,
        name=definition.name,
        timing=definition.timing,
        request=template(draft.request, recurring_id),
        state=RuleState.ACTIVE,
        created_at_ms=ids.created_at_ms(recurring_id),
        slot_ms=int.from_bytes(made.note[_RECURRING_ID_BYTES:], "big"),
        schedule_id=made.schedule_ids[0],
    )
