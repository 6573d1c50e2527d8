"""POST /schedule and DELETE /schedule/{scheduleId}."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from scheduler.errors import Conflict, OutcomeUnknown, StoreUnavailable
from scheduler.ids import is_schedule_id, new_schedule_ids
from scheduler.models import Plan, Request, Status
from tests.api.conftest import CREDITS, URL, Api, client_of, payload


async def test_a_create_answers_201_with_both_ids_and_takes_one_credit(api: Api) -> None:
    answer = await api.create(triggerAt="2026-11-20T10:00:00+01:00".replace("2026", _next_year()))
    assert answer.status_code == 201
    assert answer.headers["content-type"] == "application/json"
    body = answer.json()
    assert set(body) == {"scheduleId", "invocationId", "message"}
    assert is_schedule_id(body["scheduleId"])
    assert body["invocationId"] == "inv_" + body["scheduleId"].removeprefix("sch_")
    assert body["message"] == f"Scheduled for {_next_year()}-11-20T09:00:00.000Z"
    assert await api.credits() == CREDITS - 1


async def test_what_is_stored_is_what_was_sent(api: Api) -> None:
    text = (
        f'{{"targetUrl":"{URL}","targetMethod":"put","targetHeaders":{{"X-A":"é"}},'
        f'"targetBody":{{"n": 1.0, "m": 1e400}},"triggerAt":"{payload()["triggerAt"]}"}}'
    )
    answer = await api.client.post(
        "/schedule", content=text.encode(), headers={"content-type": "application/json"}
    )
    schedule = await api.store.schedules.get(api.account.account_id, answer.json()["scheduleId"])
    request = schedule.request
    assert (request.method, request.url, request.headers) == ("PUT", URL, {"X-A": "é"})
    assert request.body == b'{"n": 1.0, "m": 1e400}'


@pytest.mark.parametrize(
    "content_type",
    [None, "application/json", "application/x-www-form-urlencoded", "multipart/form-data", "!"],
)
async def test_the_body_is_json_whatever_it_claims_to_be(
    api: Api, content_type: str | None
) -> None:
    headers = {} if content_type is None else {"content-type": content_type}
    body = json.dumps(payload()).encode()
    answer = await api.client.post("/schedule", content=body, headers=headers)
    assert answer.status_code == 201


async def test_a_bad_payload_is_a_400_that_names_every_field_and_costs_nothing(api: Api) -> None:
    answer = await api.create(targetUrl="nowhere", targetMethod=5, color="red")
    assert answer.status_code == 400
    assert answer.json() == {
        "error": "3 fields are not valid: targetUrl, targetMethod, color",
        "details": [
            {"field": "targetUrl", "message": "It must be an absolute http or https URL."},
            {"field": "targetMethod", "message": "It must be a string."},
            {"field": "color", "message": "There is no such field."},
        ],
    }
    assert await api.credits() == CREDITS


async def test_one_bad_field_is_told_in_the_sentence(api: Api) -> None:
    answer = await api.create(triggerAt="soon")
    message = "It must be an ISO 8601 timestamp such as 2026-11-20T08:00:00.000Z."
    assert answer.json() == {
        "error": f"triggerAt: {message}",
        "details": [{"field": "triggerAt", "message": message}],
    }


async def test_a_destination_that_may_not_be_reached_is_a_400(api: Api) -> None:
    answer = await api.create(targetUrl="http://169.254.169.254/latest/")
    assert answer.status_code == 400
    assert answer.json()["error"] == "Destination not allowed"
    assert [detail["field"] for detail in answer.json()["details"]] == ["targetUrl"]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"NaN", b"\xff", b"[" * 100_000])
async def test_malformed_json_is_a_400_in_the_same_shape(api: Api, body: bytes) -> None:
    answer = await api.client.post("/schedule", content=body)
    assert answer.status_code == 400
    assert [detail["field"] for detail in answer.json()["details"]] == ["body"]
    assert answer.json()["error"]


async def test_256_kib_are_taken_and_a_byte_more_is_413(api: Api) -> None:
    empty = len(json.dumps(payload(targetBody={"a": ""})))
    full = json.dumps(payload(targetBody={"a": "x" * (256 * 1024 - empty)}))
    assert len(full) == 256 * 1024
    assert (await api.client.post("/schedule", content=full)).status_code == 201
    answer = await api.client.post("/schedule", content=full + " ")
    assert answer.status_code == 413
    assert answer.json() == {"error": "The request body is larger than 262,144 bytes"}
    assert await api.credits() == CREDITS - 1


async def test_an_account_that_cannot_pay_is_402(api: Api) -> None:
    poor = await api.store.accounts.create("poor", credits=1, plan=Plan.FREE)
    _, key = await api.store.api_keys.create(poor.account_id, "test")
    async with client_of(api.app, key) as client:
        assert (await client.post("/schedule", json=payload())).status_code == 201
        answer = await client.post("/schedule", json=payload())
    assert answer.status_code == 402
    assert answer.json() == {"error": "Insufficient credits"}
    assert await api.store.accounts.credits(poor.account_id) == 0


async def test_credits_never_fall_below_zero_under_200_parallel_creates(api: Api) -> None:
    poor = await api.store.accounts.create("poor", credits=50, plan=Plan.UNLIMITED)
    _, key = await api.store.api_keys.create(poor.account_id, "test")
    async with client_of(api.app, key) as client:
        answers = await asyncio.gather(
            *(client.post("/schedule", json=payload()) for _ in range(200))
        )
    codes = [answer.status_code for answer in answers]
    assert (codes.count(201), codes.count(402)) == (50, 150)
    assert await api.store.accounts.credits(poor.account_id) == 0


async def test_a_cancel_refunds_and_says_what_is_left(api: Api) -> None:
    schedule_id = (await api.create()).json()["scheduleId"]
    answer = await api.client.delete(f"/schedule/{schedule_id}")
    assert answer.status_code == 200
    assert answer.json() == {
        "scheduleId": schedule_id,
        "status": "cancelled",
        "creditsRemaining": CREDITS,
        "message": "Cancelled before execution; one credit was refunded",
    }
    assert await api.credits() == CREDITS


async def test_a_second_cancel_refunds_nothing(api: Api) -> None:
    schedule_id = (await api.create()).json()["scheduleId"]
    await api.client.delete(f"/schedule/{schedule_id}")
    answer = await api.client.delete(f"/schedule/{schedule_id}")
    assert answer.status_code == 409
    assert answer.json() == {
        "error": "The schedule is cancelled already",
        "status": "cancelled",
    }
    assert await api.credits() == CREDITS


async def test_what_is_being_executed_cannot_be_cancelled(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def held(*_: object) -> int:
        raise Conflict("Execution has started", Status.SCHEDULED)

    monkeypatch.setattr(api.store.canceller, "cancel", held)
    answer = await api.client.delete(f"/schedule/{new_schedule_ids(1, 0)[0]}")
    assert answer.status_code == 409
    assert answer.json() == {"error": "Execution has started", "status": "scheduled"}


@pytest.mark.parametrize("schedule_id", ["sch_", "x", "sch_01jd3v9x8kfw3s9s2m2v2v2v2v", "%00", "é"])
async def test_an_unknown_schedule_is_404(api: Api, schedule_id: str) -> None:
    answer = await api.client.delete(f"/schedule/{schedule_id}")
    assert answer.status_code == 404
    assert answer.json() == {"error": "There is no such schedule"}


async def test_the_schedule_of_another_account_is_404_and_stays(api: Api) -> None:
    other = await api.store.accounts.create("other", credits=5, plan=Plan.FREE)
    due_ms = api.store.clock.now_ms() + 3_600_000
    schedule_id = await api.store.schedules.create(other.account_id, Request(due_ms, "GET", URL))
    answer = await api.client.delete(f"/schedule/{schedule_id}")
    assert answer.status_code == 404
    assert answer.json() == {"error": "There is no such schedule"}
    schedule = await api.store.schedules.get(other.account_id, schedule_id)
    assert schedule.status is Status.SCHEDULED


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (StoreUnavailable("redis://secret:6379 is full"), "The service is temporarily unavailable"),
        (OutcomeUnknown("x"), "Outcome unknown; repeat with the same Idempotency-Key"),
    ],
)
async def test_a_store_that_fails_a_create_is_503_with_retry_after(
    api: Api, monkeypatch: pytest.MonkeyPatch, error: Exception, sentence: str
) -> None:
    monkeypatch.setattr(api.store.schedules, "create_all", _raising(error))
    answer = await api.create()
    assert answer.status_code == 503
    assert answer.json() == {"error": sentence}
    assert int(answer.headers["retry-after"]) >= 1


async def test_our_own_fault_is_a_500_that_leaks_nothing(
    api: Api, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(api.store.schedules, "create_all", _raising(RuntimeError("secret detail")))
    answer = await api.create()
    assert answer.status_code == 500
    assert answer.json() == {"error": "Internal server error"}
    logged = "".join(capfd.readouterr())
    assert "RuntimeError: secret detail" in logged
    assert api.key not in logged


def _raising(error: Exception) -> Any:
    async def fail(*_: object) -> str:
        raise error

    return fail


def _next_year() -> str:
    return str(int(payload()["triggerAt"][:4]) + 1)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
field_names = st.sampled_from(
    ["targetUrl", "triggerAt", "targetMethod", "targetHeaders", "targetBody", "expiresAt"]
)
# Small changes to a valid payload, and bytes that are anything.
bodies = st.dictionaries(field_names | st.text(), json_values, max_size=3).map(
    lambda changes: json.dumps(payload(**changes)).encode()
) | st.binary(max_size=100)


@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=bodies)
async def test_no_body_is_a_5xx_or_costs_a_credit_without_a_201(api: Api, body: bytes) -> None:
    before = await api.credits()
    if before < CREDITS // 2:
        await api.store.accounts.grant(api.account.account_id, CREDITS)
        before += CREDITS
    answer = await api.client.post("/schedule", content=body)
    assert answer.status_code in (201, 400)
    assert await api.credits() == before - (answer.status_code == 201)
    assert_well_formed(answer)


def assert_well_formed(answer: httpx.Response) -> None:
    body = answer.json()
    if answer.status_code == 201:
        assert set(body) == {"scheduleId", "invocationId", "message"}
        return
    assert set(body) == {"error", "details"}
    assert body["error"]
    assert body["details"]
    for detail in body["details"]:
        assert set(detail) == {"field", "message"}
        assert detail["message"]
