"""Writes the tables and answers of the pages in docs/reference from the OpenAPI document and its
tables: `make schema`. With --check it writes nothing, and exits with 1 if a page differs.

A block stands between `<!-- generated: POST /schedule fields -->` and `<!-- /generated -->`, where
`fields` may be `answer` or `errors`; `event fields` and `event headers` are those of a callback,
`reasons` are those of all errors."""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from api.app import create_app
from api.openapi.refusals import OWN_REASONS, REASONS
from api.schema.fields import SOON
from scheduler import durations
from scheduler.errors import Reason
from scheduler.runtime.settings import Settings

PAGES = Path(__file__).parents[2] / "docs/reference"
Schema = dict[str, Any]
_BLOCK = re.compile(r"(<!-- generated: (.+?) -->\n).*?(<!-- /generated -->)", re.DOTALL)
_CALL = re.compile(r"^## (.+)\n\n`([A-Z]+ /\S*)`$", re.MULTILINE)
_A_MOMENT = "2026-12-24T18:00:00.000Z"
_DURATION = f"^{durations.PATTERN}$"
# The call whose table has the members of a body, which other tables link to.
_HOME = {
    "ScheduleBody": "getSchedule",
    "PhasesBody": "getSchedule",
    "HeldByBody": "getSchedule",
    "CallbackBody": "resendCallback",
    "LaneBody": "getLane",
    "AccountBody": "getAccount",
    "RecurringBody": "getRecurring",
    "SetRecurringBody": "getRecurring",
    "ScheduleRequest": "createSchedule",
    "ChangeRequest": "createSchedule",
    "ReplayRequest": "createSchedule",
    "RecurringRequest": "createRecurring",
    "RecurringChangeRequest": "createRecurring",
}
_HEADERS = {
    "Idempotency-Key": "api.md#idempotency-keys",
    "If-Match": "api.md#preconditions",
    "If-None-Match": "api.md#preconditions",
}
# Statuses that errors.md has for every call.
_EVERYWHERE = {401, 403, 405, 408, 414, 415, 421, 431, 500, 501}
_OF_THE_PATH = {
    402: (Reason.INSUFFICIENT_CREDITS,),
    412: (Reason.PRECONDITION_FAILED,),
    422: (Reason.KEY_REUSED,),
}


class Place(NamedTuple):
    """Where a call is described."""

    page: str
    title: str

    def link(self, page: str) -> str:
        anchor = re.sub(r"[^\w\- ]", "", self.title.lower()).replace(" ", "-")
        return f"[{self.title}]({'' if page == self.page else self.page}#{anchor})"


