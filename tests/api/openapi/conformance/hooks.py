"""What JSON Schema cannot say of a request that is to be accepted.

Schemathesis imports this by name: `schemathesis.toml`. The environment says which schedule has
ended, as no call of the API's own makes one, and which recurring schedules there are.
"""

from __future__ import annotations

import os
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import schemathesis
from hypothesis import strategies as st

_BODIES = ("targetBody", "targetBodyText", "targetBodyBase64")
# The longest there is: an occurrence that is given another time, `_LATEST` at most, expires later.
_RULE = {"cron": "0 9 * * *", "timeZone": "Europe/Berlin", "expiresAfter": "366d"}
_PAUSE = {"paused", "pausedUntil", "pauseNote"}
_SETTINGS = {"rate", "per", "burst", "parallelism", "note", "calmUntil"} | _PAUSE
_NOW = datetime.now(UTC)
_DAY_S = 86_000
_YEAR_S = 31_536_000
_SOONEST = (_NOW - timedelta(seconds=_DAY_S)).isoformat()
_LATEST, _LAST = ((_NOW + timedelta(days=days)).isoformat() for days in (365, 1000))

schemathesis.openapi.format(
    "date-time",
    st.integers(-_DAY_S, _YEAR_S).map(lambda s: (_NOW + timedelta(seconds=s)).isoformat()),
)
schemathesis.openapi.format(
    "uri",
    st.from_regex(r"https?://[a-z]{1,9}\.example(:80)?/([a-z0-9/?=&.~]|%41){0,20}", fullmatch=True),
)


