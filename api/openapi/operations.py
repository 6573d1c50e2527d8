"""Every operation by its id, and the parameters of paths and headers."""

from __future__ import annotations

from typing import NamedTuple

from api.schema import account_bodies, bodies, recurring_bodies
from api.schema.field import Schema
from api.schema.query import OF_LANES, OF_LOGS, OF_RECURRING, OF_SCHEDULES, PERIOD, Parameter
from api.schema.recurring_fields import PREVIEW
from scheduler.lanes import LANE_PATTERN

IDEMPOTENCY_KEY: Schema = {
    "name": "Idempotency-Key",
    "in": "header",
    "schema": {"type": "string", "pattern": "^[!-~]{1,255}$"},
    "description": "A name of your own for this call. For 24 hours, a call with the same key "
    "and body gets the first answer again, and costs nothing. With another body it is a 422.",
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
    "description": "The `ETag` of an earlier answer, several of them, or `*` for any. If the "
    "present tag is another one, the answer is a 412 and nothing is changed.",
}
IF_NONE_MATCH: Schema = {
    "name": "If-None-Match",
    "in": "header",
    "schema": _TAGS,
    "description": "For `GET`, the `ETag` of an earlier answer: if it is still the same, the "
    "answer is a 304 without a body. For `PUT`, `*`: if there is one already, the answer is a 412.",
}
LANE: Schema = {
    "name": "lane",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "pattern": f"^{LANE_PATTERN}$"},
    "description": "The name of a lane: 1 to 64 letters, digits, `.`, `_`, `:` and `-`, first a "
    "letter or a digit.",
    "example": "partner-b",
}
SCHEDULE_ID: Schema = {
    "name": "scheduleId",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "pattern": "^sch_[0-7][0-9a-hjkmnp-tv-z]{25}$"},
    "description": "The id in the answer of the create.",
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
    "description": "The id in the answer of the create, or `name:` and the name, as in "
    "`name:report`: the recurring schedule that has this name when the call begins.",
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
