"""The types of the TypeScript client, from the OpenAPI document: those of requests, filters and
answers, with its descriptions. Our own, because they differ from the document where a program may
give a Date, a number of seconds or bytes; no generator of npm's can be told that."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from api.app import create_app
from scheduler.runtime.settings import Settings

Schema = Mapping[str, Any]

_REF = "#/components/schemas/"
_REQUESTS = (
    "ScheduleRequest",
    "ChangeRequest",
    "ReplayRequest",
    "CallbackRequest",
    "RecurringRequest",
    "RecurringChangeRequest",
    "LaneRequest",
    "LaneChangeRequest",
    "PauseRequest",
    "AccountRequest",
    "RotationRequest",
)
_ANSWERS = (
    "ScheduleBody",
    "CreatedBody",
    "CancelledBody",
    "CancelledItemBody",
    "ReplayBody",
    "ReplayedBody",
    "CallbackBody",
    "ResentBody",
    "LogEntryBody",
    "UsageBody",
    "SecretBody",
    "LaneBody",
    "ClearedLaneBody",
    "AccountBody",
    "RecurringBody",
    "SetRecurringBody",
    "CreatedRecurringBody",
    "DeletedRecurringBody",
    "PreviewBody",
    "FieldError",
    "Reason",
    "ScheduleEnded",
)
# The query of each list, and the filter of each call for many.
_QUERIES = {
    "ScheduleFilter": "/schedule",
    "LogFilter": "/stats/logs",
    "Period": "/stats",
    "LaneFilter": "/lanes",
    "RecurringFilter": "/recurring",
    "PreviewRequest": "/recurring/preview",
}
_FILTERS = {
    "CancelFilter": "WaitingFilter",
    "ReplayFilter": "FailedFilter",
    "ResendFilter": "ReportedFilter",
}
# As the Python client calls them.
_NAMES = {
    "RuleState": "RecurringState",
    "SecretBody": "SigningSecret",
    "SetRecurringBody": "PutRecurring",
    "UsageBody": "Stats",
}
# What an interface has in common with an earlier one, it takes from there.
_BASES = {
    "ChangeRequest": "ScheduleRequest",
    "ReplayRequest": "ChangeRequest",
    "RecurringRequest": "ChangeRequest",
    "RecurringChangeRequest": "RecurringRequest",
    "LaneChangeRequest": "LaneRequest",
    "LogFilter": "ScheduleFilter",
    "CancelFilter": "ScheduleFilter",
    "ReplayFilter": "CancelFilter",
    "ResendFilter": "ReplayFilter",
    "Replay": "Created",
    "Recurring": "Schedule",
    "PutRecurring": "Recurring",
}
_LIMIT = "At most so many in all, however many calls that takes."
_BODY = (
    "Instead of those three, and sent as one of them: an object as `targetBody`, a string as "
    "`targetBodyText`, bytes as `targetBodyBase64`."
)
_HEAD = """\
// Types of requests, filters and answers. `make schema` writes them from the OpenAPI document.

/** A moment; a string is ISO 8601. */
export type Moment = Date | string;
/** How long: "1h30m", "250ms", or a number of seconds. */
export type Duration = string | number;
export type OneOrMore<T> = T | readonly T[];
export type JsonObject = { [name: string]: unknown };
/** An object goes out as JSON, a string as text, and any Uint8Array or ArrayBuffer as it is. */
export type Body = object | string;
/** When a schedule is due: one of both. */
export type When =
  | { triggerAt: Moment; delay?: null | undefined }
  | { delay: Duration; triggerAt?: null | undefined };
