"""Every operation, by its id: its parameters, its body, and what it may answer."""

from __future__ import annotations

import msgspec

from api import bodies
from api.field import Schema
from api.openapi.requests import EXAMPLE
from api.query import OF_LOGS, OF_SCHEDULES, PERIOD, Parameter

_SCHEDULE_ID = "sch_01m7td70g0fw3s9s2m2v2v2v2v"
_INVOCATION_ID = "inv_01m7td70g0fw3s9s2m2v2v2v2v"
_SCHEDULE = {
    "scheduleId": _SCHEDULE_ID,
    "invocationId": _INVOCATION_ID,
    "status": "completed",
    "createdAt": "2026-11-19T17:21:04.512Z",
    **EXAMPLE,
    "targetBodyText": None,
    "targetBodyBase64": None,
    "triggerAt": "2026-11-20T08:00:00.000Z",
    "delivery": "at-least-once",
    "expiresAt": None,
    "executedAt": "2026-11-20T08:00:00.043Z",
    "statusCode": 200,
    "responseTimeMs": 41,
    "errorMessage": "",
    "responseBody": None,
    "responseContentType": None,
    "phases": {
        "connectionReused": False,
        "resolveMs": 3,
        "connectMs": 6,
        "tlsMs": 14,
        "firstByteMs": 17,
        "lastByteMs": 1,
    },
    "replayOf": None,
    "replayedAs": None,
}
_WAITING = {
    **_SCHEDULE,
    "status": "scheduled",
    **dict.fromkeys(("executedAt", "statusCode", "responseTimeMs", "errorMessage", "phases")),
    "attempts": 0,
    "nextAttemptAt": None,
}
_LOG_ENTRY = {
    "invocationId": _INVOCATION_ID,
    "scheduleId": _SCHEDULE_ID,
    "createdAt": "2026-11-19T17:21:04.512Z",
    "scheduledAt": "2026-11-20T08:00:00.000Z",
    "executedAt": "2026-11-20T08:00:00.043Z",
    "targetUrl": "https://example.com/webhooks/orders",
    "targetMethod": "POST",
    "status": "failed",
    "statusCode": 503,
    "responseTimeMs": 41,
    "errorMessage": "Service Unavailable",
    "attempt": 1,
    "nextAttemptAt": None,
}
_REPLAY_ID = "sch_01m7td70g0fw3s9s2m2v2v2v2w"
_REPLAY_INVOCATION_ID = "inv_01m7td70g0fw3s9s2m2v2v2v2w"
_SECRET = {
    "secretId": "sec_q7m2x0v9k4tz",
    "secret": "whsec_rjpTzW3AB3nWzoMb7QZ1Jn2aPyTWaYgLO1mYJ0wX4tE=",
    "createdAt": "2026-11-19T17:21:04.512Z",
    "expiresAt": None,
}
_ENDING_SECRET = {
    "secretId": "sec_1c8h5e3d0n6w",
    "secret": "whsec_0hX0V4XHzbQYVbR3PxvUPCbVtnUwqkkVKIbHMUo1UIs=",
    "createdAt": "2026-10-01T08:00:00.000Z",
    "expiresAt": "2026-11-20T17:21:04.512Z",
}
_URL_ERROR = {"field": "targetUrl", "message": "It must be an absolute http or https URL."}


_IDEMPOTENCY_KEY: Schema = {
    "name": "Idempotency-Key",
    "in": "header",
    "schema": {"type": "string", "pattern": "^[!-~]{1,255}$"},
    "description": "A name of your own for this create. For 24 hours the same key with the same "
    "body is answered as it was the first time, with `Idempotency-Replayed: true`, and costs "
    "nothing; with another body it is a 422. Only what was stored is remembered.",
    "example": "order-8412-reminder",
}
_IDEMPOTENCY_KEY_OF_A_ROTATION: Schema = {
    **_IDEMPOTENCY_KEY,
    "description": "A name of your own for this rotation. For 24 hours the same key with the same "
    "body makes no further secret: the answer is how they stand by then, with "
    "`Idempotency-Replayed: true`; with another body it is a 422.",
    "example": "leaked-2026-11",
}
SCHEDULE_ID: Schema = {
    "name": "scheduleId",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "pattern": "^sch_[0-7][0-9a-hjkmnp-tv-z]{25}$"},
    "description": "What the create answered.",
    "example": _SCHEDULE_ID,
}


class Operation(msgspec.Struct, frozen=True):
    """`key` describes the Idempotency-Key, where one is taken. `errors` are those of its own: what
    its path, its body and its key may come to, and what every call may meet, is added to them."""

    tag: str
    answer: type
    example: Schema
    errors: tuple[int, ...] = ()
    query: tuple[Parameter, ...] = ()
    body: str | None = None
    body_required: bool = True
    key: Schema | None = None
    public: bool = False


