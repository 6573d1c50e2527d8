"""POST /schedule and DELETE /schedule/{scheduleId}."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import AsyncMock

import pytest

from scheduler.errors import OutcomeUnknown, PostdateError, StoreUnavailable
from scheduler.ids import is_schedule_id
from scheduler.models import Outcome, Status
from tests.api.conftest import CREDITS, YEAR, Api, past, payload
from tests.api.errors import error_of, refusal_of
from tests.api.letters import UNKNOWN


async def test_a_create_answers_201_with_both_ids_and_takes_one_credit(api: Api) -> None:
    answer = await api.create(triggerAt=f"{YEAR}-11-20T10:00:00+01:00")
    assert answer.status_code == 201
    assert answer.headers["content-type"] == "application/json"
    body = answer.json()
    assert set(body) == {"scheduleId", "invocationId", "triggerAt", "message"}
    assert is_schedule_id(body["scheduleId"])
    assert body["invocationId"] == "inv_" + body["scheduleId"].removeprefix("sch_")
    assert body["triggerAt"] == f"{YEAR}-11-20T09:00:00.000Z"
    assert body["message"] == f"Scheduled for {body['triggerAt']}"
    assert await api.credits() == CREDITS - 1


@pytest.mark.parametrize("content_type", ["application/x-www-form-urlencoded", "!"])
async def test_the_body_is_json_whatever_its_type(api: Api, content_type: str) -> None:
    headers = {"content-type": content_type}
    body = json.dumps(payload()).encode()
    answer = await api.client.post("/schedule", content=body, headers=headers)
    assert answer.status_code == 201


async def test_a_bad_payload_is_a_400_that_names_every_field_and_costs_nothing(api: Api) -> None:
    answer = await api.create(targetUrl="nowhere", targetMethod=5, color="red")
    assert answer.status_code == 400
    assert error_of(answer) == {
        "error": "3 fields are not valid: targetUrl, targetMethod, color",
        "reason": "invalid_field",
        "details": [
            {"field": "targetUrl", "message": "It must be an absolute http or https URL."},
            {"field": "targetMethod", "message": "It must be a string."},
            {"field": "color", "message": "There is no such field."},
        ],
    }
    assert await api.credits() == CREDITS


@pytest.mark.parametrize(
    ("body", "field", "error"),
    [
        (payload(targetUrl="http://169.254.169.254/a"), "targetUrl", "Destination not allowed"),
        (b"{", "body", "The request body is not valid JSON"),
        (b"[]", "body", "body: It must be a JSON object."),
    ],
)
async def test_a_bad_field_is_in_the_sentence(api: Api, body: Any, field: str, error: str) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body)
    answer = await api.client.post("/schedule", content=content)
    assert answer.status_code == 400
    assert answer.json()["error"].startswith(error)
    assert [detail["field"] for detail in answer.json()["details"]] == [field]


async def test_256_kib_are_taken_and_a_byte_more_is_413(api: Api) -> None:
    empty = len(json.dumps(payload(targetBody={"a": ""})))
    full = json.dumps(payload(targetBody={"a": "x" * (256 * 1024 - empty)}))
    assert len(full) == 256 * 1024
    assert (await api.client.post("/schedule", content=full)).status_code == 201
    answer = await api.client.post("/schedule", content=full + " ")
    assert refusal_of(answer) == (413, "The request body is larger than 262,144 bytes", "too_large")
    assert await api.credits() == CREDITS - 1


async def test_a_cancel_refunds_and_its_repeat_tells_the_credits_by_then(api: Api) -> None:
    schedule_id = await api.create_id(lane="one", targetBody={"a": 1})
    told = {
        "scheduleId": schedule_id,
        "status": "cancelled",
        "creditsRemaining": CREDITS,
        "message": "Cancelled before execution; one credit was refunded",
    }
    answer = await api.client.delete(f"/schedule/{schedule_id}")
    assert (answer.status_code, answer.json()) == (200, told)
    kept, other = await api.read(schedule_id), await api.create_id()
    assert (kept["status"], kept["lane"], kept["targetBody"]) == ("cancelled", "one", None)
    for _ in range(2):
        again = await api.client.delete(f"/schedule/{schedule_id}")
        assert (again.status_code, again.json()) == (200, told | {"creditsRemaining": CREDITS - 1})
    await api.holds(credits=CREDITS - 1, waiting={other})


async def test_what_has_ended_or_is_being_executed_cannot_be_cancelled(api: Api) -> None:
    completed = await api.create_id(triggerAt=past())
    await api.execute(Outcome(Status.COMPLETED, 200, 1, ""))
    held = await api.create_id(triggerAt=past())
    await api.claim()
    for schedule_id, error, reason, status in (
        (completed, "The schedule is completed already", "already_ended", "completed"),
        (held, "Execution has started", "already_started", "scheduled"),
    ):
        answer = await api.client.delete(f"/schedule/{schedule_id}")
        assert refusal_of(answer) == (409, error, reason, status)
    await api.holds(credits=CREDITS - 2, waiting={held})


LOST, REPEAT = OutcomeUnknown("x"), "Outcome unknown; repeat the request"
REPEAT_CREATE = "Outcome unknown; repeat with the same Idempotency-Key"


@pytest.mark.parametrize(
    ("error", "call", "asked", "sentence"),
    [
        (
            StoreUnavailable("redis://secret:6379 is full"),
            ("schedules", "create_all"),
            ("POST", "", payload()),
            "The service is temporarily unavailable",
        ),
        (LOST, ("schedules", "create_all"), ("POST", "", payload()), REPEAT_CREATE),
        (LOST, ("canceller", "by_id"), ("POST", "/cancel", {"ids": ["x"]}), REPEAT),
        (LOST, ("canceller", "cancel"), ("DELETE", f"/{UNKNOWN}", None), REPEAT),
        (
            OutcomeUnknown("x"),
            ("callbacks", "resend"),
            ("POST", f"/{UNKNOWN}/callback", {}),
            REPEAT,
        ),
    ],
    ids=["away", "create", "cancel many", "cancel", "callback"],
)
async def test_a_store_that_fails_is_503_and_says_what_to_repeat(
    api: Api,
    monkeypatch: pytest.MonkeyPatch,
    error: PostdateError,
    call: tuple[str, str],
    asked: tuple[str, str, Any],
    sentence: str,
) -> None:
    room, name = call
    monkeypatch.setattr(getattr(api.store, room), name, AsyncMock(side_effect=error))
    method, path, body = asked
    answer = await api.client.request(method, f"/schedule{path}", json=body)
    assert refusal_of(answer) == (503, sentence, error.reason)
    assert int(answer.headers["retry-after"]) >= 1


async def test_our_own_fault_is_a_500_that_leaks_nothing(
    api: Api, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        api.store.schedules, "create_all", AsyncMock(side_effect=RuntimeError("secret detail"))
    )
    answer = await api.create()
    assert refusal_of(answer) == (500, "Internal server error", "internal_error")
    logged = "".join(capfd.readouterr())
    assert "RuntimeError: secret detail" in logged
    assert answer.headers["postdate-request-id"] in logged
    assert api.key not in logged
