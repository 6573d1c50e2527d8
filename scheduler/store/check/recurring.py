"""Whether each recurring schedule (rule) is in all indexes, and has the occurrence that it names.
Read-only."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from scheduler import ids
from scheduler.models import Occurrence
from scheduler.recurrence.recurring import RuleState
from scheduler.store import keys
from scheduler.store.check.damage import noting_damage, text
from scheduler.store.check.weights import Weights
from scheduler.store.heads import heads_of, read_recurring
from scheduler.store.queries.reading import read_rows
from scheduler.store.recurring.rules import DELETED, FIELDS, STATE_NUMBERS, StoredRule, stored_rule
from scheduler.store.server import Argument, Server
from scheduler.store.server.clock import time_us
from scheduler.store.stored import Fields
from scheduler.times import format_iso8601

_CHUNK = 200
_SLACK_MS = 1000
# The latest look after an occurrence that is late.
_MOST_WATCH_MS = 3_600_000
_TENDED = (RuleState.ACTIVE, RuleState.BLOCKED, DELETED)
_WITHOUT_REQUEST = tuple(each for each in FIELDS if each != "r")


class _Stand(NamedTuple):
    """Where a rule stands at one moment: among its account's, when it is looked after (ms), the
    number of its state, and the rule that has its name."""

    now_ms: float
    listed: bool
    due_ms: float | None
    state: int
    holder: str = ""


class Slots:
    """The slots of schedules that have not ended. `faults` has a sentence for each that two stand
    for. It remembers digests: a million weigh 70 MB."""

    def __init__(self) -> None:
        self._seen = set[int]()
        self.faults: list[str] = []

    def note(self, account_id: str, rows: Iterable[tuple[str, Fields]]) -> None:
        for _, fields in rows:
            if fields.outcome is None and (mark := _mark(fields)) is not None and mark.slot_ms:
                digest = hash((account_id, mark))
                if digest in self._seen:
                    self.faults.append(
                        f"{account_id}: {mark.recurring_id} has two schedules for its slot"
                        f" {format_iso8601(mark.slot_ms)} that have not ended"
                    )
                self._seen.add(digest)


async def faults_of_rules(
    server: Server, weights: Weights, account_id: str, rules: Sequence[str]
) -> list[str]:
    """A sentence for each fault of these rules of an account, by their local ids."""
    base, found = keys.account(account_id), list[str]()
    while rules:
        read = await read_rows(server, base, rules, fields=("r",), kind=keys.RULE)
        some, rules = rules[: len(read)], rules[len(read) :]
        stands = dict[str, tuple[StoredRule, _Stand]]()
        rows = await _rows(server, account_id, some)
        for local, fields, (row, stand) in zip(some, read, rows, strict=True):
            with noting_damage(found, f"{account_id}: {ids.recurring_id(local)}"):
                packed = fields.packed or b""
                rule = stored_rule(account_id, local, [*row[:2], packed, *row[2:]])
                if rule is not None:
                    weights.add_rule(account_id, rule.size_bytes)
                    rule.request(server.secrecy)
                    stands[local] = rule, stand
        await _find_holders(server, base, stands)
        have = await _with_occurrences(server, base, [rule for rule, _ in stands.values()])
        for local, (rule, stand) in stands.items():
            faults = _faults(rule, stand, has_occurrence=local in have)
            found += [f"{account_id}: {rule.recurring_id} {fault}" for fault in faults]
    return found


def _faults(rule: StoredRule, stand: _Stand, *, has_occurrence: bool) -> Iterator[str]:
    name, is_deleted = rule.definition.name, rule.state == DELETED
    if stand.listed is is_deleted:
        yield f"is {'still' if is_deleted else 'not'} among its account's recurring schedules"
    if name is not None and not is_deleted and stand.holder != rule.local:
        yield f"has the name {name!r}, which does not lead to it"
    if stand.state != STATE_NUMBERS.get(rule.state, 0):
        yield f"is {rule.state}, and counted as in another state"
    if stand.due_ms is None:
        if rule.state in _TENDED or rule.occurrence or rule.resumes_at_ms is not None:
            yield "needs to be looked after, and no worker will"
        return
    slot_ms, is_active = rule.slot_ms or 0, rule.state == RuleState.ACTIVE
    if is_active and not has_occurrence and stand.due_ms > stand.now_ms + _SLACK_MS:
        named = f" ({ids.schedule_id(rule.occurrence)})" if rule.occurrence else ""
        when = format_iso8601(slot_ms)
        yield f"has no occurrence for its slot {when}{named}, and no worker will tend it yet"
    # Of a late one, a change of the end may have settled later slots.
    is_settled = slot_ms in (rule.fired_ms, rule.cancelled_ms) or slot_ms < rule.cancelled_ms
    is_settled = is_settled or stand.now_ms < slot_ms < rule.fired_ms
    if is_active and rule.occurrence and is_settled:
        yield f"has an occurrence for the slot {format_iso8601(slot_ms)}, which is settled"
    latest_ms = max(slot_ms, stand.now_ms) + _MOST_WATCH_MS
    if rule.resumes_at_ms is not None and not rule.occurrence:
        latest_ms = max(rule.resumes_at_ms, stand.now_ms)
    if stand.due_ms > latest_ms + _SLACK_MS:
        yield "is looked after too late"


async def faults_of_lists(server: Server, account_id: str) -> AsyncIterator[str]:
    """A sentence for each member of an account's indexes of rules that leads to none."""
    base = keys.account(account_id)
    for place in (keys.RULES, keys.RULE_STATES):
        async for chunk in server.members("ZSCAN", base + place, _CHUNK):
            for local, there in zip(chunk, await _exist(server, base, chunk), strict=True):
                if not there:
                    yield f"among its {place} is {text(local)!r}, which is gone"
    async for names in server.members("HSCAN", base + keys.RULE_NAMES, _CHUNK):
        holders = [
            each or b"" for each in await server.read("HMGET", base + keys.RULE_NAMES, *names)
        ]
        for name, local, there in zip(
            names, holders, await _exist(server, base, holders), strict=True
        ):
            if not there:
                yield f"the name {text(name)!r} leads to {text(local)!r}, which is gone"


