"""Which schedules a call for many means: named by their ids, or all of a list that match. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from api.field import TEXT, WHOLE, Schema
from api.findings import Findings, shown
from api.json_text import Decode, List, Object, Part, read
from api.limits import MAX_ITEMS
from api.query import CURSOR, PERIOD, Parameter, Walk, judge_period, limit_of, url_of
from scheduler import ids
from scheduler.models import Status
from scheduler.store.queries.listing import Selection
from scheduler.targets import MAX_URL_CHARACTERS

A = TypeVar("A")

_IDS = List(MAX_ITEMS)
_ID: Decode[str] = msgspec.json.Decoder(str).decode
_STATUS = Parameter("status", str, {"type": "string"}, "")
_FILTERS = (
    url_of(MAX_URL_CHARACTERS, "Only those of this very URL."),
    *PERIOD,
    limit_of(MAX_ITEMS, {}, f"At most so many; {MAX_ITEMS:,}, if it is left out."),
    CURSOR,
)
_OBJECT = Object(["ids", "status", *(each.name for each in _FILTERS)])


class BulkQuery(NamedTuple):
    """Either the strings `named` as ids, or the `selection` of a list and its cursors' walk."""

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
        """What came of each, in the order of the names; twice for a name given twice. `unknown`
        makes it for a text that is no schedule id, with its beginning."""
        if self.named is None:
            return list(done)
        found = {id_of(each): each for each in done}
        return [found.get(each) or unknown(shown(each)) for each in self.named]


IDS_SCHEMA: Schema = {
    "type": "object",
    "description": "Those that are meant, by their ids. One that is no schedule id is answered"
    " with a 404 of its own; one that is given twice has its answer twice.",
    "properties": {
        "ids": {
            "type": "array",
            "items": {"type": "string"},
            "minItems": 1,
            "maxItems": MAX_ITEMS,
        }
    },
    "required": ["ids"],
    "additionalProperties": False,
}


def filter_schema(status: Status, description: str) -> Schema:
    """The other form, as JSON Schema."""
    return {
        "type": "object",
        "description": description,
        "properties": {
            "status": {"type": "string", "enum": [status]},
            **{
                each.name: {
                    **each.schema,
                    "type": [each.schema["type"], "null"],
                    "description": each.description,
                }
                for each in _FILTERS
            },
        },
        "required": ["status"],
        "additionalProperties": False,
    }


def parse_selection(data: bytes, path: str, status: Status) -> BulkQuery:
    """What a body means: `{"ids": [...]}`, or a filter over the list of this status, which has to
    be given, so that an empty body does not mean all. Raises InvalidRequest with every bad field.
    """
    findings = Findings()
    given = _OBJECT.members(data, findings)
    if "ids" in given:
        for name in given:
            if name != "ids":
                findings.add(name, "It does not go with ids.")
        named = _named(bytes(given["ids"]), findings)
        findings.refuse_if_any()
        return BulkQuery(named, Selection(), Walk())
    return _filter(given, path, status, findings)


def _filter(given: Mapping[str, Part], path: str, status: Status, findings: Findings) -> BulkQuery:
    values: dict[str, Any] = {}
    for each in (_STATUS, *_FILTERS):
        kind = WHOLE if each.schema["type"] == WHOLE.type else TEXT
        try:
            value = read(given.get(each.name, b"null"), kind.decode, kind.fault)
            values[each.name] = None if value is None else each.read(str(value))
        except ValueError as error:
            findings.add(each.name, str(error))
    if values.get("status", status) != status:
        findings.add("status", f"Give ids, or a filter with the status {status}.")
    judge_period(values, findings)
    findings.refuse_if_any()
    url, limit = values["targetUrl"], values["limit"] or MAX_ITEMS
    walk = Walk(path, url)
    cursor = walk.taken_back(values["cursor"])
    return BulkQuery(None, Selection(url, values["from"], values["to"], limit, cursor), walk)


def _named(text: bytes, findings: Findings) -> list[str]:
    elements = _IDS.elements(text)
    if not elements:
        findings.add("ids", f"It must be a list of 1 to {MAX_ITEMS:,} schedule ids.")
    named: list[str] = []
    for place, element in enumerate(elements):
        try:
            named.append(read(element, _ID, TEXT.fault))
        except ValueError as error:
            findings.add(f"ids[{place}]", str(error))
    return named
