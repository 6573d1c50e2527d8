"""The refusals of calls, by their status and for some by operation."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from api.schema import bodies
from api.schema.field import Schema
from scheduler.errors import Reason

RETRY: Schema = {"Retry-After": {"$ref": "#/components/headers/RetryAfter"}}


class Refusal(msgspec.Struct, frozen=True):
    """One kind of refusal, by its name in the document."""

    name: str
    when: str
    body: type = bodies.ErrorBody
    headers: Schema = {}


ERRORS = {
    400: Refusal(
        "BadRequest",
        "The payload or a parameter breaks a rule, or it is not valid HTTP; nothing was changed.",
        bodies.DetailedErrorBody,
    ),
    401: Refusal(
        "Unauthorized",
        "There is no API key, or it is invalid or inactive.",
        headers={"WWW-Authenticate": {"schema": {"type": "string"}}},
    ),
    402: Refusal("InsufficientCredits", "The account has too few credits."),
    403: Refusal(
        "Suspended",
        "An operator has suspended the account. Nothing was done; due schedules wait.",
    ),
    404: Refusal(
        "NotFound", "There is no such schedule or recurring schedule, or it is another account's."
    ),
    405: Refusal(
        "MethodNotAllowed",
        "The path has other methods, which `Allow` names.",
        headers={"Allow": {"required": True, "schema": {"type": "string"}}},
    ),
    408: Refusal(
        "RequestTimeout", "The request's head or body came too slowly; the connection is closed."
    ),
    409: Refusal(
        "Conflict",
        "The schedule has ended, or a worker has it, from a moment before `triggerAt` on; `status` "
        "says which. Without a `status`, the account has as many lanes as it may have.",
        bodies.ConflictBody,
    ),
    412: Refusal(
        "PreconditionFailed",
        "The present state is not the one that `If-Match` or `If-None-Match` asks for; nothing was "
        "changed.",
    ),
    413: Refusal(
        "TooLarge",
        "The body is larger than allowed, or the account would store more than its plan allows.",
    ),
    414: Refusal(
        "TargetTooLong", "Path and query are longer than 8,192 bytes; the connection is closed."
    ),
    415: Refusal("Encoded", "The body has a Content-Encoding."),
    421: Refusal("Misdirected", "The service does not answer under this `Host`."),
    422: Refusal("KeyReused", "The `Idempotency-Key` was used with another body before."),
    429: Refusal(
        "TooManyRequests",
        "A rate is used up: of the account's plan, of its searches, or of callbacks that it sends "
        "again. Or too many requests wait on this connection, which is closed.",
        headers=RETRY,
    ),
    431: Refusal(
        "HeadTooLarge",
        "The request's line and headers are larger than allowed; the connection is closed.",
    ),
    500: Refusal("InternalError", "A fault of the service."),
    501: Refusal(
        "Unsupported",
        "No path has the method; or the body has a Transfer-Encoding other than `chunked`, and the "
        "connection is closed.",
    ),
    503: Refusal(
        "Unavailable",
        "The store is away or full, or there are too many connections, and nothing was changed. "
        "With the reason `outcome_unknown`, the call may have been carried out, all of it or a "
        "part: repeat it.",
        headers=RETRY,
    ),
}
# Where a status means something else than elsewhere.
OWN_ERRORS = {
    ("createSchedule", 409): Refusal(
        "SeveralWaiting",
        "Several schedules wait with the reference, so `onExisting` can mean none of them. Or the "
        "account has as many lanes as it may have.",
        bodies.ConflictBody,
    ),
    ("createSchedules", 409): Refusal(
        "TooManyLanes",
        "The account would have more lanes than it may have; nothing was stored.",
    ),
    **{
        (name, 409): Refusal(
            "SettingsConflict",
            "Other calls keep changing the settings, or the account has as many lanes as it may "
            "have. Nothing was changed.",
        )
        for name in (
            *("setLane", "changeLane", "clearLane", "pauseLane", "resumeLane"),
            *("changeAccount", "pauseAccount", "resumeAccount"),
        )
    },
    **{
        (name, 409): Refusal(
            "RecurringConflict",
            "Another recurring schedule has the name, the account has as many recurring schedules "
            "or lanes as it may have, or other calls keep changing it. Nothing was changed.",
        )
        for name in (
            "createRecurring",
            "changeRecurring",
            "setRecurring",
            "deleteRecurring",
            "pauseRecurring",
            "resumeRecurring",
        )
    },
    ("triggerRecurring", 409): Refusal(
        "TooManyLanes",
        "The account would have more lanes than it may have; nothing was stored.",
    ),
    ("resendCallback", 409): Refusal(
        "NothingToReport",
        "The schedule has not ended, its callback is pending already, or it was cancelled; "
        "`status` is that of the schedule.",
        bodies.ConflictBody,
    ),
    ("rotateSigningSecret", 409): Refusal(
        "TooManySecrets",
        "Three secrets are valid already; a shorter `keepFor` ends some of them, and makes room.",
    ),
}


class Cause(NamedTuple):
    """The statuses that have a reason, and a sentence that says when."""

    statuses: tuple[int, ...]
    when: str


# Also the reference's tables of errors come from here.
REASONS = {
    Reason.INVALID_FIELD: Cause(
        (400,),
        "Fields of the payload, or query parameters, break a rule; `details` names them. Nothing "
        "was changed.",
    ),
    Reason.DESTINATION_NOT_ALLOWED: Cause(
        (400,),
        "The only fault is that `targetUrl`, or the URL of a callback, leads to an address that "
        "this service may not reach.",
    ),
    Reason.MALFORMED_REQUEST: Cause(
        (400,),
        "The request is not valid HTTP/1.1, or is not complete. The connection is closed.",
    ),
    Reason.UNAUTHORIZED: Cause(
        (401,),
        "The key is missing, invalid or inactive, or there is more than one.",
    ),
    Reason.INSUFFICIENT_CREDITS: Cause((402,), "The account has no credit left for it."),
    Reason.SUSPENDED: Cause(
        (403,),
        "An operator has suspended the account. Nothing was done, and due schedules wait.",
    ),
    Reason.UNKNOWN_SCHEDULE: Cause(
        (404,),
        "There is no such schedule, or it belongs to another account.",
    ),
    Reason.UNKNOWN_RECURRING: Cause(
        (404,),
        "There is no such recurring schedule, or it belongs to another account.",
    ),
    Reason.UNKNOWN_ACCOUNT: Cause((404,), "The account was deleted while the call was under way."),
    Reason.NOT_FOUND: Cause((404,), "There is no such path."),
    Reason.METHOD_NOT_ALLOWED: Cause((405,), "The path has other methods, which `Allow` names."),
    Reason.TIMEOUT: Cause((408,), "The request came too slowly. The connection is closed."),
    Reason.ALREADY_STARTED: Cause(
        (409,),
        "A worker has the schedule: from 50 ms before `triggerAt` on.",
    ),
    Reason.ALREADY_ENDED: Cause((409,), "The schedule has ended; `status` says how."),
    Reason.NOT_ENDED: Cause(
        (409,),
        "The schedule has not ended. Only one that has ended is replayed, or reported again.",
    ),
    Reason.CALLBACK_PENDING: Cause((409,), "The callback of the schedule is pending already."),
    Reason.ALREADY_REPLAYED: Cause((409,), "In a bulk replay: the schedule was replayed before."),
    Reason.BODY_NOT_KEPT: Cause(
        (409,),
        "The schedule was cancelled and its body deleted, so it cannot be replayed.",
    ),
    Reason.KEEPS_CHANGING: Cause(
        (409,),
        "Other calls keep changing it. Nothing was changed: repeat the call.",
    ),
    Reason.SEVERAL_WAITING: Cause(
        (409,),
        "Several schedules wait with the reference, so `onExisting` can mean none of them.",
    ),
    Reason.TOO_MANY_LANES: Cause(
        (409,),
        "The account has 10,000 lanes that are set, paused, calm, or have schedules.",
    ),
    Reason.RECURRING_NAME_TAKEN: Cause(
        (409,),
        "Another recurring schedule of the account has the name.",
    ),
    Reason.TOO_MANY_RECURRING: Cause((409,), "The account has 10,000 recurring schedules."),
    Reason.TOO_MANY_SECRETS: Cause(
        (409,),
        "Three signing secrets are valid already; a shorter `keepFor` ends some, and makes room.",
    ),
    Reason.PRECONDITION_FAILED: Cause(
        (412,),
        "The present state is not the one that `If-Match` or `If-None-Match` asks for. Nothing was "
        "changed.",
    ),
    Reason.TOO_LARGE: Cause(
        (413, 414, 431),
        "The body, the path with its query (8,192 bytes), or the head (16 KiB, 256 lines) is "
        "larger than allowed. After 414 and 431 the connection is closed.",
    ),
    Reason.QUOTA_EXCEEDED: Cause((413,), "The account would store more than its plan allows."),
    Reason.UNSUPPORTED_ENCODING: Cause(
        (415, 501),
        "The body has a `Content-Encoding`, or a `Transfer-Encoding` other than `chunked`. After "
        "501 the connection is closed.",
    ),
    Reason.UNSUPPORTED_METHOD: Cause((501,), "No path has the method."),
    Reason.MISDIRECTED: Cause((421,), "The service does not answer under this `Host`."),
    Reason.KEY_REUSED: Cause(
        (422,),
        "The `Idempotency-Key` was used with another body before. Nothing was done.",
    ),
    Reason.RATE_LIMITED: Cause(
        (429,),
        "The rate of the plan is used up, or that of callbacks sent again, or that of creates with "
        "`onExisting`. `Retry-After` says for how long.",
    ),
    Reason.SEARCHES_LIMITED: Cause(
        (429,),
        "The account's rate of searches is used up. `Retry-After` says for how long.",
    ),
    Reason.OVERLOADED: Cause(
        (429, 503),
        "32 requests wait on this connection, or the process has as many connections or bodies as "
        "it may. Nothing was done, and the connection is closed.",
    ),
    Reason.INTERNAL_ERROR: Cause((500,), "A fault of the service."),
    Reason.DAMAGED: Cause(
        (500,),
        "Something stored cannot be read. It is kept, lists show the others, and `postdate check` "
        "finds it.",
    ),
    Reason.STORE_UNAVAILABLE: Cause(
        (503,),
        "The store is full or cannot be reached. Nothing was done; `Retry-After` says when to "
        "repeat.",
    ),
    Reason.OUTCOME_UNKNOWN: Cause(
        (503,),
        "The call may have been carried out, all of it or a part. Repeat it, with the same "
        "`Idempotency-Key` if it takes one.",
    ),
    Reason.DRAINING: Cause((503,), "Only of `/readyz`: the process is about to end."),
}
_OF_A_SCHEDULE = (Reason.ALREADY_STARTED, Reason.ALREADY_ENDED, Reason.KEEPS_CHANGING)
_STORES = (Reason.TOO_MANY_LANES, Reason.QUOTA_EXCEEDED)
_OF_A_LANE = (Reason.TOO_MANY_LANES, Reason.KEEPS_CHANGING)
_NEW_RULE = (Reason.RECURRING_NAME_TAKEN, Reason.TOO_MANY_RECURRING, *_STORES)
_SEARCHES = (Reason.SEARCHES_LIMITED,)
# Of each call, the reasons that its path, parameters and body do not tell.
OWN_REASONS: dict[str, tuple[Reason, ...]] = {
    "createSchedule": (Reason.SEVERAL_WAITING, *_STORES),
    "createSchedules": _STORES,
    "listSchedules": _SEARCHES,
    "changeSchedule": (*_OF_A_SCHEDULE, *_STORES),
    "cancelSchedule": _OF_A_SCHEDULE,
    "cancelSchedules": _SEARCHES,
    "replaySchedule": (Reason.NOT_ENDED, Reason.BODY_NOT_KEPT, *_STORES),
    "replaySchedules": _SEARCHES,
    "resendCallback": (
        *(Reason.NOT_ENDED, Reason.CALLBACK_PENDING, Reason.ALREADY_ENDED),
        *(Reason.KEEPS_CHANGING, Reason.RATE_LIMITED),
    ),
    "resendCallbacks": (Reason.RATE_LIMITED, *_SEARCHES),
    "listLogs": _SEARCHES,
    "listLanes": _SEARCHES,
    "rotateSigningSecret": (Reason.TOO_MANY_SECRETS,),
    **dict.fromkeys(("setLane", "changeLane", "pauseLane", "resumeLane"), _OF_A_LANE),
    **dict.fromkeys(
        ("clearLane", "changeAccount", "pauseAccount", "resumeAccount"), (Reason.KEEPS_CHANGING,)
    ),
    **dict.fromkeys(
        ("deleteRecurring", "pauseRecurring", "resumeRecurring"), (Reason.KEEPS_CHANGING,)
    ),
    "createRecurring": _NEW_RULE,
    "changeRecurring": (Reason.RECURRING_NAME_TAKEN, Reason.KEEPS_CHANGING, *_STORES),
    "setRecurring": (*_NEW_RULE, Reason.KEEPS_CHANGING),
    "triggerRecurring": _STORES,
    "getReadiness": (Reason.STORE_UNAVAILABLE, Reason.DRAINING),
}
