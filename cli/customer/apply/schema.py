"""The JSON Schema of a file, for editors: made of the bodies that the API takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from api.openapi.requests import REQUESTS
from api.schema.fields import CHOICES
from cli.customer.apply.wanted import MOST_OBJECTS, MOST_OWNS, OF_CALLBACK, OWNS_PATTERN
from scheduler.lanes import LANE_PATTERN

_SET = {name: {"not": {"type": "null"}} for name in ("rate", "parallelism", "note")}
# Both or none; the API says so in words.
_RATE_AND_PER = {
    "if": {
        "anyOf": [
            {"required": [name], "properties": {name: {"not": {"type": "null"}}}}
            for name in ("rate", "per", "burst")
        ]
    },
    "then": {
        "required": ["rate", "per"],
        "properties": {name: {"not": {"type": "null"}} for name in ("rate", "per")},
    },
}


def file_schema() -> dict[str, Any]:
    lane, rule, account = (REQUESTS[f"{name}Request"] for name in ("Lane", "Recurring", "Account"))
    lane = lane | {
        "description": "The limits of a lane, as a whole: a limit that is left out is removed.",
        "allOf": [
            {"anyOf": [{"required": [name], "properties": {name: _SET[name]}} for name in _SET]},
            _RATE_AND_PER,
        ],
    }
    rule = rule | {"properties": {n: v for n, v in rule["properties"].items() if n != "name"}}
    account = account | {
        "description": "The callback of schedules that name none.",
        "properties": {name: account["properties"][name] for name in OF_CALLBACK},
        "required": ["callbackUrl"],
        "examples": [{"callbackUrl": "https://example.com/ended", "callbackOn": "failed"}],
    }
    rule.pop("examples")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What postdate apply sets",
        "type": "object",
        "properties": {
            "owns": {
                "type": ["array", "null"],
                "items": {"type": "string", "pattern": f"^{OWNS_PATTERN}$", "minLength": 1},
                "minItems": 1,
                "maxItems": MOST_OWNS,
                "description": "Which names belong to this file: each a name, or how names begin "
                "with a * behind. Only these are removed by --prune, and the file names no other.",
                "examples": [["billing-*"]],
            },
            "account": _local(account | {"type": ["object", "null"]}),
            "lanes": _named(_local(lane), "Lanes by name."),
            "recurring": _named(_local(rule), "Recurring schedules by name."),
        },
        "additionalProperties": False,
        "$defs": CHOICES,
    }


def _named(schema: Mapping[str, Any], description: str) -> dict[str, Any]:
    return {
        "type": ["object", "null"],
        "description": description,
        "maxProperties": MOST_OBJECTS,
        "propertyNames": {"pattern": f"^{LANE_PATTERN}$"},
        "additionalProperties": schema,
    }


def _local(schema: Any) -> Any:
    """With references into this schema, and without formats: an editor would refuse `${URL}`."""
    if isinstance(schema, list):
        return [_local(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return {"$ref": schema["$ref"].replace("#/components/schemas/", "#/$defs/")}
    return {
        name: _local(each)
        for name, each in schema.items()
        if not (name == "format" and isinstance(each, str))
    }