/** A request, and when it is to be performed. */
export type NewSchedule = ScheduleRequest & When;
"""
_WIDTH = 100


class _Field(NamedTuple):
    comment: str
    written: str


def typescript() -> str:
    document: Schema = create_app(Settings()).state.document
    schemas: Schema = document["components"]["schemas"]
    given = {name: schemas[name] for name in _REQUESTS}
    every = {**schemas["RecurringRequest"]["properties"]["every"], "type": ["string", "integer"]}
    given |= {
        name: _queried(document["paths"][path]["get"], {"every": every})
        for name, path in _QUERIES.items()
    }
    given |= {name: _filter(schemas[body]) for name, body in _FILTERS.items()}
    interfaces = {
        name: _fields(each, given=True, lost=name not in _FILTERS) for name, each in given.items()
    }
    described = {name: _comment(each) for name, each in given.items()}
    words = ""
    for name in _reached(schemas):
        schema, own = schemas[name], _named(name)
        if "enum" in schema:
            words += "\n" + _comment(schema) + _wrapped(f"export type {own} = {_of(schema)};\n")
        else:
            interfaces[own], described[own] = _fields(schema, given=False), _comment(schema)
    parts = [_HEAD, _durations(given)]
    for name, fields in interfaces.items():
        parts.append(described[name] + _interface(name, fields, interfaces))
    return "\n".join(parts) + words


def _durations(given: Mapping[str, Schema]) -> str:
    """Names of all fields that a number of seconds may be given for."""
    found = {
        field
        for request in given.values()
        for field, schema in request["properties"].items()
        if _is_duration(schema.get("items", schema))
    }
    quoted = "".join(f"  {json.dumps(each)},\n" for each in sorted(found))
    return f"/** Fields that take a Duration. */\nexport const DURATIONS = [\n{quoted}];\n"


def _queried(operation: Schema, others: Mapping[str, Schema]) -> Schema:
    """With other schemas for some, where a query has but text."""
    return {
        "properties": {
            each["name"]: {
                **others.get(each["name"], each["schema"]),
                "description": each["description"],
            }
            for each in operation["parameters"]
            if each["in"] == "query" and each["name"] != "cursor"
        },
    }


def _filter(schema: Schema) -> Schema:
    """Without what the client sets itself: one word is not asked for, several are a choice. And
    without null: a filter that is lost by mistake would mean all."""
    properties = {
        name: {**each, "type": [kind for kind in _kinds(each) if kind != "null"]}
        for name, each in schema["properties"].items()
        if name != "cursor" and len(each.get("enum", "..")) > 1
    }
    return {**schema, "properties": properties, "required": []}


def _reached(schemas: Schema) -> Iterator[str]:
    """Each schema of an answer, and all that it or a request names, once."""
    waiting = [*_ANSWERS, *(ref for name in _REQUESTS for ref in _refs(schemas[name]))]
    seen = set[str]()
    for name in waiting:
        if name not in seen:
            seen.add(name)
            waiting += _refs(schemas[name])
            yield name


def _refs(schema: Any) -> Iterator[str]:
    if isinstance(schema, Mapping):
        for name, value in schema.items():
            yield from [value.removeprefix(_REF)] if name == "$ref" else _refs(value)
    elif isinstance(schema, list):
        for each in schema:
            yield from _refs(each)


def _fields(schema: Schema, *, given: bool, lost: bool = False) -> dict[str, _Field]:
    """Undefined is the same as absent, where a field may be lost without harm."""
    fields = dict[str, _Field]()
    for name, each in schema["properties"].items():
        described = {**each, "description": _LIMIT} if given and name == "limit" else each
        required = name in schema.get("required", ())
        undefined = " | undefined" if lost and not required else ""
        kind = _of(each, given=given) + undefined
        written = _wrapped(f"  {name}{'' if required else '?'}: {kind};")
        fields[name] = _Field(_comment(described, "  "), written)
        if given and name == "targetBodyBase64":
            comment = _comment({"description": _BODY}, "  ")
            fields["body"] = _Field(comment, "  body?: Body | null | undefined;")
    return fields


def _interface(
    name: str, fields: Mapping[str, _Field], interfaces: Mapping[str, Mapping[str, _Field]]
) -> str:
    base = _BASES.get(name, "")
    inherited = {n for n, each in interfaces.get(base, {}).items() if fields.get(n) == each}
    extends = _extends(base, inherited, interfaces[base]) if inherited else ""
    lines = [each.comment + each.written for n, each in fields.items() if n not in inherited]
    if not lines:
        return f"export interface {name}{extends} {{}}\n"
    return "\n".join((_wrapped(f"export interface {name}{extends} {{"), *lines, "}\n"))


def _extends(base: str, inherited: Collection[str], fields: Collection[str]) -> str:
    others = [name for name in fields if name not in inherited]
    if not others:
        return f" extends {base}"
    helper = "Omit" if len(others) < len(inherited) else "Pick"
    chosen = others if helper == "Omit" else [name for name in fields if name in inherited]
    return f" extends {helper}<{base}, {_either(map(json.dumps, chosen))}>"


def _wrapped(line: str) -> str:
    if len(line) <= _WIDTH:
        return line
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    lines = textwrap.wrap(
        line, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(lines) + "\n" * line.endswith("\n")


def _of(schema: Schema, *, given: bool = False) -> str:
    if "$ref" in schema:
        return _named(schema["$ref"].removeprefix(_REF))
    if "anyOf" in schema:
        return _either(_of(each, given=given) for each in schema["anyOf"])
    if "enum" in schema:
        return _either(json.dumps(each) for each in schema["enum"])
    kinds = _kinds(schema)
    if given and _is_duration(schema):
        return _either(["Duration", *(each for each in kinds if each == "null")])
    return _either(_plain(kind, schema, given=given) for kind in kinds)


def _kinds(schema: Schema) -> list[str]:
    kinds = schema.get("type", [])
    return [kinds] if isinstance(kinds, str) else kinds


def _plain(kind: str, schema: Schema, *, given: bool) -> str:
    match kind:
        case "string":
            return "Moment" if given and schema.get("format") == "date-time" else "string"
        case "integer" | "number":
            return "number"
        case "array":
            item = _of(schema["items"], given=given)
            if schema.get("explode") is False or (given and "enum" in schema["items"]):
                return f"OneOrMore<{item}>"
            return f"{'readonly ' if given else ''}{item}[]"
        case "object":
            values = schema.get("additionalProperties")
            if isinstance(values, Mapping):
                return "Record<string, string>"
            return "object" if given else "JsonObject"
    return kind  # boolean and null are called so in both


def _is_duration(schema: Schema) -> bool:
    return {"string", "integer"} <= set(schema.get("type", ())) and "pattern" in schema


def _either(kinds: Iterable[str]) -> str:
    return " | ".join(dict.fromkeys(kinds))


def _named(name: str) -> str:
    return _NAMES.get(name, name.removesuffix("Body"))


def _comment(schema: Schema, indent: str = "") -> str:
    text = " ".join(schema.get("description", "").split()).replace("*/", "*\\/")
    if not text:
        return ""
    if len(indent) + len(text) + 7 <= _WIDTH:
        return f"{indent}/** {text} */\n"
    lines = textwrap.wrap(text, _WIDTH - len(indent) - 3, break_on_hyphens=False)
    inner = "".join(f"{indent} * {line}\n" for line in lines)
    return f"{indent}/**\n{inner}{indent} */\n"
