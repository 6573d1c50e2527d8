"""Every operation by its id, and what clients send, as JSON Schema.

That has no defaults: generated clients would send them, and a change would reset fields unasked.
"""

from __future__ import annotations

from typing import NamedTuple

from api.calls.bulk import FAILED, IDS_SCHEMA, REPORTED, WAITING, filter_schema
from api.limits import MAX_ITEMS
from api.schema import account_bodies, bodies, recurring_bodies
from api.schema.field import DURATION, Schema
from api.schema.fields import FIELDS, ON_EXISTING, REQUIRED, SOON
from api.schema.query import OF_LANES, OF_LOGS, OF_RECURRING, OF_SCHEDULES, PERIOD, Parameter
from api.schema.recurring_fields import OWN, PREVIEW
from api.schema.recurring_fields import REQUEST as OF_REQUEST
from api.schema.settings_fields import OF_ACCOUNT, OF_PATCH, OF_PAUSE, OF_PUT, PAUSE
from scheduler import durations
from scheduler.lanes import LANE_PATTERN

IDEMPOTENCY_KEY: Schema = {
    "name": "Idempotency-Key",
    "in": "header",
    "schema": {"type": "string", "pattern": "^[!-~]{1,255}$"},
    "description": "A name of your own for this call. For 24 hours, a call with the same key "
    "and body gets the first answer again, with `Idempotency-Replayed: true`, and costs "
    "nothing; with another body it is a 422. A call that stored nothing is not remembered.",
    "example": "order-8412-reminder",
}
_TAGS: Schema = {
    "type": "string",
    "pattern": r'^(\*|(W/)?"[!#-~]*"(, ?(W/)?"[!#-~]*")*)$',
}
IF_MATCH: Schema = {
    "name": "If-Match",
    "in": "header",
    "schema": _TAGS,
    "description": "The `ETag` of an earlier answer, several of them, or `*`: that it is there. "
    "If it is another by now, the answer is a 412 and nothing is changed, unless there is nothing "
    "to do for this call.",
}
IF_NONE_MATCH: Schema = {
    "name": "If-None-Match",
    "in": "header",
    "schema": _TAGS,
    "description": "Of a `GET`, the `ETag` of an earlier answer: if it still is that, the answer "
    "is a 304 without a body. Of a `PUT`, `*`: if it is there, the answer is a 412.",
}
LANE: Schema = {
    "name": "lane",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "pattern": f"^{LANE_PATTERN}$"},
    "description": "The name of a lane: a letter or digit, and up to 63 more, or `.`, `_`, `:`, "
    "`-`.",
    "example": "partner-b",
}
SCHEDULE_ID: Schema = {
    "name": "scheduleId",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "pattern": "^sch_[0-7][0-9a-hjkmnp-tv-z]{25}$"},
    "description": "The id that the create answered.",
    "example": "sch_01m7td70g0fw3s9s2m2v2v2v2v",
}
RECURRING_ID: Schema = {
    "name": "recurringId",
    "in": "path",
    "required": True,
    "schema": {
        "type": "string",
        "pattern": f"^(rec_[0-7][0-9a-hjkmnp-tv-z]{{25}}|name:{LANE_PATTERN})$",
    },
    "description": "The id that the create answered, or `name:` and the name, as in `name:report`: "
    "the call means the recurring schedule that has this name when it begins.",
    "example": "rec_01m7td70g0fw3s9s2m2v2v2v2v",
}
NAME: Schema = {
    "name": "name",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "pattern": f"^{LANE_PATTERN}$"},
    "description": "The name of a recurring schedule.",
    "example": "daily-report",
}


class Operation(NamedTuple):
    """`once`: an Idempotency-Key is taken. `tagged`: answers have an ETag, to which calls may be
    bound. `existing` answers with 200 where what it stores is there already, and one that `creates`
    with 201 where it is not. `errors` are its own, beside those that its path, its body and its key
    bring, and those of every call."""

    answer: type
    errors: tuple[int, ...] = ()
    query: tuple[Parameter, ...] = ()
    body: str | None = None
    body_required: bool = True
    once: bool = False
    tagged: bool = False
    existing: type | None = None
    creates: bool = False


