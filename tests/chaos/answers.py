"""Reads the answers to clients, as the history has them."""

from __future__ import annotations

from typing import Any

import httpx

from tests.chaos.history import Kind


def told(kind: Kind, answer: httpx.Response) -> dict[str, Any]:
    """What an answer says, as the fields of `Answered`."""
    status = answer.status_code
    fields: dict[str, Any] = {"status": status, "error": "", "result": "ok"}
    if status >= 300:
        fields["error"] = answer.text[:300]
        # A 503 that does not speak of an unknown outcome says that nothing was done.
        not_known = status >= 500 and (status != 503 or "Outcome unknown" in answer.text)
        fields["result"] = "unknown" if not_known else "fail"
    else:
        fields |= _answer(kind, answer.json())
    fields["replayed"] = answer.headers.get("idempotency-replayed") == "true"
    return fields


def _answer(kind: Kind, body: dict[str, Any]) -> dict[str, Any]:
    match kind:
        case "create":
            return _made_of([body])
        case "batch":
            return _made_of(body["schedules"])
        case "cancel":
            return {"became": {body["scheduleId"]: body["status"]}}
        case "cancel many":
            each = body["schedules"]
            return {"became": {e["scheduleId"]: e.get("code") or e["status"] for e in each}}
        case "replay":
            became = {body["replayOf"]: body["scheduleId"]}
        case "replay many":
            each = body["schedules"]
            became = {e["replayOf"]: e.get("code") or e["scheduleId"] for e in each}
        case "rotate" | "signing":
            return {"secrets": body["secrets"]}
        case "rule trigger":
            return {"ids": [body["scheduleId"]]}
        case "rule" | "rule read":
            waits = body["scheduleId"]
            return {"ids": [waits] if waits else [], "rule": body["recurringId"]}
        case _:
            return {}
    return {"became": became, "ids": list(became.values())}


def _made_of(items: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "ids": [each.get("scheduleId") or each["code"] for each in items],
        "existing": [place for place, each in enumerate(items) if each.get("existing")],
    }