class Reference:
    """The document, and where each call stands."""

    def __init__(self, pages: dict[str, str]) -> None:
        text = json.dumps(create_app(Settings()).state.document)
        self.document: Schema = json.loads(text.replace(SOON, _A_MOMENT))
        self.schemas: dict[str, Schema] = self.document["components"]["schemas"]
        self.calls: dict[str, Schema] = {
            f"{method.upper()} {path}": operation
            for path, methods in self.document["paths"].items()
            for method, operation in methods.items()
        }
        self.places = {
            self.calls[call]["operationId"]: Place(page, title)
            for page, text in pages.items()
            for title, call in _CALL.findall(text)
            if call in self.calls
        }

    def block(self, page: str, wanted: str) -> str:
        """The text of one block. Raises KeyError for one that there is not."""
        if wanted == "reasons":
            rows = [
                (f"`{reason}`", ", ".join(map(str, cause.statuses)), cause.when)
                for reason, cause in REASONS.items()
            ]
            return _table(("`reason`", "Status", "When"), rows)
        call, _, kind = wanted.rpartition(" ")
        if call == "event":
            return self._event(page, kind)
        made = {"fields": self._fields, "answer": self._answer, "errors": self._errors}[kind]
        return made(page, self.calls[call])

    def _event(self, page: str, kind: str) -> str:
        [event] = self.document["webhooks"].values()
        sent = event["post"]
        if kind == "headers":
            rows = ((f"`{each['name']}`", each["description"]) for each in sent["parameters"])
            return _table(("Header", "Value"), rows)
        content = sent["requestBody"]["content"]["application/json"]
        return _json(content["example"]) + "\n" + self._members(page, content["schema"])

    def _fields(self, page: str, operation: Schema) -> str:
        found, headers = [], []
        for each in operation["parameters"]:
            if each["in"] == "header":
                headers.append(f"[`{each['name']}`]({_HEADERS[each['name']]})")
            elif each["in"] == "query":
                type_ = self._type(each["schema"])
                if isinstance(default := each["schema"].get("default"), int):
                    type_ += f", default {default}"
                found.append((f"`{each['name']}`", type_, each["description"]))
        parts = [_table(("Parameter", "Type", "Meaning"), found)] if found else []
        if body := operation.get("requestBody"):
            parts += self._body(page, body, operation["operationId"])
        if headers:
            parts.append(f"Headers: {', '.join(headers)}.\n")
        return "\n".join(parts)

    def _body(self, page: str, body: Schema, operation_id: str) -> Iterator[str]:
        schema = body["content"]["application/json"]["schema"]
        name = _name_of(schema)
        rows = self._rows_of_request(schema)
        if (home := _HOME.get(name, operation_id)) != operation_id:
            theirs = {row[0] for row in self._rows_of_call(home)}
            yield self._alike(page, home, {row[0] for row in rows}, theirs)
            rows = [row for row in rows if row[0] not in theirs]
        elif name == "RecurringRequest":
            theirs = {row[0] for row in self._rows_of_call("createSchedule")}
            yield self._alike(page, "createSchedule", {row[0] for row in rows} & theirs, theirs)
            rows = [row for row in rows if row[0] not in theirs]
        if rows:
            yield _table(("Field", "Type", "Meaning"), rows)
        if not body["required"]:
            yield "The body may be left out.\n"

    def _alike(self, page: str, home: str, ours: set[str], theirs: set[str]) -> str:
        without = [name for name in self._names_of_call(home) if name in theirs - ours]
        but = f" but {', '.join(without)}" if without else ""
        text = f"All fields of {self.places[home].link(page)}{but}."
        return textwrap.fill(text, 110, break_long_words=False, break_on_hyphens=False) + "\n"

    def _names_of_call(self, operation_id: str) -> list[str]:
        return [row[0] for row in self._rows_of_call(operation_id)]

    def _rows_of_call(self, operation_id: str) -> list[tuple[str, str, str]]:
        [operation] = (o for o in self.calls.values() if o["operationId"] == operation_id)
        content = operation["requestBody"]["content"]["application/json"]
        return self._rows_of_request(content["schema"])

    def _rows_of_request(self, schema: Schema) -> list[tuple[str, str, str]]:
        """Of all bodies that the schema allows: each member once."""
        rows: dict[str, tuple[str, str, str]] = {}
        bodies = [self._resolved(body) for body in _either(self._resolved(schema))]
        for known in bodies:
            for name, each in known["properties"].items():
                required = all(name in body.get("required", ()) for body in bodies)
                type_ = self._type(each) + (", required" if required else "")
                rows.setdefault(name, (f"`{name}`", type_, each.get("description", "")))
        return list(rows.values())

    def _answer(self, page: str, operation: Schema) -> str:
        parts, shown = list[str](), list[Schema]()
        for status, answer in operation["responses"].items():
            if status.startswith("2"):
                content = answer["content"]["application/json"]
                told = answer["description"] if parts else ""
                parts.append(f"Answer: {status}. {told}".rstrip() + "\n")
                if content["schema"] not in shown:
                    shown.append(content["schema"])
                    parts.append(_json(content["example"]))
                    parts.append(self._members(page, shown[-1], operation["operationId"]))
        return "\n".join(filter(None, parts))

    def _members(self, page: str, schema: Schema, operation_id: str = "") -> str:
        name = _name_of(schema)
        home = _HOME.get(name, operation_id)
        rows = [*self._rows_of_answer(page, "", schema, operation_id)]
        if home == operation_id:
            return _table(("Field", "Type", "Meaning"), rows)
        [of_home] = (o for o in self.calls.values() if o["operationId"] == home)
        theirs = self.schemas[_name_of(_success(of_home))]["properties"]
        rows = [row for row in rows if row[0].strip("`").split(".")[0] not in theirs]
        told = f"The fields are those of {self.places[home].link(page)}."
        return f"{told}\n" + ("\n" + _table(("Field", "Type", "Meaning"), rows) if rows else "")

    def _rows_of_answer(
        self, page: str, before: str, schema: Schema, operation_id: str
    ) -> Iterator[tuple[str, str, str]]:
        """Of each member, and of the members of those that have no table of their own."""
        rows: dict[str, Schema] = {}
        for body in _either(schema):
            for name, each in self._resolved(body)["properties"].items():
                rows.setdefault(name, each)
        for name, each in rows.items():
            inner = self._inner(each)
            home = _HOME.get(_name_of(inner), operation_id) if inner else operation_id
            type_, told = self._type(each, nulls=True), each["description"]
            if home != operation_id:
                told += f" Its fields are those of {self.places[home].link(page)}."
            yield f"`{before}{name}`", type_, told
            if inner and home == operation_id and name != "details":
                yield from self._rows_of_answer(page, f"{before}{name}.", inner, operation_id)

    def _inner(self, schema: Schema) -> Schema | None:
        """The body, or the bodies, that a member holds."""
        schema = schema.get("items", schema)
        held = [each for each in _either(schema) if "properties" in self._resolved(each)]
        return {"anyOf": held} if held[1:] else held[0] if held else None

    def _errors(self, page: str, operation: Schema) -> str:
        rows = [
            (str(status), f"`{reason}`", REASONS[reason].when)
            for reason, status in self.reasons_of(operation).items()
        ]
        if not rows:
            return "It has no errors of its own.\n"
        return "Errors:\n\n" + _table(("Status", "`reason`", "When"), rows)

    def reasons_of(self, operation: Schema) -> dict[Reason, int]:
        """Why this call may be refused, with the status, beside the reasons of every call."""
        own = OWN_REASONS.get(operation["operationId"], ())
        found = dict[Reason, int]()
        for status in map(int, operation["responses"]):
            if status >= 400 and status not in _EVERYWHERE:
                wanted = [*_OF_THE_PATH.get(status, ()), *self._derived(operation, status)]
                wanted += [each for each in own if status in REASONS[each].statuses]
                found |= dict.fromkeys(wanted, status)
        return found

    def _derived(self, operation: Schema, status: int) -> Iterator[Reason]:
        body = operation.get("requestBody")
        fields = self._names_of_call(operation["operationId"]) if body else []
        if status == 400 and operation.get("security") != []:
            yield Reason.INVALID_FIELD
            if {"`targetUrl`", "`callbackUrl`"} & {*fields} and "`ids`" not in fields:
                yield Reason.DESTINATION_NOT_ALLOWED
        if status == 404:
            names = {each["name"] for each in operation["parameters"]}
            there = "recurringId" in names
            yield Reason.UNKNOWN_RECURRING if there else Reason.UNKNOWN_SCHEDULE

    def _resolved(self, schema: Schema) -> Schema:
        return self.schemas[_name_of(schema)] if "$ref" in schema else schema

    def _type(self, schema: Schema, nulls: bool = False) -> str:
        """In words, for a table; with `nulls`, whether it may be null."""
        either = _either(schema)
        if _name_of(schema) == "Reason":
            return "[reason](errors.md#reasons)"
        kinds = [self._resolved(each) for each in either if each.get("type") != "null"]
        words = " or ".join(dict.fromkeys(map(self._one_type, kinds)))
        null = len(kinds) < len(either) or any("null" in _types(each) for each in kinds)
        return f"{words} or null" if nulls and null else words

    def _one_type(self, schema: Schema) -> str:
        if choices := [each for each in schema.get("enum", ()) if each is not None]:
            return ", ".join(f"`{each}`" for each in choices)
        if schema.get("pattern") == _DURATION:
            return "duration"
        [kind, *_] = [each for each in _types(schema) if each != "null"]
        most = schema.get("maxLength")
        if kind == "string":
            named = {"date-time": "time", "uri": "URL"}.get(schema.get("format", ""), "text")
            return f"{named}, at most {most:,} characters" if most else named
        if kind == "integer":
            low, high = schema.get("minimum"), schema.get("maximum")
            return f"{low:,} to {high:,}" if high is not None else "whole number"
        if kind == "array":
            items = self._type(schema["items"])
            return f"list of {items}s" if items.isalpha() else f"list of {items}"
        if members := schema.get("maxProperties"):
            return f"object of texts, at most {members}"
        return {"boolean": "true or false"}.get(kind, kind)