_RECURRING = recurring_bodies.RECURRING.type
OPERATIONS = {
    "createSchedule": Operation(
        bodies.CreatedBody,
        errors=(402, 409),
        body="ScheduleRequest",
        once=True,
        existing=bodies.ExistingBody,
    ),
    "createSchedules": Operation(bodies.BatchBody, errors=(409,), body="BatchRequest", once=True),
    "listSchedules": Operation(bodies.SchedulesBody, query=OF_SCHEDULES),
    "getSchedule": Operation(bodies.SCHEDULE.type, tagged=True),
    "changeSchedule": Operation(
        bodies.SCHEDULE.type, errors=(409,), body="ChangeRequest", tagged=True
    ),
    "cancelSchedule": Operation(bodies.CancelledBody, errors=(409, 412)),
    "cancelSchedules": Operation(bodies.CancelledManyBody, body="CancelManyRequest"),
    "replaySchedule": Operation(
        bodies.ReplayBody,
        errors=(402, 409),
        body="ReplayRequest",
        body_required=False,
        once=True,
    ),
    "resendCallback": Operation(
        bodies.CALLBACK.type, errors=(409,), body="CallbackRequest", body_required=False
    ),
    "resendCallbacks": Operation(bodies.ResendsBody, body="ResendManyRequest"),
    "replaySchedules": Operation(bodies.ReplaysBody, body="ReplayManyRequest", once=True),
    "getUsage": Operation(bodies.USAGE.type, query=PERIOD),
    "listLogs": Operation(bodies.LogsBody, query=OF_LOGS),
    "getCredits": Operation(account_bodies.CreditsBody),
    "getSigningSecrets": Operation(account_bodies.SecretsBody),
    "rotateSigningSecret": Operation(
        account_bodies.SecretsBody,
        errors=(409,),
        body="RotationRequest",
        body_required=False,
        once=True,
    ),
    "listLanes": Operation(account_bodies.LanesBody, query=OF_LANES),
    "getLane": Operation(account_bodies.LANE.type, tagged=True),
    "setLane": Operation(account_bodies.LANE.type, errors=(409,), body="LaneRequest", tagged=True),
    "changeLane": Operation(
        account_bodies.LANE.type, errors=(409,), body="LaneChangeRequest", tagged=True
    ),
    "pauseLane": Operation(
        account_bodies.LANE.type,
        errors=(409,),
        body="PauseRequest",
        body_required=False,
        tagged=True,
    ),
    "resumeLane": Operation(account_bodies.LANE.type, errors=(409,), tagged=True),
    "clearLane": Operation(account_bodies.ClearedLaneBody, errors=(409, 412)),
    "getAccount": Operation(account_bodies.ACCOUNT.type, tagged=True),
    "changeAccount": Operation(
        account_bodies.ACCOUNT.type, errors=(409,), body="AccountRequest", tagged=True
    ),
    "pauseAccount": Operation(
        account_bodies.ACCOUNT.type,
        errors=(409,),
        body="PauseRequest",
        body_required=False,
        tagged=True,
    ),
    "resumeAccount": Operation(account_bodies.ACCOUNT.type, errors=(409,), tagged=True),
    "createRecurring": Operation(
        recurring_bodies.CreatedRecurringBody,
        errors=(402, 409),
        body="RecurringRequest",
        once=True,
    ),
    "listRecurring": Operation(recurring_bodies.RecurringListBody, query=OF_RECURRING),
    "previewRecurring": Operation(recurring_bodies.PreviewBody, query=PREVIEW),
    "getRecurring": Operation(_RECURRING, tagged=True),
    "changeRecurring": Operation(
        _RECURRING, errors=(402, 409), body="RecurringChangeRequest", tagged=True
    ),
    "setRecurring": Operation(
        recurring_bodies.SET_RECURRING.type,
        errors=(402, 409),
        body="RecurringRequest",
        tagged=True,
        creates=True,
    ),
    "deleteRecurring": Operation(recurring_bodies.DeletedRecurringBody, errors=(409, 412)),
    "pauseRecurring": Operation(
        _RECURRING, errors=(409,), body="PauseRequest", body_required=False, tagged=True
    ),
    "resumeRecurring": Operation(_RECURRING, errors=(409,), tagged=True),
    "triggerRecurring": Operation(bodies.CreatedBody, errors=(402, 409, 412), once=True),
    "getHealth": Operation(bodies.HealthBody),
    "getReadiness": Operation(bodies.HealthBody, errors=(503,)),
}

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
    "description": "The URL that gets the report from now on, judged as `targetUrl` is; `default`: "
    "the account's. If it is left out, the report goes where it would have gone.",
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
        "description": "A request, and when it is to be performed. Null is the same as absent, "
        "but for `callbackUrl`.",
        "properties": {**_PROPERTIES, **_ON_EXISTING},
        "required": [names[0] for names in REQUIRED if len(names) == 1],
        "allOf": _one_of(_TIMES),
        "additionalProperties": False,
        "examples": [EXAMPLE, _TEXT_LATER, _BYTES_LATER],
    },
    "ChangeRequest": {
        "type": "object",
        "description": "The fields to change, each replaced as a whole; null clears it. Fields "
        "that are left out stay as they are. A masked value that is sent back is refused. "
        "Besides the given fields, it is judged whether expiresAt is after triggerAt, and "
        "whether headers that look like secrets are given anew where targetUrl moves to another "
        "origin.",
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
        "Schedules that match and whose callback has failed, `from` and `to` mean when, or was "
        "delivered: then they mean the end of the schedule.",
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
        "description": "The settings to change. Those that are left out stay as they are; null "
        "clears one.",
        "properties": {name: field.schema for name, field in OF_PATCH.items()},
        "minProperties": 1,
        "additionalProperties": False,
        "examples": [{"paused": True, "pauseNote": "The partner migrates"}],
    },
    "AccountRequest": {
        "type": "object",
        "description": "The settings to change. Those that are left out stay as they are; null "
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
