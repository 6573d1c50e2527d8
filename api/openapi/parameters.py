"""Parameters: of the path, the query, and the headers."""

from __future__ import annotations

from typing import Any

from api.query import DEFAULT_LIMIT, MAX_LIMIT
from scheduler.models import Status

Parameter = dict[str, Any]


def _query(name: str, schema: dict[str, Any], description: str, **more: Any) -> Parameter:
    return {"name": name, "in": "query", "schema": schema, "description": description, **more}


_MOMENT = {"type": "string", "format": "date-time"}
_FROM = _query("from", _MOMENT, "ISO 8601: what is at this moment or later. Not after `to`.")
_TO = _query("to", _MOMENT, "ISO 8601: what is before this moment.")
_PAGE = [
    _query(
        "limit",
        {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
        "The most that one page may have.",
    ),
    _query(
        "cursor",
        {"type": "string", "pattern": "^[A-Za-z0-9_-]+$"},
        "`nextCursor` of the page before; the other parameters stay the same.",
    ),
]


def _order(default: str) -> Parameter:
    schema = {"type": "string", "enum": ["asc", "desc"], "default": default}
    return _query("order", schema, "Oldest first, or newest first.")


IDEMPOTENCY_KEY: Parameter = {
    "name": "Idempotency-Key",
    "in": "header",
    "schema": {"type": "string", "pattern": "^[!-~]{1,255}$"},
    "description": "A name of your own for this create. For 24 hours the same key with the same "
    "body is answered as it was the first time, with `Idempotency-Replayed: true`, and costs "
    "nothing; with another body it is a 422. Only what was stored is remembered.",
    "example": "order-8412-reminder",
}
SCHEDULE_ID: Parameter = {
    "name": "scheduleId",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "pattern": "^sch_[0-7][0-9a-hjkmnp-tv-z]{25}$"},
    "description": "What the create answered.",
    "example": "sch_01jd3v9x8kfw3s9s2m2v2v2v2v",
}
PERIOD = [_FROM, _TO]
OF_SCHEDULES = [*PERIOD, _order("asc"), *_PAGE]
OF_LOGS = [
    _query("status", {"type": "string", "enum": list(Status)}, "Only what stands so."),
    _query("targetUrl", {"type": "string"}, "Only what went to, or waits for, this very URL."),
    *PERIOD,
    _order("desc"),
    *_PAGE,
]