def _types(schema: Schema) -> list[str]:
    found = schema.get("type", "object")
    return found if isinstance(found, list) else [found]


def _either(schema: Schema) -> list[Schema]:
    found: list[Schema] = schema.get("anyOf") or schema.get("oneOf") or [schema]
    return found


def _name_of(schema: Schema) -> str:
    return str(schema.get("$ref", "")).rpartition("/")[2]


def _success(operation: Schema) -> Schema:
    [found, *_] = (a for s, a in operation["responses"].items() if s.startswith("2"))
    schema: Schema = found["content"]["application/json"]["schema"]
    return schema


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(map(_escaped, each))} |\n" for each in (heads, *rows)]
    return "".join([lines[0], "|---" * len(heads) + "|\n", *lines[1:]])


def _escaped(cell: str) -> str:
    """Without characters that mean something else in a table, unless they are code."""
    parts = cell.replace("|", "\\|").split("`")
    return "`".join(part if n % 2 else part.replace("*", "\\*") for n, part in enumerate(parts))


def _json(value: Any) -> str:
    return f"```json\n{packed(value)}\n```\n"


def packed(value: Any, indent: int = 0, width: int = 88) -> str:
    """JSON in lines of at most this width, if it can be: as many members in a line as fit."""
    flat = json.dumps(value, ensure_ascii=False)
    if indent + len(flat) <= width or not isinstance(value, (dict, list)) or not value:
        return flat
    inner = indent + 2
    if isinstance(value, dict):
        members = [
            f"{json.dumps(name)}: {packed(each, inner, width)}" for name, each in value.items()
        ]
    else:
        members = [packed(each, inner, width) for each in value]
    lines = [""]
    for number, member in enumerate(members):
        text = member + ("," if number < len(members) - 1 else "")
        joined = f"{lines[-1]} {text}" if lines[-1] else text
        if "\n" in text or "\n" in lines[-1] or inner + len(joined) > width:
            lines.append(text)
        else:
            lines[-1] = joined
    begin, end = "{}" if isinstance(value, dict) else "[]"
    body = "\n".join(" " * inner + line for line in lines if line)
    return f"{begin}\n{body}\n{' ' * indent}{end}"


def written(pages: dict[str, str]) -> dict[str, str]:
    """Each page as it should be."""
    reference = Reference(pages)

    def page_of(page: str) -> str:
        def block(found: re.Match[str]) -> str:
            return f"{found[1]}\n{reference.block(page, found[2])}\n{found[3]}"

        return _BLOCK.sub(block, pages[page])

    return {page: page_of(page) for page in pages}


def main() -> None:
    pages = {path.name: path.read_text() for path in sorted(PAGES.glob("*.md"))}
    differ = {page: text for page, text in written(pages).items() if text != pages[page]}
    if "--check" not in sys.argv:
        for page, text in differ.items():
            (PAGES / page).write_text(text)
    elif differ:
        sys.exit(f"Not as the schema says, run `make schema`: {', '.join(differ)}.")


if __name__ == "__main__":
    main()
