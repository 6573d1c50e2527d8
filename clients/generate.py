"""Writes what the clients take from the server: the Python client from the tables of fields and
filters, the TypeScript client from the OpenAPI document. `make schema`; with --check it writes
nothing, and exits with 1 if a file is not what it would write."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from clients.typescript_types import typescript
from scheduler import schema
from scheduler.filters import FILTERS
from scheduler.schema import FieldRow, Kind

HERE = Path(__file__).parent
PYTHON = HERE / "python/postdate/_schema.py"
TYPESCRIPT = HERE / "typescript/src/schema.ts"
_SPAN = "timedelta | float | str"
# How each kind is annotated, and the function that writes it for the server.
_PYTHON = {
    Kind.TEXT: ("str", "text"),
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


def main() -> None:
    for path, text in ((PYTHON, python()), (TYPESCRIPT, typescript())):
        if "--check" not in sys.argv:
            path.write_text(text)
        elif path.read_text() != text:
            sys.exit(f"{path.name} is not what the server's tables make: run `make schema`.")


if __name__ == "__main__":
    main()
