"""Which schedules a call for many means: named by their ids, or all of a list that match. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from api.cursors import Walk
from api.field import TEXT, Kind, Schema
from api.findings import Findings, shown
from api.json_text import Decode, List, Object, Part, read, whole_or_none
from api.query import judge_period
from api.rules import timestamp, url_filter
from scheduler import ids
from scheduler.models import Status
from scheduler.store.queries.listing import Selection
from scheduler.targets import MAX_URL_CHARACTERS

A = TypeVar("A")

MAX_IDS = 1000

_IDS = List(MAX_IDS)
_ID: Decode[str] = msgspec.json.Decoder(str).decode
_NO_COUNT = f"It must be a whole number from 1 to {MAX_IDS:,}."
_COUNT = Kind("integer", whole_or_none, _NO_COUNT)


class Asked(NamedTuple):
    """Either the strings that were `named` as ids, or the `selection` of a list, and the walk that
    its cursors are of."""

    named: list[str] | None
    selection: Selection
    walk: Walk

    @property
    def schedule_ids(self) -> list[str] | None:
        """Those of the named that are schedule ids, each once."""
        if self.named is None:
            return None
        return [each for each in dict.fromkeys(self.named) if ids.is_schedule_id(each)]

    def answers(
        self, done: Sequence[A], id_of: Callable[[A], str], unknown: Callable[[str], A]
    ) -> list[A]:
        """What came of each, in the order of the names: of one that was named twice, twice.
        `unknown` makes it for a name that is no schedule id, and of which there is only a
        beginning if it is long."""
        if self.named is None:
            return list(done)
        found = {id_of(each): each for each in done}
        return [found.get(each) or unknown(shown(each)) for each in self.named]


class _Member(NamedTuple):
    """One member of a filter; `rule` makes its value, or raises ValueError with a sentence."""

    kind: Kind
    rule: Callable[[Any], Any]
    schema: Schema
    description: str


def _url(text: str) -> str:
    return url_filter(text, MAX_URL_CHARACTERS)


def _moment(text: str) -> int:
    return max(timestamp(text), 0)


def _limit(number: int) -> int:
    if not 1 <= number <= MAX_IDS:
        raise ValueError(_NO_COUNT)
    return number


_DATE: Schema = {"format": "date-time"}
_MEMBERS = {
    "targetUrl": _Member(
        TEXT, _url, {"maxLength": MAX_URL_CHARACTERS}, "Only those of this very URL."
    ),
    "from": _Member(TEXT, _moment, _DATE, "Only what is at this moment or later. Not after `to`."),
    "to": _Member(TEXT, _moment, _DATE, "Only what is before this moment."),
    "limit": _Member(
        _COUNT,
        _limit,
        {"minimum": 1, "maximum": MAX_IDS},
        f"At most so many; {MAX_IDS:,}, if it is left out.",
    ),
    "cursor": _Member(
        TEXT,
        str,
        {"pattern": "^[A-Za-z0-9_-]+$"},
        "`nextCursor` of the answer before, with the same filter.",
    ),
}
_OBJECT = Object(["ids", "status", *_MEMBERS])

IDS_SCHEMA: Schema = {
    "type": "object",
    "description": "Those that are meant, by their ids. One that is no schedule id is answered"
    " with a 404 of its own; one that is given twice has its answer twice.",
    "properties": {
        "ids": {
            "type": "array",
            "items": {"type": "string"},
            "minItems": 1,
            "maxItems": MAX_IDS,
        }
    },
    "required": ["ids"],
    "additionalProperties": False,
}


def filter_schema(status: Status, description: str) -> Schema:
    """What clients are told of the other form."""
    return {
        "type": "object",
        "description": description,
        "properties": {
            "status": {"type": "string", "enum": [status]},
            **{name: _schema(member) for name, member in _MEMBERS.items()},
        },
        "required": ["status"],
        "additionalProperties": False,
    }


def _schema(member: _Member) -> Schema:
    type_ = {"type": [member.kind.type, "null"]}
    return {**type_, **member.schema, "description": member.description}


def parse_selection(data: bytes, path: str, status: Status) -> Asked:
    """What a body means: `{"ids": [...]}`, or a filter over the list of this status, which has to
    be named, so that nobody means all by saying nothing. Raises InvalidRequest with every bad
    field."""
    findings = Findings()
    given = _OBJECT.members(data, findings)
    if "ids" in given:
        for name in given:
            if name != "ids":
                findings.add(name, "It does not go with ids.")
        named = _named(bytes(given["ids"]), findings)
        findings.refuse_if_any()
        return Asked(named, Selection(), Walk())
    if _text(given.get("status", b"null")) != status:
        findings.add("status", f"Give ids, or a filter with the status {status}.")
    return _filter(given, path, findings)


def _filter(given: Mapping[str, Part], path: str, findings: Findings) -> Asked:
    values: dict[str, Any] = dict.fromkeys(_MEMBERS)
    for name, member in _MEMBERS.items():
        try:
            value = read(given.get(name, b"null"), member.kind.decode, member.kind.fault)
            values[name] = None if value is None else member.rule(value)
        except ValueError as error:
            findings.add(name, str(error))
    judge_period(values, findings)
    findings.refuse_if_any()
    url, limit = values["targetUrl"], values["limit"] or MAX_IDS
    walk = Walk(path, url)
    cursor = walk.taken_back(values["cursor"])
    return Asked(None, Selection(url, values["from"], values["to"], limit, cursor), walk)


def _named(text: bytes, findings: Findings) -> list[str]:
    elements = _IDS.elements(text)
    if not elements:
        findings.add("ids", f"It must be a list of 1 to {MAX_IDS:,} schedule ids.")
    named: list[str] = []
    for place, element in enumerate(elements):
        try:
            named.append(read(element, _ID, TEXT.fault))
        except ValueError as error:
            findings.add(f"ids[{place}]", str(error))
    return named


def _text(part: Part) -> str | None:
    """None for whatever is no string."""
    try:
        text: str | None = read(part, TEXT.decode, TEXT.fault)
    except ValueError:
        return None
    return text
