"""The refusals of calls, by their status and for some by operation."""

from __future__ import annotations

import msgspec

from api.schema import bodies
from api.schema.field import Schema

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
        "It has ended, or a worker has it: from a moment before triggerAt on; `status` says which. "
        "Or, without a `status`, the account has as many lanes as it may have.",
        bodies.ConflictBody,
    ),
    412: Refusal(
        "PreconditionFailed",
        "The present state is not the one that If-Match or If-None-Match asks for; nothing was "
        "changed.",
    ),
    413: Refusal(
        "TooLarge",
        "The body is larger than allowed, or the account has as much stored as its plan allows.",
    ),
    414: Refusal(
        "TargetTooLong", "Path and query are longer than 8,192 bytes; the connection is closed."
    ),
    415: Refusal("Encoded", "The body has a Content-Encoding."),
    421: Refusal("Misdirected", "The service does not answer under this `Host`."),
    422: Refusal("KeyReused", "The Idempotency-Key was used with another body before."),
    429: Refusal(
        "TooManyRequests",
        "The rate of the account's plan is used up, that of its searches, or that of callbacks "
        "sent again; or too many requests wait on this connection, which is closed.",
        headers=RETRY,
    ),
    431: Refusal(
        "HeadTooLarge",
        "The request's line and headers are larger than allowed; the connection is closed.",
    ),
    500: Refusal("InternalError", "A fault of the service's own."),
    501: Refusal(
        "Unsupported",
        "No path has the method; or the body has a Transfer-Encoding other than `chunked`, and the "
        "connection is closed.",
    ),
    503: Refusal(
        "Unavailable",
        "The store is away or full, or there are too many connections, and nothing was changed; "
        "or, with the reason outcome_unknown, the call may have been carried out, all of it or a "
        "part. Repeat it.",
        headers=RETRY,
    ),
}
# Where a status means something else than elsewhere.
OWN_ERRORS = {
    ("createSchedule", 409): Refusal(
        "SeveralWaiting",
        "Several schedules wait with the reference, so that `onExisting` can mean none of them; or "
        "the account has as many lanes as it may have.",
        bodies.ConflictBody,
    ),
    ("createSchedules", 409): Refusal(
        "TooManyLanes",
        "The account would have more lanes than it may have; nothing was stored.",
    ),
    **{
        (name, 409): Refusal(
            "SettingsConflict",
            "Other calls keep changing the settings; or the account has as many lanes as it may "
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
            "The name is another one's, the account has as many recurring schedules or lanes as it "
            "may have, or other calls keep changing it. Nothing was changed.",
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
        "It has not ended, its callback is pending already, or it was cancelled; `status` says how "
        "it stands.",
        bodies.ConflictBody,
    ),
    ("rotateSigningSecret", 409): Refusal(
        "TooManySecrets",
        "Three secrets are good already, and a shorter `keepFor` would end one of them.",
    ),
}
