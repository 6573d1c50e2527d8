"""Writes what the clients take from the server: the Python client from the tables of fields and
filters, the TypeScript client and the MCP server from the OpenAPI document. `make schema`; with
--check it writes nothing, and exits with 1 if a file is not what it would write."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from api.openapi.operations import OPERATIONS, SCHEDULE_ID
from api.openapi.requests import REQUESTS
from api.schema.fields import CHOICES
from clients.typescript_types import typescript
from scheduler import schema
from scheduler.field_rows import FieldRow, Kind
from scheduler.filters import FILTERS

HERE = Path(__file__).parent
PYTHON = HERE / "python/postdate/_schema.py"
TYPESCRIPT = HERE / "typescript/src/schema.ts"
MCP = HERE / "python/postdate/mcp/inputs.json"
_SPAN = "timedelta | float | str"
# How each kind is annotated, and the function that writes it for the server.
_PYTHON = {
    Kind.TEXT: ("str", "text"),
    Kind.TEXTS: ("Sequence[str]", "texts"),
    Kind.URL: ("str", "text"),
    Kind.CHOICE: ("str", "text"),
    Kind.WHOLE: ("int", "whole"),
    Kind.MOMENT: ("datetime | str", "moment"),
    Kind.DURATION: (_SPAN, "duration"),
    Kind.SECONDS: (_SPAN, "duration"),
    Kind.DURATIONS: (f"Sequence[{_SPAN}]", "durations"),
    Kind.HEADERS: ("Mapping[str, str]", "headers"),
    Kind.OBJECT: ("Mapping[str, Any]", "json_object"),
    Kind.BASE64: ("BytesLike", "base64"),
    Kind.NAME: ("str", "path_part"),
}
# How each kind is annotated in an answer, if it is another one.
_SHOWN = {Kind.SECONDS: "str", Kind.DURATIONS: "Sequence[str]", Kind.BASE64: "str"}
_SHOWN[Kind.TEXTS] = "tuple[str, ...]"
# What an answer has always.
_ALWAYS = ("targetUrl", "targetMethod", "targetHeaders")
_WHEN = "trigger_at_ms"
_MODULE = '''\
"""Options, filters and shown fields of a request. `make schema` writes them from the server's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias, TypedDict

from postdate import arguments as kinds
from postdate.arguments import BytesLike

{choices}


class RequestOptions(TypedDict, total=False):
    """The request and its delivery. None is the same as absent, but for `callback_url`: absent or
    "default", the account's; None, no callback."""

{of_request}


class ScheduleOptions(RequestOptions, total=False):
    """The options of `schedule` besides the URL: also when."""

{of_time}


class CreateOptions(ScheduleOptions, total=False):
    """Further options of `schedule`, which need `reference`: keep or replace the schedule that
    waits with it; with "replace", the longest wait."""

{of_create}


class Filters(TypedDict, total=False):
    """Which schedules, or entries of the log, are meant: all that match all of these. `reference`
    may end in `*`; `from_` is inclusive, `to` exclusive."""

{filters}


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFields:
    """The request of a schedule or of a recurring one, as the server shows it."""

{shown}


