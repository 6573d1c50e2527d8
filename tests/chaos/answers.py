"""Reads the answers to clients, as the history has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx

from tests.chaos.history import Kind, Seen


def told(kind: Kind, answer: httpx.Response, *, by_door: bool = False) -> dict[str, Any]:
    """What an answer says, as the fields of `Answered`."""
    status, read = answer.status_code, _FIELDS_OF_DOOR if by_door else _FIELDS
    fields: dict[str, Any] = {"status": status, "error": "", "result": "ok"}
    fields["replayed"] = answer.headers.get("idempotency-replayed") == "true"
    if status >= 300:
        fields["error"] = answer.text[:300]
        # A 503 that does not speak of an unknown outcome says that nothing was done.
        not_known = status >= 500 and (status != 503 or "Outcome unknown" in answer.text)
        fields["result"] = "unknown" if not_known else "fail"
    elif kind in read:
        fields |= read[kind](answer.json())
    return fields


def _cancelled(items: list[dict[str, Any]]) -> dict[str, Any]:
    """What became of each: its status, or the code of its refusal."""
    return {"became": {each["scheduleId"]: each.get("code") or each["status"] for each in items}}


def _replayed(items: list[dict[str, Any]]) -> dict[str, Any]:
    became = {each["replayOf"]: each.get("code") or each["scheduleId"] for each in items}
    return {"became": became, "ids": list(became.values())}


def _made_of(items: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "ids": [each.get("scheduleId") or each["code"] for each in items],
        "existing": [place for place, each in enumerate(items) if each.get("existing")],
    }


def _rule(body: dict[str, Any]) -> dict[str, Any]:
    waits = body["scheduleId"]
    return {"ids": [waits] if waits else [], "rule": body["recurringId"]}


def _messages(items: list[dict[str, Any]]) -> dict[str, Any]:
    repeated = [each for each in items if each.get("deduplicated")]
    return {"ids": [_schedule_id(each) for each in items], "replayed": bool(repeated)}


def _schedule_id(message: dict[str, Any]) -> str:
    """The schedule that a message of the QStash door is."""
    return "sch_" + str(message["messageId"]).removeprefix("msg_")


_FIELDS: dict[Kind, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "create": lambda body: _made_of([body]),
    "batch": lambda body: _made_of(body["schedules"]),
    "cancel": lambda body: _cancelled([body]),
    "cancel many": lambda body: _cancelled(body["schedules"]),
    "replay": lambda body: _replayed([body]),
    "replay many": lambda body: _replayed(body["schedules"]),
    "read": lambda body: {"seen": Seen(body["status"], body["executedAt"], body["callback"])},
    "lane": lambda body: {"calm_until": body.get("calmUntil")},  # an account has none
    "rotate": lambda body: {"secrets": body["secrets"]},
    "signing": lambda body: {"secrets": body["secrets"]},
    "rule trigger": lambda body: {"ids": [body["scheduleId"]]},
    "rule": _rule,
    "rule read": _rule,
}
# A cancel of none had come too late: its message goes on.
_FIELDS_OF_DOOR: dict[Kind, Callable[[Any], dict[str, Any]]] = {
    "create": lambda body: _messages([body]),
    "batch": _messages,
    "cancel": lambda body: {"result": "ok" if body["cancelled"] else "fail"},
    "replay many": lambda body: _messages(body["responses"]),
    "keys": lambda body: {"keys": (body["current"], body["next"])},
    "rotate keys": lambda body: {"keys": (body["current"], body["next"])},
    "rule": lambda body: {"rule": body["scheduleId"]},
}
