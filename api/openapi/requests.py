"""What clients send, as JSON Schema: the bodies that OPERATIONS name.

They have no defaults: generated clients would send them, and a change would reset fields unasked.
"""

from __future__ import annotations

from api.calls.bulk import FAILED, IDS_SCHEMA, REPORTED, WAITING, filter_schema
from api.limits import MAX_ITEMS
from api.openapi.operations import NAME, SCHEDULE_ID
from api.schema.field import DURATION, Schema
from api.schema.fields import FIELDS, ON_EXISTING, REQUIRED, SOON
from api.schema.recurring_fields import OWN
from api.schema.recurring_fields import REQUEST as OF_REQUEST
from api.schema.settings_fields import OF_ACCOUNT, OF_PATCH, OF_PAUSE, OF_PUT, PAUSE
from scheduler import durations

EXAMPLE: Schema = {
    "targetUrl": "https://example.com/webhooks/orders",
    "triggerAt": SOON,
    "targetMethod": "POST",
    "targetHeaders": {"X-Order": "ord_8412"},
    "targetBody": {"order": "ord_8412", "action": "remind"},
}
_TEXT_LATER: Schema = {
    "targetUrl": "https://example.com/webhooks/orders",
    "delay": "1h30m",
    "targetHeaders": {"Content-Type": "application/x-www-form-urlencoded"},
    "targetBodyText": "order=ord_8412&action=remind",
}
_BYTES_LATER: Schema = {"targetUrl": EXAMPLE["targetUrl"], "delay": 10, "targetBodyBase64": "AAEC"}
_ON_EXISTING = {field.name: field.schema for field in ON_EXISTING.values()}
_RESENT_TO: Schema = {
    "anyOf": FIELDS["callbackUrl"].more["anyOf"][:2],  # not null: no callback
    "description": "The URL that gets the report from now on, judged as `targetUrl` is; `default` "
    "means the account's. If it is left out, the report goes where it would have gone.",
    "examples": ["https://example.com/webhooks/ended", "default"],
}
_PROPERTIES = {field.name: field.schema for field in FIELDS.values()}
_RECURRING_FIELDS = OWN | OF_REQUEST
_RECURRING_PROPERTIES = {name: field.schema for name, field in _RECURRING_FIELDS.items()}


def _given(*names: str) -> list[Schema]:
    """A schema for each of these fields: it is given. Null is the same as absent."""
    found: list[Schema] = []
    for name in names:
        [*types] = (FIELDS | _RECURRING_FIELDS)[name].kind.types
        given = {name: {"type": types if len(types) > 1 else types[0]}}
        found.append({"required": [name], "properties": given})
    return found


# Which fields exclude each other. These stand in an `allOf`: of a `oneOf` beside `properties`
# openapi-python-client reads nothing else. None names the fields that it excludes: openapi-fetch
# accepts no property whose only type is null. Only one begins with `oneOf`, for Swagger UI makes
# one list of all that an `allOf` has.
_TIMES, _RULES = _given("triggerAt", "delay"), _given("cron", "every")
_BODIES = _given("targetBody", "targetBodyText", "targetBodyBase64")
_ONE_BODY: Schema = {"anyOf": [{"oneOf": _BODIES}, {"not": {"anyOf": _BODIES}}]}


def _one_of(ways: list[Schema]) -> list[Schema]:
    return [{"oneOf": ways}, _ONE_BODY]


def _at_most_one_of(ways: list[Schema]) -> list[Schema]:
    return _one_of([*ways, {"not": {"anyOf": ways}}])


def _either(*names: str, examples: list[Schema]) -> Schema:
    refs = [{"$ref": f"#/components/schemas/{name}"} for name in names]
    return {"oneOf": refs, "examples": examples}