# The server's name of each option that does not say when, and how it is written.
FIELDS = {{
{written}
}}
FILTERS = {{
{filtered}
}}
'''


def _literal(row: FieldRow) -> str:
    return f"Literal[{', '.join(map(_quoted, row.choices))}]"


def _quoted(text: str) -> str:
    return f'"{text}"'


def _annotation(row: FieldRow) -> str:
    if row.name == "targetMethod":  # in any letter case
        return "str"
    if row.kind is Kind.CHOICE:
        return row.choice or _literal(row)
    return _PYTHON[row.kind][0]


def _options(rows: Iterable[FieldRow]) -> str:
    lines = list[str]()
    for row in rows:
        lines.append(f"    {row.option}: {_annotation(row)} | None")
        if row.name == "triggerAt":
            lines.append("    in_: timedelta | float | None")
    return "\n".join(lines)


def _shown(row: FieldRow) -> str:
    name = re.sub("([A-Z])", r"_\1", row.name).lower()
    annotation = _SHOWN.get(row.kind) or _annotation(row)
    if row.name in _ALWAYS:
        return f"    {name}: {annotation}"
    default = f"{row.default}s" if row.kind is Kind.SECONDS else row.default
    if row.kind is Kind.URL and row.choices:
        [default] = row.choices
        annotation = f"{annotation} | None"
    if row.kind is Kind.TEXTS:
        return f"    {name}: {annotation} = ()"
    if default in (None, ""):
        return f"    {name}: {annotation} | None = None"
    return f"    {name}: {annotation} = {json.dumps(default)}"


def python() -> str:
    rows = (*schema.FIELDS, *schema.ON_EXISTING)
    named = [row for row in rows if row.choice and row.name != "targetMethod"]
    written = [
        f'    "{row.option}": ("{row.name}", kinds.{_PYTHON[row.kind][1]}),'
        for row in rows
        if row.attribute != _WHEN
    ]
    return _MODULE.format(
        choices="\n".join(f"{row.choice}: TypeAlias = {_literal(row)}" for row in named),
        of_request=_options(r for r in schema.FIELDS if not r.instead and not r.required),
        of_time=_options(row for row in schema.FIELDS if row.instead),
        of_create=_options(schema.ON_EXISTING),
        filters="\n".join(f"    {row.option}: {_PYTHON[row.kind][0]} | None" for row in FILTERS),
        filtered="\n".join(
            f'    "{row.option}": ("{row.name}", kinds.{_PYTHON[row.kind][1]}),' for row in FILTERS
        ),
        shown="\n".join(_shown(row) for row in schema.FIELDS if not row.instead),
        written="\n".join(written),
    )


def mcp() -> str:
    """The arguments of each tool of the MCP server, as JSON Schema."""
    schedule_id = {
        "scheduleId": SCHEDULE_ID["schema"] | {"description": SCHEDULE_ID["description"]}
    }
    key = {
        "type": "string",
        "pattern": "^[!-~]{1,255}$",
        "description": "A name of your own for this call. For 24 hours another call with the same "
        "name and arguments gets the same answer, and costs nothing.",
    }
    if_match = {
        "type": "string",
        "description": "The etag that get_schedule gave: if the schedule has changed since, "
        "nothing is done.",
    }
    create, change = REQUESTS["ScheduleRequest"], REQUESTS["ChangeRequest"]
    inputs = {
        "find_schedules": _input(_query("listSchedules")),
        "get_schedule": _input(schedule_id, "scheduleId"),
        "why_held": _input(schedule_id, "scheduleId"),
        "read_log": _input(_query("listLogs")),
        "schedule_request": _input(
            create["properties"] | {"idempotencyKey": key}, *create["required"]
        ),
        "change_schedule": _input(
            schedule_id | change["properties"] | {"ifMatch": if_match}, "scheduleId"
        ),
        "cancel_schedule": _input(schedule_id, "scheduleId"),
    }
    return json.dumps(inputs, indent=1, ensure_ascii=False) + "\n"


def _input(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    """Hosts take no `oneOf` beside the properties: the API says which fields exclude each other."""
    described = {"type": "object", "properties": _inlined(properties)}
    return described | {"required": [*required], "additionalProperties": False}


def _query(operation: str) -> dict[str, Any]:
    """A page has fewer items than the API's: what reads it has room for less."""
    found = {
        name: each | {"description": description}
        for name, _, each, description in OPERATIONS[operation].query
    }
    found["limit"] = {
        "type": "integer",
        "minimum": 1,
        "maximum": 50,
        "description": "20 if absent.",
    }
    return found


def _inlined(described: Any) -> Any:
    """Without references, and without examples, which name moments that pass."""
    if isinstance(described, list | tuple):
        return [_inlined(each) for each in described]
    if not isinstance(described, dict):
        return described
    if "$ref" in described:
        return _inlined(CHOICES[described["$ref"].rpartition("/")[2]])
    return {name: _inlined(each) for name, each in described.items() if name != "examples"}


def main() -> None:
    written = ((PYTHON, python()), (TYPESCRIPT, typescript()), (MCP, mcp()))
    for path, text in written:
        if "--check" not in sys.argv:
            path.write_text(text)
        elif path.read_text() != text:
            sys.exit(f"{path.name} is not what the server's tables make: run `make schema`.")


if __name__ == "__main__":
    main()