async def strangers_due(server: Server, shard: int) -> AsyncIterator[str]:
    """A sentence for each rule that is to be looked after, and is gone."""
    prefix = keys.shard(shard)
    async for chunk in server.members("ZSCAN", prefix + keys.RULES_DUE, _CHUNK):
        named = [member.partition(b":") for member in chunk]
        bases = [f"{prefix}{text(account)}:" for account, _, _ in named]
        there = await server.reads(
            [
                ("EXISTS", base + keys.RULE + text(local))
                for base, (_, _, local) in zip(bases, named, strict=True)
            ]
        )
        for member, is_there in zip(chunk, there, strict=True):
            if not is_there:
                yield f"Shard {shard} looks after {text(member)!r}, no recurring schedule"


async def _rows(
    server: Server, account_id: str, rules: Sequence[str]
) -> list[tuple[list[Any], _Stand]]:
    shard, account = keys.parts(account_id)
    prefix, base = keys.shard(shard), keys.account(account_id)
    commands: list[tuple[Argument, ...]] = [("TIME",)]
    for local in rules:
        commands.append(("HMGET", base + keys.RULE + local, *_WITHOUT_REQUEST))
        commands.append(("ZSCORE", base + keys.RULES, local))
        commands.append(("ZSCORE", prefix + keys.RULES_DUE, f"{account}:{local}"))
        commands.append(("ZSCORE", base + keys.RULE_STATES, local))
    time, *replies = await server.reads(commands, at_once=prefix)
    now_ms = time_us(time) / 1000
    found = list[tuple[list[Any], _Stand]]()
    for row, listed, due, state in zip(*(replies[n::4] for n in range(4)), strict=True):
        due_ms = None if due is None else float(due)
        found.append((row, _Stand(now_ms, listed is not None, due_ms, int(state or 0))))
    return found


async def _find_holders(
    server: Server, base: str, stands: dict[str, tuple[StoredRule, _Stand]]
) -> None:
    named = [(local, rule.definition.name) for local, (rule, _) in stands.items()]
    asked = [(local, name) for local, name in named if name is not None]
    holders = await server.reads([("HGET", base + keys.RULE_NAMES, name) for _, name in asked])
    for (local, _), holder in zip(asked, holders, strict=True):
        rule, stand = stands[local]
        stands[local] = rule, stand._replace(holder=text(holder or b""))


async def _with_occurrences(server: Server, base: str, rules: Sequence[StoredRule]) -> set[str]:
    """Those whose occurrence has not ended, and stands for their slot."""
    left = [each for each in rules if each.occurrence]
    found = set[str]()
    while left:
        schedules = [each.occurrence for each in left]
        rows = await read_rows(server, base, schedules, fields=("r", "o"))
        for rule, fields in zip(left, rows, strict=False):
            wanted = Occurrence(rule.recurring_id, rule.slot_ms)
            if fields.outcome is None and _mark(fields) == wanted:
                found.add(rule.local)
        left = left[len(rows) :]
    return found


async def _exist(server: Server, base: str, rules: Sequence[bytes]) -> list[int]:
    return await server.reads([("EXISTS", base + keys.RULE + text(each)) for each in rules])


def _mark(fields: Fields) -> Occurrence | None:
    """Which occurrence a stored schedule is; None also if its head is damaged, which is reported
    with the schedule."""
    head = heads_of(fields.packed or b"").recurring
    if not head:
        return None
    try:
        return read_recurring(head)
    except ValueError:
        return None
