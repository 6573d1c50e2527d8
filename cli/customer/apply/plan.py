"""What differs between the files and the account, and the calls that set it right."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from cli.customer.apply.document import Place
from cli.customer.apply.wanted import (
    ACCOUNT,
    LANES,
    OF_CALLBACK,
    OF_LANE,
    OF_RULE,
    RECURRINGS,
    Asked,
    Wanted,
)
from cli.customer.lanes import pause_words
from cli.customer.remote import as_api
from scheduler import schema

if TYPE_CHECKING:
    from postdate import Account, Lane, Postdate, Recurring

_FIELDS = {ACCOUNT: OF_CALLBACK, LANES: OF_LANE, RECURRINGS: OF_RULE}
_KINDS = {ACCOUNT: "account", LANES: "lane", RECURRINGS: "recurring"}
_NOT_COMPARED = "only the API can compare what it masks, and a dry run does not ask it to"
_MASKED = "a value that the API masks has changed"


class Action(StrEnum):
    """Also how a result is spelt."""

    CREATE = "created"
    CHANGE = "changed"
    REMOVE = "removed"
    KEEP = "unchanged"


class Difference(NamedTuple):
    """None: the field has no value."""

    field: str
    old: Any
    new: Any


@dataclass(frozen=True)
class Step:
    """One change, or none, before and after it is made. `etag` is that of the state compared with,
    None if there was none. `notes` name what the command leaves as it is."""

    action: Action
    kind: str
    name: str
    differences: tuple[Difference, ...] = ()
    notes: tuple[str, ...] = ()
    etag: str | None = None
    wanted: Wanted | None = None

    @property
    def noun(self) -> str:
        return _KINDS[self.kind]

    @property
    def title(self) -> str:
        return f"{self.noun} {self.name}".strip()

    @property
    def place(self) -> Place | None:
        return self.wanted and self.wanted.place

    @property
    def asks(self) -> bool:
        """Whether it needs a call: the API alone can compare what it masks."""
        masked = self.wanted is not None and self.wanted.is_masked
        return self.action is not Action.KEEP or masked

    def done(self, client: Postdate) -> Step:
        """Carries out the step, and returns its result. Raises PostdateError: PreconditionFailed if
        somebody has changed the thing since it was compared. Safe to repeat with a new plan."""
        if self.action is Action.REMOVE:
            return self._removed(client)
        make = {ACCOUNT: self._set_callback, LANES: self._set_lane, RECURRINGS: self._set_rule}
        return self._as(make[self.kind](client))

    def _as(self, action: Action) -> Step:
        """The step with its outcome. A change without a difference is of a masked value."""
        notes = [note for note in self.notes if note != _NOT_COMPARED]
        if action is Action.CHANGE and not self.differences:
            notes.append(_MASKED)
        differences = () if action is Action.KEEP else self.differences
        return replace(self, action=action, differences=differences, notes=tuple(notes))

    def _set_callback(self, client: Postdate) -> Action:
        given: Any = {_option(name): self._given.get(name) for name in OF_CALLBACK}
        after = client.change_account(if_match=self.etag, **given)
        return Action.KEEP if after.etag == self.etag else Action.CHANGE

    def _set_lane(self, client: Postdate) -> Action:
        client.set_lane(self.name, **self._unless_changed, **self._given)
        return self.action

    def _set_rule(self, client: Postdate) -> Action:
        given = {_option(name): value for name, value in self._given.items()}
        if given.get("data") is not None:
            given["data"] = b64decode(given["data"])
        url = given.pop("url")
        put = client.put_recurring(self.name, url, **self._unless_changed, **given)
        if put.unchanged:
            return Action.KEEP
        return Action.CREATE if put.created else Action.CHANGE

    def _removed(self, client: Postdate) -> Step:
        if self.kind == RECURRINGS:
            client.delete_recurring(f"name:{self.name}", if_match=self.etag)
        else:  # as `clear_lane`, but for a pause or a calm, which are not the file's
            nothing: dict[str, Any] = dict.fromkeys(OF_LANE)
            client.change_lane(self.name, if_match=self.etag, **nothing)
        return self

    @property
    def _given(self) -> dict[str, Any]:
        assert self.wanted is not None
        return dict(self.wanted.given)

    @property
    def _unless_changed(self) -> dict[str, Any]:
        return {"if_none_match": "*"} if self.etag is None else {"if_match": self.etag}


@dataclass
class Plan:
    """The steps, in the order in which they are safe: a lane before the rules that name it, and
    what is removed last."""

    steps: list[Step] = field(default_factory=list)

    def count(self, action: Action) -> int:
        return sum(step.action is action for step in self.steps)

    @property
    def changes(self) -> bool:
        return self.count(Action.KEEP) < len(self.steps)


def plan_of(client: Postdate, asked: Asked, *, prune: bool) -> Plan:
    """Reads the account, and changes nothing. Raises PostdateError."""
    order = [ACCOUNT, LANES, RECURRINGS]
    wanted = sorted(asked.wanted, key=lambda each: order.index(each.kind))
    reader = _Reader(client, asked)
    plan = Plan([reader.step(each) for each in wanted])
    if prune:
        plan.steps += reader.surplus()
    return plan


class _Reader:
    def __init__(self, client: Postdate, asked: Asked) -> None:
        self._client, self._asked = client, asked
        self._named = {(each.kind, each.name) for each in asked.wanted}
        self._unset: dict[str, bool] = {}

    def step(self, wanted: Wanted) -> Step:
        if wanted.kind == ACCOUNT:
            account = self._client.account()
            notes = [f"stays paused{pause_words(account)}"] if account.paused else []
            return _compared(wanted, account, account.etag, notes)
        if wanted.kind == LANES:
            lane = self._client.lane(wanted.name)
            is_there = _is_set(lane) or lane.paused
            step = _compared(wanted, lane, lane.etag if is_there else None, _notes_of_lane(lane))
            created = not _is_set(lane)
            return replace(step, action=Action.CREATE) if created else step
        rule = self._rule(wanted.name)
        notes = [*_notes_of_rule(rule), *self._notes_of_its_lane(wanted)]
        return _compared(wanted, rule, None if rule is None else rule.etag, notes)

    def surplus(self) -> Iterator[Step]:
        """What the files own and do not name."""
        for rule in list(self._client.recurring_all()):
            if self._is_surplus(RECURRINGS, rule.name):
                found = self._rule(rule.name or "")
                if found is not None:
                    yield _surplus(RECURRINGS, rule.name, found, _notes_of_rule(found, gone=True))
        for lane in list(self._client.lanes()):
            if _is_set(lane) and self._is_surplus(LANES, lane.lane):
                found_lane = self._client.lane(lane.lane)
                yield _surplus(LANES, lane.lane, found_lane, _notes_of_lane(found_lane))

    def _is_surplus(self, kind: str, name: str | None) -> bool:
        return name is not None and self._asked.owned(name) and (kind, name) not in self._named

    def _rule(self, name: str) -> Recurring | None:
        from postdate import NotFound

        try:
            return self._client.recurring(f"name:{name}")
        except NotFound:
            return None

    def _notes_of_its_lane(self, wanted: Wanted) -> Iterator[str]:
        lane = wanted.shown["lane"]
        if lane is None or (LANES, lane) in self._named:
            return
        if lane not in self._unset:
            found = self._client.lane(lane)
            self._unset[lane] = not (_is_set(found) or found.paused)
        if self._unset[lane]:
            yield f"nothing sets its lane {lane}, which has no limits then"


def _compared(
    wanted: Wanted,
    found: Account | Lane | Recurring | None,
    etag: str | None,
    notes: list[str],
) -> Step:
    fields = _FIELDS[wanted.kind]
    old = dict.fromkeys(fields) if found is None else _shown(found)
    differences = tuple(
        Difference(name, old[name], wanted.shown[name])
        for name in fields
        if _text(old[name]) != _text(wanted.shown[name])
        and (found is not None or name in wanted.given)
    )
    action = Action.CREATE if found is None else Action.CHANGE if differences else Action.KEEP
    if action is Action.KEEP and wanted.is_masked:
        notes = [*notes, _NOT_COMPARED]
    return Step(action, wanted.kind, wanted.name, differences, tuple(notes), etag, wanted)


def _surplus(kind: str, name: str | None, found: Lane | Recurring, notes: list[str]) -> Step:
    shown = _shown(found)
    had = [Difference(each, shown[each], None) for each in _FIELDS[kind] if shown[each]]
    return Step(Action.REMOVE, kind, name or "", tuple(had), tuple(notes), found.etag)


def _shown(found: Account | Lane | Recurring) -> Mapping[str, Any]:
    answer = as_api(found)
    assert isinstance(answer, dict)
    return answer


def _text(value: Any) -> str:
    """To compare by: 1, 1.0 and true are equal in Python. Names of headers have no order."""
    if isinstance(value, dict) and all(isinstance(each, str) for each in value.values()):
        value = dict(sorted(value.items()))
    return json.dumps(value, ensure_ascii=False)


def _is_set(lane: Lane) -> bool:
    return any((lane.rate, lane.parallelism, lane.note))


def _notes_of_lane(lane: Lane) -> list[str]:
    return [f"stays paused{pause_words(lane)}"] if lane.paused else []


def _notes_of_rule(rule: Recurring | None, *, gone: bool = False) -> list[str]:
    if rule is None or rule.state == "active":
        return []
    if rule.state == "paused":
        return [f"{'was' if gone else 'stays'} paused{pause_words(rule)}"]
    return [f"{rule.state}: {rule.reason.replace('_', ' ')}" if rule.reason else rule.state]


def _option(name: str) -> str:
    """The client's argument for a field of the API."""
    row = schema.NAMED.get(name)
    return row.option if row else re.sub("([A-Z])", r"_\1", name).lower()
