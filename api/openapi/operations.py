"""Every operation, by its id: its parameters, its body, and what it may answer."""

from __future__ import annotations

from typing import Any

import msgspec

from api import schemas
from api.openapi import parameters
from api.openapi.requests import EXAMPLE

_SCHEDULE_ID = "sch_01jd3v9x8kfw3s9s2m2v2v2v2v"
_INVOCATION_ID = "inv_01jd3v9x8kfw3s9s2m2v2v2v2v"
_SCHEDULE = {
    "scheduleId": _SCHEDULE_ID,
    "invocationId": _INVOCATION_ID,
    "status": "completed",
    "createdAt": "2026-11-19T17:21:04.512Z",
    **EXAMPLE,
    "triggerAt": "2026-11-20T08:00:00.000Z",
    "delivery": "at-least-once",
    "expiresAt": None,
    "executedAt": "2026-11-20T08:00:00.043Z",
    "statusCode": 200,
    "responseTimeMs": 41,
    "errorMessage": "",
}
_WAITING = {
    **_SCHEDULE,
    "status": "scheduled",
    **dict.fromkeys(("executedAt", "statusCode", "responseTimeMs", "errorMessage")),
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
}
_URL_ERROR = {"field": "targetUrl", "message": "It must be an absolute http or https URL."}


class Operation(msgspec.Struct, frozen=True):
    """`errors` are those of its own; what every call with a key may meet is added to them."""

    tag: str
    answer: type
    example: dict[str, Any]
    status: int = 200
    errors: tuple[int, ...] = ()
    parameters: list[parameters.Parameter] = []
    body: str | None = None
    replays: bool = False
    public: bool = False


OPERATIONS = {
    "createSchedule": Operation(
        "Schedules",
        schemas.CreatedBody,
        {
            "scheduleId": _SCHEDULE_ID,
            "invocationId": _INVOCATION_ID,
            "message": "Scheduled for 2026-11-20T08:00:00.000Z",
        },
        status=201,
        errors=(400, 402, 413, 422),
        parameters=[parameters.IDEMPOTENCY_KEY],
        body="ScheduleRequest",
        replays=True,
    ),
    "createSchedules": Operation(
        "Schedules",
        schemas.BatchBody,
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
        errors=(400, 413, 422),
        parameters=[parameters.IDEMPOTENCY_KEY],
        body="BatchRequest",
        replays=True,
    ),
    "listSchedules": Operation(
        "Schedules",
        schemas.SchedulesBody,
        {"schedules": [_WAITING], "nextCursor": None},
        errors=(400,),
        parameters=parameters.OF_SCHEDULES,
    ),
    "getSchedule": Operation(
        "Schedules",
        schemas.ScheduleBody,
        _SCHEDULE,
        errors=(400, 404),
        parameters=[parameters.SCHEDULE_ID],
    ),
    "changeSchedule": Operation(
        "Schedules",
        schemas.ScheduleBody,
        _WAITING,
        errors=(400, 404, 409, 413),
        parameters=[parameters.SCHEDULE_ID],
        body="ChangeRequest",
    ),
    "cancelSchedule": Operation(
        "Schedules",
        schemas.CancelledBody,
        {
            "scheduleId": _SCHEDULE_ID,
            "status": "cancelled",
            "creditsRemaining": 1000,
            "message": "Cancelled before execution; one credit was refunded",
        },
        errors=(404, 409),
        parameters=[parameters.SCHEDULE_ID],
    ),
    "getUsage": Operation(
        "Statistics",
        schemas.UsageBody,
        {
            "totalInvocations": 3,
            "successfulInvocations": 2,
            "failedInvocations": 1,
            "averageResponseTime": 41.5,
            "timeRange": {"from": "2026-10-21T08:01:00.000Z", "to": "2026-11-20T08:00:13.000Z"},
        },
        errors=(400,),
        parameters=parameters.PERIOD,
    ),
    "listLogs": Operation(
        "Statistics",
        schemas.LogsBody,
        {"logs": [_LOG_ENTRY], "nextCursor": None},
        errors=(400,),
        parameters=parameters.OF_LOGS,
    ),
    "getCredits": Operation(
        "Statistics", schemas.CreditsBody, {"creditsRemaining": 999}, errors=(400,)
    ),
    "getHealth": Operation("Health", schemas.HealthBody, {"status": "ok"}, public=True),
    "getReadiness": Operation(
        "Health", schemas.HealthBody, {"status": "ready"}, errors=(503,), public=True
    ),
}
