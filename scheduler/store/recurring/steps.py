"""One step of a rule, its writes, and how steps of many rules are carried out together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from scheduler import ids
from scheduler.errors import StoreError, Unreadable, anew
from scheduler.recurrence.recurring import MOST_RECURRING
from scheduler.store import keys
from scheduler.store.idempotency import ONCE_KEPT_MS
from scheduler.store.queries.reading import CHUNK, CHUNK_BYTES
from scheduler.store.recurring.rules import (
    STORED_FIELDS,
    StoredRule,
    key_of,
    packed_definition,
    stored_rule,
)
from scheduler.store.retention import Retention
from scheduler.store.server import Argument, Script, Server, pairs
from scheduler.store.server.clock import StoreClock
from scheduler.store.verdict import VERDICTS, Verdict

_STEP = Script("recurring/step")
_STEP_WITH_ROOM = Script("recurring/step_with_room")
_ADVANCE = Script("recurring/advance")
# Of one call of a script: 64 take the store a millisecond.
_MOST_AT_ONCE = 64
# Why an occurrence is not stored, which blocks its rule.
REFUSALS = frozenset({Verdict.UNPAID, Verdict.NO_ROOM, Verdict.TOO_MANY_LANES})


# A rule's account, and its local id there.
Named = tuple[str, str]
# As it was read; None: there is none.
Found = StoredRule | Unreadable | None
# Kinds of steps: the rule is removed; it cannot be read, and is looked after later.
_REMOVED, _PUT_OFF = "removed", "put-off"


class Step(msgspec.Struct):
    """What is written of a rule from `version` on (None: it is new). The head of `step.inc.lua`
    says what the parts are. `instead` makes the step that is carried out if the occurrence cannot
    be stored, of the verdict that says why. `missed`: how many slots it passes over. `only_makes`:
    it does no more than make the next occurrence of an active rule. `computes_anew`: by a newer
    tzdata."""

    account_id: str
    local: str
    version: int | None
    fields: dict[str, Argument]
    due_ms: int | None
    occurrence: tuple[Argument, ...] = ()
    more_bytes: int = 0
    names: tuple[str, ...] = ()
    entry: tuple[Argument, ...] = ()
    once: tuple[Argument, ...] = ()
    kind: str = ""
    operation: str = ""
    missed: int = 0
    only_makes: bool = False
    computes_anew: bool = False
    instead: Callable[[Verdict], Step] | None = None

    @classmethod
    def of(cls, rule: StoredRule, fields: dict[str, Argument], due_ms: int | None) -> Step:
        """`due_ms`: when to look after its occurrence; None: not."""
        return cls(rule.account_id, rule.local, rule.version, fields, due_ms)

    @classmethod
    def of_removal(cls, rule: StoredRule) -> Step:
        step = cls.of(rule, {}, None)
        step.kind, step.more_bytes = _REMOVED, -rule.size_bytes
        return step

    @classmethod
    def of_none(cls, name: Named) -> Step:
        """There is no such rule: nothing is looked after."""
        return cls(*name, 0, {}, None)

    @classmethod
    def of_unreadable(cls, name: Named) -> Step:
        """It is looked after in a minute."""
        return cls(*name, 0, {}, None, kind=_PUT_OFF)

    def with_definition(self, before: StoredRule, after: StoredRule) -> Step:
        """The same, which also writes another definition."""
        self.fields["d"] = packed_definition(after.definition)
        if after.packed is not before.packed:
            self.fields["r"] = after.packed
        self.more_bytes += after.size_bytes - before.size_bytes
        names = before.definition.name or "", after.definition.name or ""
        if names[0] != names[1]:
            self.names = (*names, "")
        if (instead := self.instead) is not None:
            self.instead = lambda verdict: instead(verdict).with_definition(before, after)
        return self

    def row(self) -> tuple[Argument, ...]:
        """For `advance.lua`, of one that `only_makes`."""
        account, version = keys.parts(self.account_id).local, self.version or 0
        when = version + 1, self.due_ms or 0, self.fields["n"]
        return (account, self.local, version, *when, *self.occurrence)

    @property
    def is_put_off(self) -> bool:
        return self.kind == _PUT_OFF

    def arguments(self) -> list[Argument]:
        version = "" if self.version is None else self.version
        found: list[Argument] = [keys.parts(self.account_id).local, self.local, version]
        found += (self.kind, self.operation, "" if self.due_ms is None else self.due_ms)
        found += (self.more_bytes, 2 * len(self.fields))
        for pair in self.fields.items():
            found += pair
        for part in (self.occurrence, self.names, self.entry, self.once):
            found.append(len(part))
            found += part
        return found


class Answer(msgspec.Struct, frozen=True):
    """The verdict on a step, and the once-key's value of one that was done before."""

    verdict: Verdict
    known: bytes = b""


