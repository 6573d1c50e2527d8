"""What operations on recurring schedules need: a rule of each party, and its occurrence as a worker
holds it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Sequence
from typing import Any

from msgspec.structs import replace

from scheduler import ids
from scheduler.models import Idempotency, Invocation, Occurrence, Request
from scheduler.recurrence.recurrence import Timing
from scheduler.recurrence.recurring import Draft, Rule
from scheduler.store import Store, keys
from scheduler.store.recurring.steps import Step
from scheduler.store.verdict import Verdict
from tests.store.scene import URL
from tests.store.whole.parties import LEASE_MS, Party
from tests.support.plain import redis_of

# The rule of each account.
RULES: dict[str, Rule] = {}
ONCE_A_RULE = Idempotency("a rule", "of a rule")
_DAY_MS = 86_400_000
# Its times come after all tests, and always the same ones.
_TIMING = Timing(every_ms=_DAY_MS, starts_at_ms=int(time.time() * 1000) + _DAY_MS)


def draft(name: str = "ours", every_ms: int = _DAY_MS) -> Draft:
    request = Request(0, "POST", URL, reference="ours", lane="a")
    return Draft(request, replace(_TIMING, every_ms=every_ms), name)


def id_of(party: Party) -> str:
    return RULES[party.account_id].recurring_id


async def create_rule(store: Store, party: Party, once: Idempotency | None = None) -> Rule:
    return (await store.recurring.create(party.account_id, draft("new"), once)).rule


async def have_rule(store: Store, party: Party) -> None:
    for _ in range(100):  # calls that repeat ids begin with those that come first
        ids.new_schedule_ids(1, 0)
    RULES[party.account_id] = (await store.recurring.create(party.account_id, draft())).rule


async def have_untended_rules(store: Store, parties: Sequence[Party]) -> list[Any]:
    """Their occurrences were cancelled, that of the last party first."""
    for n, party in enumerate(reversed(parties), 1):
        await have_rule(store, party)
        await store.canceller.by_id(party.account_id, [str(RULES[party.account_id].schedule_id)])
        member = f"{party.account_id[7:]}:{ids.local(id_of(party))}"
        await redis_of(store).zadd(keys.shard(0) + keys.RULES_DUE, {member: n})
    return []


async def change_rule(store: Store, party: Party) -> Rule:
    """Its times, its name and the lane of its occurrence."""
    changed = draft("another", 2 * _DAY_MS)
    changed = changed._replace(request=replace(changed.request, lane="b", reference=None))
    return await store.recurring.change(party.account_id, id_of(party), lambda _: changed)


async def has_advanced(store: Store, party: Party) -> bool:
    rule = await store.recurring.read(party.account_id, id_of(party))
    return rule.schedule_id != RULES[party.account_id].schedule_id


async def verdicts(store: Store, parties: Sequence[Party], call: Awaitable[object]) -> list[Any]:
    """Those on the step of each party's rule. A rule that cannot be read has no step."""
    found: dict[str, Any] = {each.account_id: "damaged" for each in parties}
    steps: Any = store.recurring._steps
    carry_out = steps.all

    async def spy(some: Sequence[Step]) -> list[Verdict]:
        told: list[Verdict] = await carry_out(some)
        for step, verdict in zip(some, told, strict=True):
            found[step.account_id] = "damaged" if verdict is Verdict.DAMAGED else verdict
        return told

    steps.all = spy
    await call
    steps.all = carry_out
    return list(found.values())


def fired(parties: Sequence[Party]) -> list[Invocation]:
    """The occurrences of the rules of all parties, as workers hold them."""
    return [_held(RULES[each.account_id], each) for each in parties]


def _held(rule: Rule, party: Party) -> Invocation:
    assert rule.schedule_id is not None
    assert rule.slot_ms is not None
    mark = Occurrence(rule.recurring_id, rule.slot_ms)
    request = replace(rule.request, trigger_at_ms=rule.slot_ms, recurring=mark)
    what = (0, party.account_id, rule.schedule_id, "", 1, float(LEASE_MS), request, rule.slot_ms)
    return Invocation(*what)
