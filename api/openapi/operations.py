"""Every operation, by its id: its parameters, its body, and what it may answer."""

from __future__ import annotations

import msgspec

from api import bodies
from api.field import Schema
from api.openapi.requests import EXAMPLE
from api.query import OF_LOGS, OF_SCHEDULES, PERIOD, Parameter
from scheduler.errors import FieldError
from scheduler.models import (
    LogEntry,
    LogStatus,
    Outcome,
    Phases,
    Request,
    Schedule,
    SigningSecret,
    Status,
    Usage,
)
from scheduler.settings import DAY_MS
from scheduler.store.lifecycle.cancel import Cancellation, Cancellations
from scheduler.times import parse_iso8601

_SCHEDULE_ID = "sch_01m7td70g0fw3s9s2m2v2v2v2v"
_INVOCATION_ID = "inv_01m7td70g0fw3s9s2m2v2v2v2v"
_REPLAY_ID = "sch_01m7td70g0fw3s9s2m2v2v2v2w"
_REPLAY_INVOCATION_ID = "inv_01m7td70g0fw3s9s2m2v2v2v2w"
_CREATED_AT_MS = parse_iso8601("2026-11-19T17:21:04.512Z")
_DUE_AT_MS = parse_iso8601("2026-11-20T08:00:00.000Z")
_SCHEDULED_FOR = "Scheduled for 2026-11-20T08:00:00.000Z"
_REQUEST = Request(
    _DUE_AT_MS,
    EXAMPLE["targetMethod"],
    EXAMPLE["targetUrl"],
    EXAMPLE["targetHeaders"],
    msgspec.json.encode(EXAMPLE["targetBody"]),
)
_WAITING = Schedule(_SCHEDULE_ID, _CREATED_AT_MS, _REQUEST, Status.SCHEDULED)
_COMPLETED = msgspec.structs.replace(
    _WAITING,
    status=Status.COMPLETED,
    outcome=Outcome(Status.COMPLETED, 200, 41, "", phases=Phases(3, 6, 14, 17, 1)),
    ended_at_ms=_DUE_AT_MS + 43,
    attempts=1,
)
_LOG_ENTRY = bodies.LOG_ENTRY.of(
    LogEntry(
        _SCHEDULE_ID,
        created_at_ms=_CREATED_AT_MS,
        scheduled_at_ms=_DUE_AT_MS,
        executed_at_ms=_DUE_AT_MS + 43,
        url=_REQUEST.url,
        method=_REQUEST.method,
        status=LogStatus.FAILED,
        status_code=503,
        response_time_ms=41,
        error_message="Service Unavailable",
        attempt=1,
    )
)
_SECRET = bodies.SECRET.of(
    SigningSecret(
        "sec_q7m2x0v9k4tz",
        "whsec_rjpTzW3AB3nWzoMb7QZ1Jn2aPyTWaYgLO1mYJ0wX4tE=",
        _CREATED_AT_MS,
    )
)
_ENDING_SECRET = bodies.SECRET.of(
    SigningSecret(
        "sec_1c8h5e3d0n6w",
        "whsec_0hX0V4XHzbQYVbR3PxvUPCbVtnUwqkkVKIbHMUo1UIs=",
        parse_iso8601("2026-10-01T08:00:00.000Z"),
        _CREATED_AT_MS + DAY_MS,
    )
)
_URL_ERROR = FieldError("targetUrl", "It must be an absolute http or https URL.")


IDEMPOTENCY_KEY: Schema = {
    "name": "Idempotency-Key",
    "in": "header",
    "schema": {"type": "string", "pattern": "^[!-~]{1,255}$"},
    "description": "A name of your own for this call. For 24 hours the same key with the same "
    "body is answered as it was the first time, with `Idempotency-Replayed: true`, and costs "
    "nothing; with another body it is a 422. Only what was stored is remembered.",
    "example": "order-8412-reminder",
}
SCHEDULE_ID: Schema = {
    "name": "scheduleId",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "pattern": "^sch_[0-7][0-9a-hjkmnp-tv-z]{25}$"},
    "description": "The id that the create answered.",
    "example": _SCHEDULE_ID,
}


class Operation(msgspec.Struct, frozen=True):
    """`example` is an answer. `once`: an Idempotency-Key is taken. `errors` are its own, beside
    those that its path, its body and its key bring, and those of every call."""

    example: msgspec.Struct
    errors: tuple[int, ...] = ()
    query: tuple[Parameter, ...] = ()
    body: str | None = None
    body_required: bool = True
    once: bool = False


OPERATIONS = {
    "createSchedule": Operation(
        bodies.CreatedBody(_SCHEDULE_ID, _INVOCATION_ID, _SCHEDULED_FOR),
        errors=(402,),
        once=True,
        body="ScheduleRequest",
    ),
    "createSchedules": Operation(
        bodies.BatchBody(
            [
                bodies.AcceptedBody(_SCHEDULE_ID, _INVOCATION_ID),
                bodies.RefusedBody(400, f"targetUrl: {_URL_ERROR.message}", [_URL_ERROR]),
            ]
        ),
        once=True,
        body="BatchRequest",
    ),
    "listSchedules": Operation(
        bodies.SchedulesBody([bodies.SCHEDULE.of(_WAITING)], None),
        query=OF_SCHEDULES,
    ),
    "getSchedule": Operation(bodies.SCHEDULE.of(_COMPLETED)),
    "changeSchedule": Operation(bodies.SCHEDULE.of(_WAITING), errors=(409,), body="ChangeRequest"),
    "cancelSchedule": Operation(
        bodies.CancelledBody.of(Cancellations([Cancellation(_SCHEDULE_ID)], 1000)),
        errors=(409,),
    ),
    "cancelSchedules": Operation(
        bodies.CancelledManyBody(
            [
                bodies.CancelledItemBody(_SCHEDULE_ID, Status.CANCELLED),
                bodies.UncancelledBody(
                    409, "Execution has started", [], _REPLAY_ID, Status.SCHEDULED
                ),
            ],
            1000,
            None,
        ),
        body="CancelManyRequest",
    ),
    "replaySchedule": Operation(
        bodies.ReplayBody(_REPLAY_ID, _REPLAY_INVOCATION_ID, _SCHEDULED_FOR, _SCHEDULE_ID),
        errors=(402, 409),
        once=True,
        body="ReplayRequest",
        body_required=False,
    ),
    "replaySchedules": Operation(
        bodies.ReplaysBody(
            [
                bodies.ReplayedBody(_REPLAY_ID, _REPLAY_INVOCATION_ID, _SCHEDULE_ID),
                bodies.UnreplayedBody(409, "The schedule was replayed already", [], _REPLAY_ID),
            ],
            None,
        ),
        once=True,
        body="ReplayManyRequest",
    ),
    "getUsage": Operation(
        bodies.USAGE.of(Usage(3, 1, 166, _DUE_AT_MS - 30 * DAY_MS, _DUE_AT_MS)),
        query=PERIOD,
    ),
    "listLogs": Operation(bodies.LogsBody([_LOG_ENTRY], None), query=OF_LOGS),
    "getCredits": Operation(bodies.CreditsBody(999)),
    "getSigningSecrets": Operation(bodies.SecretsBody([_SECRET])),
    "rotateSigningSecret": Operation(
        bodies.SecretsBody([_SECRET, _ENDING_SECRET]),
        errors=(409,),
        once=True,
        body="RotationRequest",
    ),
    "getHealth": Operation(bodies.HealthBody("ok")),
    "getReadiness": Operation(bodies.HealthBody("ready"), errors=(503,)),
}
