"""What clients send, as JSON Schema: the rules of `api.fields` and `api.headers` in its words."""

from __future__ import annotations

import time
from typing import Any

from api.batch import MAX_ITEMS
from api.fields import METHODS
from api.headers import MAX_HEADERS
from scheduler.models import Delivery
from scheduler.settings import DAY_MS
from scheduler.targets import MAX_URL_CHARACTERS
from scheduler.times import format_iso8601

Schema = dict[str, Any]

# So that an example may be sent as it is, by a process that has been running for a while.
_SOON = format_iso8601((time.time_ns() // 1_000_000 + 30 * DAY_MS) // DAY_MS * DAY_MS)

_TARGET_URL: Schema = {
    "type": "string",
    "format": "uri",
    "maxLength": MAX_URL_CHARACTERS,
    "description": "Where the request goes: an absolute http or https URL with a host, without "
    "user name or password, spaces, control characters or backslashes. An address that may not "
    "be reached is refused here, a name when it is connected to.",
    "examples": ["https://example.com/webhooks/orders"],
}
_TRIGGER_AT: Schema = {
    "type": "string",
    "format": "date-time",
    "description": "When it goes: ISO 8601. An offset is honoured, no zone means UTC; finer than a "
    "millisecond rounds up. At most 24 hours in the past (then it is due at once), and at most "
    "five years ahead unless this installation says otherwise.",
    "examples": [_SOON],
}
_OPTIONAL: dict[str, Schema] = {
    "targetMethod": {
        "type": ["string", "null"],
        "enum": [*sorted(METHODS), None],
        "description": "In any letter case. Default: POST with a body, GET without.",
    },
    "targetHeaders": {
        "type": ["object", "null"],
        "maxProperties": MAX_HEADERS,
        "propertyNames": {"pattern": r"^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$"},
        "additionalProperties": {"type": "string", "pattern": r"^[ -~\u00a0-\u00ff]*$"},
        "description": "Headers to send, 16 KiB in all. Those of the connection (Host, "
        "Content-Length, Transfer-Encoding, Connection, Keep-Alive, TE, Trailer, Upgrade, Expect, "
        "Proxy-*) and Postdate-* are refused.",
        "examples": [{"X-Order": "ord_8412"}],
    },
    "targetBody": {
        "type": ["object", "null"],
        "description": "Sent as the very JSON text that comes in, with Content-Type: "
        "application/json unless a header says otherwise.",
        "examples": [{"order": "ord_8412", "action": "remind"}],
    },
    "delivery": {
        "type": ["string", "null"],
        "enum": [*Delivery, None],
        "description": "What becomes of a request whose worker was lost while it had it: it is "
        "sent again, or it is given up as failed.",
        "default": Delivery.AT_LEAST_ONCE,
    },
    "expiresAt": {
        "type": ["string", "null"],
        "format": "date-time",
        "description": "The last moment at which it may still be sent, after triggerAt; later it "
        "ends as failed, `Expired before execution`.",
    },
}
_FIELDS = {"targetUrl": _TARGET_URL, "triggerAt": _TRIGGER_AT, **_OPTIONAL}

EXAMPLE = {
    "targetUrl": "https://example.com/webhooks/orders",
    "triggerAt": _SOON,
    "targetMethod": "POST",
    "targetHeaders": {"X-Order": "ord_8412"},
    "targetBody": {"order": "ord_8412", "action": "remind"},
}

REQUESTS: dict[str, Schema] = {
    "ScheduleRequest": {
        "type": "object",
        "description": "A request, and when it is to be performed. Null is as good as absent.",
        "properties": _FIELDS,
        "required": ["targetUrl", "triggerAt"],
        "additionalProperties": False,
        "examples": [EXAMPLE],
    },
    "ChangeRequest": {
        "type": "object",
        "description": "The fields to change, each replaced as a whole; null clears it. A masked "
        "header value is refused. Only what is given is judged, and that expiresAt is after "
        "triggerAt.",
        "properties": _FIELDS,
        "minProperties": 1,
        "additionalProperties": False,
        "examples": [{"triggerAt": _SOON, "expiresAt": None}],
    },
    "BatchRequest": {
        "type": "object",
        "properties": {
            "schedules": {
                "type": "array",
                "items": {"$ref": "#/components/schemas/ScheduleRequest"},
                "minItems": 1,
                "maxItems": MAX_ITEMS,
                "description": "Each is judged on its own: a bad one is answered with a 400 of its "
                "own, and keeps no other from being stored.",
            }
        },
        "required": ["schedules"],
        "additionalProperties": False,
        "examples": [{"schedules": [EXAMPLE, {**EXAMPLE, "targetUrl": "ftp://example.com"}]}],
    },
}
