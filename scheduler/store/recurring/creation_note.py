"""The note kept with the Idempotency-Key of a call that created a rule."""

from __future__ import annotations

from scheduler import ids
from scheduler.models import Idempotency
from scheduler.recurrence.recurring import Draft, Rule, RuleState
from scheduler.store.idempotency import Made, asked
from scheduler.store.recurring.rules import StoredRule, defined, template
from scheduler.store.verdict import Verdict

_ID_BYTES = 16
_MOMENT_BYTES = 6


def note_of(once: Idempotency, rule: StoredRule) -> bytes:
    """The value of the key, which `idempotency` reads: its note is the rule, then the slot."""
    head = asked(once) + bytes((Verdict.DONE, 0)) + ids.to_bytes("sch_" + rule.occurrence)
    slot = (rule.slot_ms or 0).to_bytes(_MOMENT_BYTES, "big")
    return head + ids.to_bytes(rule.recurring_id) + slot


def created_before(draft: Draft, made: Made) -> Rule:
    """The rule as it was when it was created, of what was asked for then and is again."""
    recurring = ids.from_bytes(made.note[:_ID_BYTES])
    recurring_id = ids.recurring_id(ids.local(recurring))
    definition = defined(draft, recurring_id)
    return Rule(
        recurring_id=recurring_id,
        name=definition.name,
        timing=definition.timing,
        request=template(draft.request, recurring_id),
        state=RuleState.ACTIVE,
        created_at_ms=ids.created_at_ms(recurring_id),
        slot_ms=int.from_bytes(made.note[_ID_BYTES:], "big"),
        schedule_id=made.schedule_ids[0],
    )
