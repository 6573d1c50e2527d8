"""What the service sends to its customers: the document's webhooks."""

from __future__ import annotations

from api.schema.field import Schema
from scheduler.store.lifecycle.callback.reports import ScheduleEnded

BODIES = (ScheduleEnded,)

_DESCRIPTION = """\
Sent to `callbackUrl` once a schedule is completed or has failed for good; a failure to
`failureCallbackUrl`, if there is one. It is signed as [Standard
Webhooks](https://www.standardwebhooks.com) defines it: check `webhook-signature` with a secret of
`GET /signing` before you parse the body. It is sent at least once, and each attempt has the same
`webhook-id`: keep it, and drop repeats. Answer within 30 seconds.
"""
_EXAMPLE: Schema = {
    "type": "schedule.failed",
    "timestamp": "2026-11-22T11:52:27.918Z",
    "data": {
        "scheduleId": "sch_01m81hkezper8s5tq5rw0znapx",
        "invocationId": "inv_01m81hkezper8s5tq5rw0znapx",
        "reference": "order-17",
        "targetUrl": "https://example.com/webhooks/orders",
        "targetMethod": "POST",
        "triggerAt": "2026-11-22T11:52:27.894Z",
        "executedAt": "2026-11-22T11:52:27.918Z",
        "status": "failed",
        "statusCode": 503,
        "responseTimeMs": 41,
        "errorMessage": "Service Unavailable",
        "attempts": 6,
        "responseHeaders": {"content-type": ["text/plain"], "retry-after": ["60"]},
        "responseBody": "Come back later",
        "responseBodyEncoding": "utf-8",
        "responseCut": False,
    },
}
# By name: its schema, whether each report has it, an example, and what it says.
_HEADERS: dict[str, tuple[Schema, bool, str, str]] = {
    "webhook-id": (
        {"type": "string", "pattern": "^cbk_[0-7][0-9a-hjkmnp-tv-z]{25}$"},
        True,
        "cbk_01m81hkezper8s5tq5rw0znapx",
        "The same in all attempts, also of a callback that is sent again by a call.",
    ),
    "webhook-timestamp": (
        {"type": "string", "pattern": "^[0-9]+$"},
        True,
        "1795161600",
        (
            "The moment of this attempt, in seconds since the epoch. Refuse it if it is more than "
            "five minutes off."
        ),
    ),
    "webhook-signature": (
        {"type": "string"},
        True,
        "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=",
        (
            "`v1,` and the base64 of HMAC-SHA256 over `<webhook-id>.<webhook-timestamp>.<body>`, "
            "for each valid secret one, separated by spaces. The key is the decoded base64 after "
            "`whsec_`."
        ),
    ),
    "Postdate-Schedule-Id": (
        {"type": "string"},
        True,
        "sch_01m81hkezper8s5tq5rw0znapx",
        "The schedule that has ended.",
    ),
    "Postdate-Attempt": (
        {"type": "string", "pattern": "^[1-9][0-9]*$"},
        True,
        "1",
        "Which attempt this is, counted from 1. A call that sends it again starts a new count.",
    ),
    "Postdate-Reference": (
        {"type": "string"},
        False,
        "order-17",
        "The schedule's `reference`, if it has one.",
    ),
}
_AGAIN = "It is sent again, up to five times: after 10s, 1m, 10m, 1h and 6h."
_NEVER = "The callback has failed, and only a call sends it again."
_ANSWERS = {
    "2XX": "The report has arrived: the callback is delivered.",
    "3XX": _NEVER + " Redirects are not followed.",
    **dict.fromkeys(("408", "409", "425", "429"), _AGAIN),
    "4XX": _NEVER,
    "5XX": _AGAIN,
}


def webhooks(schema: Schema) -> dict[str, Schema]:
    """`schema`: that of the report."""
    content = {"application/json": {"schema": schema, "example": _EXAMPLE}}
    parameters = [
        {
            "name": name,
            "in": "header",
            "required": required,
            "schema": each,
            "description": description,
            "example": example,
        }
        for name, (each, required, example, description) in _HEADERS.items()
    ]
    sent: Schema = {
        "operationId": "scheduleEnded",
        "summary": "A schedule has ended",
        "description": " ".join(_DESCRIPTION.split()),
        "tags": ["Schedules"],
        "security": [],
        "parameters": parameters,
        "requestBody": {"required": True, "content": content},
        "responses": {status: {"description": each} for status, each in _ANSWERS.items()},
    }
    return {"scheduleEnded": {"post": sent}}