class Steps:
    """Reads rules and carries out their steps, of many rules and shards in one call each."""

    def __init__(self, server: Server, clock: StoreClock, retention: Retention) -> None:
        self._server = server
        self._clock = clock
        quotas = retention.quotas
        self._head: list[Argument] = [retention.log_ms, retention.log_entries, ONCE_KEPT_MS]
        self._head += (MOST_RECURRING, len(quotas), *quotas)
        self._short_head: list[Argument] = [retention.log_ms, len(quotas), *quotas]

    async def read(self, names: Sequence[Named]) -> list[tuple[Named, Found]]:
        """These rules with their requests. Read-only."""
        # A rule has half of the fields at most times: HMGET would look for each of them.
        asked = [("HGETALL", key_of(*each)) for each in names]
        found = list[tuple[Named, Found]]()
        for each, row in zip(names, await self._server.reads(asked, damaged=True), strict=True):
            try:
                if isinstance(row, Unreadable):
                    raise row
                values = list(map(pairs(row).get, STORED_FIELDS))
                found.append((each, stored_rule(*each, values)))
            except Unreadable as error:
                found.append((each, anew(error)))
        return found

    async def sizes(self, names: Sequence[Named]) -> dict[Named, int]:
        """How many bytes their requests have, for `parts_of`. Read-only."""
        commands = [("HSTRLEN", key_of(*each), "r") for each in names]
        sizes = await self._server.reads(commands, damaged=True)
        return {
            each: 0 if isinstance(size, Unreadable) else size
            for each, size in zip(names, sizes, strict=True)
        }

    async def one(self, step: Step, *, stores: bool = False) -> Answer:
        """Carries out an owner's step, until it is answered; replicas have it then. `stores`: a
        full store refuses it. Raises StoreError."""
        script = _STEP_WITH_ROOM if stores else _STEP
        step.operation = step.local if step.version is None else ids.new_operation()
        shard = keys.shard(keys.parts(step.account_id).shard)
        now_us, [reply] = await self._server.write_until_answered(
            script, shard, [*self._head, *step.arguments()]
        )
        self._clock.observe(now_us)
        answer = _answer(reply)
        if answer.verdict in REFUSALS and step.instead is not None:
            return await self.one(step.instead(answer.verdict), stores=stores)
        return answer

    async def all(self, steps: Sequence[Step]) -> list[Verdict]:
        """Carries out steps of different rules, in one call where one server has them all. Raises
        StoreError if one of the calls failed; others may have been carried out."""
        verdicts = [Verdict.AGAIN] * len(steps)
        await self._each(_ADVANCE, steps, verdicts)
        await self._each(_STEP, steps, verdicts)
        again = {
            n: instead(each)
            for n, each in enumerate(verdicts)
            if each in REFUSALS and (instead := steps[n].instead) is not None
        }
        if again:
            instead_of = list(again.values())
            others = [Verdict.AGAIN] * len(again)
            await self._each(_STEP, instead_of, others)
            for n, verdict in zip(again, others, strict=True):
                verdicts[n] = verdict
        return verdicts

    async def _each(self, script: Script, steps: Sequence[Step], verdicts: list[Verdict]) -> None:
        """Carries out those that the script is for and that have no verdict yet."""
        by_shard: dict[int, list[int]] = {}
        for n, step in enumerate(steps):
            if verdicts[n] is Verdict.AGAIN and (script is _STEP or step.only_makes):
                by_shard.setdefault(keys.parts(step.account_id).shard, []).append(n)
        calls = [
            (shard, places[first : first + _MOST_AT_ONCE])
            for shard, places in by_shard.items()
            for first in range(0, len(places), _MOST_AT_ONCE)
        ]
        most = 1 if self._server.routed else max(1, len(calls))
        for first in range(0, len(calls), most):
            await self._call(script, calls[first : first + most], steps, verdicts)

    async def _call(
        self,
        script: Script,
        calls: Sequence[tuple[int, Sequence[int]]],
        steps: Sequence[Step],
        verdicts: list[Verdict],
    ) -> None:
        asked = list[tuple[str, list[Argument]]]()
        for shard, places in calls:
            arguments = list(self._head if script is _STEP else self._short_head)
            for n in places:
                arguments += steps[n].arguments() if script is _STEP else steps[n].row()
            asked.append((keys.shard(shard), arguments))
        replies = await self._server.run_each(script, asked)
        self._clock.observe_newest(replies)
        for (_, places), reply in zip(calls, replies, strict=True):
            if isinstance(reply, StoreError):
                raise anew(reply)
            # Of `step` one that is of a verdict alone, as none of these creates a rule.
            found = b"".join(reply[1]) if script is _STEP else reply[1]
            for n, verdict in zip(places, found, strict=True):
                verdicts[n] = VERDICTS[verdict]


def parts_of(sizes: Mapping[Named, int]) -> Iterator[list[Named]]:
    """Rules that are read together, by the bytes of their requests."""
    part, size_bytes = list[Named](), 0
    for name, size in sizes.items():
        if part and (len(part) >= CHUNK or size_bytes + size > CHUNK_BYTES):
            yield part
            part, size_bytes = [], 0
        part.append(name)
        size_bytes += size
    if part:
        yield part


def _answer(reply: bytes) -> Answer:
    return Answer(VERDICTS[reply[0]], reply[1:])