OPERATIONS = {
    "createSchedule": Operation(
        "Schedules",
        bodies.CreatedBody,
        {
            "scheduleId": _SCHEDULE_ID,
            "invocationId": _INVOCATION_ID,
            "message": "Scheduled for 2026-11-20T08:00:00.000Z",
        },
        errors=(402,),
        key=_IDEMPOTENCY_KEY,
        body="ScheduleRequest",
    ),
    "createSchedules": Operation(
        "Schedules",
        bodies.BatchBody,
        {
            "schedules": [
                {"scheduleId": _SCHEDULE_ID, "invocationId": _INVOCATION_ID},
                {
                    "code": 400,
                    "error": f"targetUrl: {_URL_ERROR['message']}",
                    "details": [_URL_ERROR],
                },
            ]
        },
        key=_IDEMPOTENCY_KEY,
        body="BatchRequest",
    ),
    "listSchedules": Operation(
        "Schedules",
        bodies.SchedulesBody,
        {"schedules": [_WAITING], "nextCursor": None},
        query=OF_SCHEDULES,
    ),
    "getSchedule": Operation(
        "Schedules",
        bodies.ScheduleBody,
        _SCHEDULE,
    ),
    "changeSchedule": Operation(
        "Schedules",
        bodies.ScheduleBody,
        _WAITING,
        errors=(409,),
        body="ChangeRequest",
    ),
    "cancelSchedule": Operation(
        "Schedules",
        bodies.CancelledBody,
        {
            "scheduleId": _SCHEDULE_ID,
            "status": "cancelled",
            "creditsRemaining": 1000,
            "message": "Cancelled before execution; one credit was refunded",
        },
        errors=(409,),
    ),
    "cancelSchedules": Operation(
        "Schedules",
        bodies.CancelledManyBody,
        {
            "schedules": [
                {"scheduleId": _SCHEDULE_ID, "status": "cancelled"},
                {
                    "code": 409,
                    "error": "Execution has started",
                    "details": [],
                    "scheduleId": _REPLAY_ID,
                    "status": "scheduled",
                },
            ],
            "creditsRemaining": 1000,
            "nextCursor": None,
        },
        body="CancelManyRequest",
    ),
    "replaySchedule": Operation(
        "Schedules",
        bodies.ReplayBody,
        {
            "scheduleId": _REPLAY_ID,
            "invocationId": _REPLAY_INVOCATION_ID,
            "message": "Scheduled for 2026-11-20T08:00:00.000Z",
            "replayOf": _SCHEDULE_ID,
        },
        errors=(402, 409),
        key=_IDEMPOTENCY_KEY,
        body="ReplayRequest",
        body_required=False,
    ),
    "replaySchedules": Operation(
        "Schedules",
        bodies.ReplaysBody,
        {
            "schedules": [
                {
                    "scheduleId": _REPLAY_ID,
                    "invocationId": _REPLAY_INVOCATION_ID,
                    "replayOf": _SCHEDULE_ID,
                },
                {
                    "code": 409,
                    "error": "The schedule was replayed already",
                    "details": [],
                    "replayOf": _REPLAY_ID,
                },
            ],
            "nextCursor": None,
        },
        key=_IDEMPOTENCY_KEY,
        body="ReplayManyRequest",
    ),
    "getUsage": Operation(
        "Statistics",
        bodies.UsageBody,
        {
            "totalInvocations": 3,
            "successfulInvocations": 2,
            "failedInvocations": 1,
            "averageResponseTime": 41.5,
            "timeRange": {"from": "2026-10-21T08:01:00.000Z", "to": "2026-11-20T08:00:13.000Z"},
        },
        query=PERIOD,
    ),
    "listLogs": Operation(
        "Statistics",
        bodies.LogsBody,
        {"logs": [_LOG_ENTRY], "nextCursor": None},
        query=OF_LOGS,
    ),
    "getCredits": Operation("Statistics", bodies.CreditsBody, {"creditsRemaining": 999}),
    "getSigningSecrets": Operation("Signing", bodies.SecretsBody, {"secrets": [_SECRET]}),
    "rotateSigningSecret": Operation(
        "Signing",
        bodies.SecretsBody,
        {"secrets": [_SECRET, _ENDING_SECRET]},
        errors=(409,),
        key=_IDEMPOTENCY_KEY_OF_A_ROTATION,
        body="RotationRequest",
    ),
    "getHealth": Operation("Health", bodies.HealthBody, {"status": "ok"}, public=True),
    "getReadiness": Operation(
        "Health", bodies.HealthBody, {"status": "ready"}, errors=(503,), public=True
    ),
}