REQUESTS: dict[str, Schema] = {
    "ScheduleRequest": {
        "type": "object",
        "description": "A request, and when it is sent. Null is the same as absent, but for "
        "`callbackUrl`.",
        "properties": {**_PROPERTIES, **_ON_EXISTING},
        "required": [names[0] for names in REQUIRED if len(names) == 1],
        "allOf": _one_of(_TIMES),
        "additionalProperties": False,
        "examples": [EXAMPLE, _TEXT_LATER, _BYTES_LATER],
    },
    "ChangeRequest": {
        "type": "object",
        "description": "The fields to change, each replaced as a whole; null clears it. Fields "
        "that are left out stay as they are. A masked value is accepted if the whole field is as "
        "GET shows it, and then stays. In the result, `expiresAt` must be after `triggerAt`. If "
        "`targetUrl` moves to another origin, headers that look like secrets must be given again.",
        "properties": _PROPERTIES,
        "allOf": _at_most_one_of(_TIMES),
        "minProperties": 1,
        "additionalProperties": False,
        "examples": [{"triggerAt": SOON, "expiresAt": None}],
    },
    "ReplayRequest": {
        "type": "object",
        "description": "The fields to change; each is replaced as a whole and judged as in a "
        "change. Without `triggerAt` and `delay` the replay is due now.",
        "properties": _PROPERTIES,
        "allOf": _at_most_one_of(_TIMES),
        "additionalProperties": False,
        "examples": [{"delay": "10s"}],
    },
    "CallbackRequest": {
        "type": "object",
        "properties": {"callbackUrl": _RESENT_TO},
        "additionalProperties": False,
        "examples": [{"callbackUrl": "https://example.com/webhooks/ended"}],
    },
    "ScheduleIds": IDS_SCHEMA,
    "FailedFilter": filter_schema(
        FAILED, "Dead letters that match, the oldest first; `from` and `to` mean their end."
    ),
    "WaitingFilter": filter_schema(
        WAITING, "Matching schedules that wait; `from` and `to` mean their `triggerAt`."
    ),
    "ReportedFilter": filter_schema(
        REPORTED,
        "Matching schedules whose callback has failed or was delivered. `from` and `to` mean the "
        "moment when it failed, or the end of a schedule whose callback was delivered.",
    ),
    "ResendManyRequest": _either(
        "ScheduleIds",
        "ReportedFilter",
        examples=[{"ids": [SCHEDULE_ID["example"]]}, {"callback": "failed", "limit": 100}],
    ),
    "ReplayManyRequest": _either(
        "ScheduleIds",
        "FailedFilter",
        examples=[{"status": "failed", "limit": 100}, {"ids": [SCHEDULE_ID["example"]]}],
    ),
    "CancelManyRequest": _either(
        "ScheduleIds",
        "WaitingFilter",
        examples=[{"ids": [SCHEDULE_ID["example"]]}, {"status": "scheduled", "limit": 100}],
    ),
    "LaneRequest": {
        "type": "object",
        "description": "The limits of a lane, as a whole. Null is the same as absent: no limit.",
        "properties": {name: field.schema for name, field in OF_PUT.items()},
        "additionalProperties": False,
        "examples": [{"rate": 10, "per": "1s", "burst": 5, "parallelism": 20}],
    },
    "LaneChangeRequest": {
        "type": "object",
        "description": "The settings to change. Settings that are left out stay as they are; null "
        "clears one.",
        "properties": {name: field.schema for name, field in OF_PATCH.items()},
        "minProperties": 1,
        "additionalProperties": False,
        "examples": [{"paused": True, "pauseNote": "The partner migrates"}],
    },
    "AccountRequest": {
        "type": "object",
        "description": "The settings to change. Settings that are left out stay as they are; null "
        "clears one.",
        "properties": {name: field.schema for name, field in OF_ACCOUNT.items()},
        "minProperties": 1,
        "additionalProperties": False,
        "examples": [{"paused": True, "pausedUntil": SOON}],
    },
    "PauseRequest": {
        "type": "object",
        "description": "The pause as a whole. Null is the same as absent: it has no end, or no "
        "note.",
        "properties": {name: field.schema for name, field in OF_PAUSE.items()},
        "additionalProperties": False,
        "examples": [{"pausedUntil": SOON, "pauseNote": "The partner migrates"}],
    },
    "RecurringRequest": {
        "type": "object",
        "description": "A request, and the rule by which it is sent. Null is the same as absent, "
        "but for `callbackUrl`.",
        "properties": _RECURRING_PROPERTIES,
        "required": ["targetUrl"],
        "allOf": _one_of(_RULES),
        "additionalProperties": False,
        "examples": [
            {
                "name": NAME["example"],
                "cron": "0 9 * * 1-5",
                "timeZone": "America/New_York",
                "targetUrl": "https://example.com/reports",
                "targetBody": {"report": "daily"},
            },
            {"every": "15m", "targetUrl": "https://example.com/health", "targetMethod": "GET"},
        ],
    },
    "RecurringChangeRequest": {
        "type": "object",
        "description": "The fields to change, each as a whole, judged as in a change of a "
        "schedule; null clears it. Fields that are left out stay as they are.",
        "properties": _RECURRING_PROPERTIES | {name: field.schema for name, field in PAUSE.items()},
        "allOf": _at_most_one_of(_RULES),
        "minProperties": 1,
        "additionalProperties": False,
        "examples": [{"cron": "30 8 * * 1-5"}],
    },
    "RotationRequest": {
        "type": "object",
        "properties": {
            "keepFor": {
                "type": [*DURATION.types, "null"],
                "pattern": f"^{durations.PATTERN}$",
                "minimum": 0,
                "description": "How long the earlier secrets stay valid: 0s to 7d; a day, if it "
                "is left out.",
                "examples": ["1d"],
            }
        },
        "additionalProperties": False,
        "examples": [{"keepFor": "1d"}],
    },
    "BatchRequest": {
        "type": "object",
        "properties": {
            "schedules": {
                "type": "array",
                "items": {"$ref": "#/components/schemas/ScheduleRequest"},
                "minItems": 1,
                "maxItems": MAX_ITEMS,
                "description": "Each is judged on its own: a bad one has a 400 of its own, and "
                "the others are stored.",
            }
        },
        "required": ["schedules"],
        "additionalProperties": False,
        "examples": [{"schedules": [EXAMPLE, {**EXAMPLE, "targetUrl": "ftp://example.com"}]}],
    },
}