@schemathesis.hook
def before_load_schema(context: Any, raw_schema: dict[str, Any]) -> None:
    """Takes out of which fields one may be given: with that, Schemathesis tries a fifth fewer edges
    of each field. `test_one_of.py` has it, and `before_call` keeps to it."""
    for each in raw_schema["components"]["schemas"].values():
        each.pop("allOf", None)


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Makes the parts of a request go together; of one that is to be refused nothing is touched."""
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    tags = {"If-Match": "*", "If-None-Match": '"0"'}
    for name, value in {"Idempotency-Key": uuid.uuid4().hex, **tags}.items():
        if case.headers and name in case.headers:
            case.headers[name] = value
    if case.operation.definition.raw.get("operationId") in ("replaySchedule", "resendCallback"):
        case.path_parameters["scheduleId"] = os.environ["ENDED_SCHEDULE"]
    if case.operation.definition.raw.get("operationId") in ("changeRecurring", "triggerRecurring"):
        case.path_parameters["recurringId"] = os.environ["KEPT_RULE"]
    _mean_a_rule(case.path_parameters or {}, case.method)
    if case.operation.path == "/recurring/preview":
        case.query = {name: _RULE[name] for name in ("cron", "timeZone")}
    if case.query:
        _make_a_list(case.query)
        if "from" in case.query:
            case.query.setdefault("to", _LAST)  # one that is in the future needs it
    if isinstance(case.body, dict):
        _make_a_body(case.body, case.operation.path, case.path_parameters or {})


def _mean_a_rule(parameters: dict[str, Any], method: str) -> None:
    """Nothing has a random name. A deletion that is repeated is answered as before."""
    if str(parameters.get("recurringId")).startswith("name:"):
        is_deletion = method.upper() == "DELETE"
        parameters["recurringId"] = os.environ["DELETED_RULE" if is_deletion else "KEPT_RULE"]


def _make_a_body(body: dict[str, Any], path: str, parameters: dict[str, Any]) -> None:
    if path.endswith("/pause"):
        _make_a_pause(body)
    elif path.startswith("/recurring"):
        _make_a_rule(body, parameters)
    elif {"ids", "status", "callback"} & set(body):
        _make_a_list(body)
        if path == "/schedule/callback" and "ids" not in body:
            # That of the schedule which has ended is to be sent again by itself.
            body["reference"] = "order-8412"
    elif body:
        for payload in body.get("schedules", [body]):
            _make_valid(payload)


def _make_a_list(filters: dict[str, Any]) -> None:
    filters.pop("cursor", None)  # only one that we gave out is any good
    if filters.get("callback"):
        filters.pop("held", None)  # what is held has not ended
    if filters.get("from") and filters.get("to"):
        filters["from"], filters["to"] = sorted([filters["from"], filters["to"]])


def _mean_one_or_none(payload: dict[str, Any]) -> None:
    """What is done if a schedule waits needs a reference; the longest wait needs a replacement."""
    if payload.get("onExisting"):
        payload["reference"] = "order-8412"
    if payload.get("maxWait") is not None:
        payload["maxWait"] = "1h"
        if payload.get("onExisting") != "replace":
            del payload["maxWait"]


def _say_when_once(payload: dict[str, Any]) -> None:
    """One of two, and not so long that it leads beyond the horizon."""
    if payload.get("triggerAt"):
        payload.pop("delay", None)
    elif payload.get("delay"):
        payload["delay"] = "1h30m"
    elif "targetUrl" in payload:
        payload["triggerAt"] = _LATEST
    else:  # a change, which need not say when
        payload.pop("triggerAt", None)
        payload.pop("delay", None)
        if not payload:
            payload["expiresAt"] = None


def _make_limits(settings: dict[str, Any]) -> None:
    """Settings that go together, also with those that are there already."""
    if {"rate", "per", "burst"} & set(settings):
        settings.update(rate=5, per="1s", burst=2)
    if settings.get("note") is not None:
        settings["note"] = "für B"
    if settings.get("calmUntil") is not None:
        settings["calmUntil"] = None
    _make_a_pause(settings, paused=True)


def _make_a_pause(settings: dict[str, Any], **paused: bool) -> None:
    """`paused`: what an end and a note need."""
    for name, value in (("pausedUntil", _LATEST), ("pauseNote", "für B")):
        if settings.get(name) is not None:
            settings.update({name: value}, **paused)


def _make_a_rule(payload: dict[str, Any], parameters: dict[str, Any]) -> None:
    for name in ("every", "startsAt", "endsAt"):
        payload.pop(name, None)
    payload.update(_RULE)
    _make_a_pause(payload, paused=True)
    _name_a_callback(payload)
    if payload.get("name") is not None:
        payload["name"] = parameters.get("name") or f"r{uuid.uuid4().hex}"
    _make_a_request(payload)


def _make_valid(payload: dict[str, Any]) -> None:
    if "keepFor" in payload:
        payload["keepFor"] = "1h30m"
        return
    _name_a_callback(payload)
    if _SETTINGS & set(payload):
        _make_limits(payload)
        return
    if payload.get("expiresAt"):
        payload["expiresAt"] = _LAST
    # Schemathesis tries what it has found in answers, and not every moment there is a good one.
    if payload.get("triggerAt") and not _SOONEST <= payload["triggerAt"] <= _LATEST:
        payload["triggerAt"] = _LATEST
    _mean_one_or_none(payload)
    _say_when_once(payload)
    _make_a_request(payload)


def _name_a_callback(payload: dict[str, Any]) -> None:
    if payload == {"callbackUrl": "default"}:  # the account may have none
        payload["callbackUrl"] = "https://example.com/ended"
    if payload.get("callbackOn") is not None and payload.get("callbackUrl") is None:
        payload["callbackUrl"] = "https://example.com/ended"


def _make_a_request(payload: dict[str, Any]) -> None:
    if payload.get("retryDelays") is not None:
        payload["retryDelays"] = ["1s", "7d"]
        payload.setdefault("retries", 3)
    if payload.get("timeout") is not None:
        payload["timeout"] = "5s"
    bodies = [name for name in _BODIES if payload.get(name) is not None]
    for name in bodies[1:]:
        del payload[name]
    if payload.get("targetHeaders"):
        # Names that differ only in letter case are one header given twice.
        headers = payload["targetHeaders"].items()
        payload["targetHeaders"] = {name.lower(): value for name, value in headers}
