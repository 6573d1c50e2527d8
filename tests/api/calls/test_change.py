"""PATCH /schedule/{scheduleId}."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from scheduler.masks import MASK
from scheduler.models import Delivery, Outcome, Status
from scheduler.times import parse_iso8601
from tests.api.conftest import CREDITS, NEW_YEAR, URL, YEAR, Api, bad_fields, past
from tests.api.errors import error_of

BEFORE: dict[str, Any] = {
    "targetMethod": "POST",
    "targetHeaders": {"X-Order": "12", "Authorization": "Bearer x"},
    "targetBody": {"a": 1},
    "delivery": "at-most-once",
    "expiresAt": f"{YEAR + 1}-01-01T00:00:00Z",
}


def later(**by: float) -> str:
    return (datetime.now(UTC) + timedelta(**by)).isoformat()


async def change(api: Api, schedule_id: str, fields: Any) -> httpx.Response:
    return await api.client.patch(f"/schedule/{schedule_id}", json=fields)


@pytest.mark.parametrize(
    ("fields", "name", "value"),
    [
        ({"targetUrl": "https://example.com/b"}, "url", "https://example.com/b"),
        ({"triggerAt": NEW_YEAR}, "trigger_at_ms", parse_iso8601(NEW_YEAR)),
        ({"targetMethod": None}, "method", "POST"),
        ({"targetHeaders": {"X-New": "1"}}, "headers", {"X-New": "1"}),
        ({"targetHeaders": None}, "headers", {}),
        ({"targetBody": {"b": [2]}}, "body", b'{"b":[2]}'),
        ({"delivery": None}, "delivery", Delivery.AT_LEAST_ONCE),
        ({"expiresAt": None}, "expires_at_ms", None),
    ],
)
async def test_a_given_field_is_replaced(
    api: Api, fields: dict[str, Any], name: str, value: object
) -> None:
    schedule_id = await api.create_id(**BEFORE)
    before = await api.stored(schedule_id)
    answer = await api.client.patch(
        f"/schedule/{schedule_id}", content=json.dumps(fields, separators=(",", ":"))
    )
    assert answer.status_code == 200, answer.text
    after = await api.stored(schedule_id)
    assert getattr(after, name) == value
    others = [each for each in before.__struct_fields__ if each not in (name, "method_given")]
    assert [getattr(after, each) for each in others] == [getattr(before, each) for each in others]
    assert answer.json() == (await api.client.get(f"/schedule/{schedule_id}")).json()
    await api.holds(credits=CREDITS - 1, waiting={schedule_id})


async def test_a_default_method_follows_the_body_and_a_given_one_stays(api: Api) -> None:
    schedule_id = await api.create_id()
    for fields, method in (
        ({"targetBody": {"a": 1}}, "POST"),
        ({"targetBody": None}, "GET"),
        ({"targetMethod": "GET"}, "GET"),
        ({"targetBody": {"a": 1}}, "GET"),
        ({"targetBody": {}, "targetMethod": None}, "POST"),
        ({"targetBody": None}, "GET"),
    ):
        await change(api, schedule_id, fields)
        assert (await api.stored(schedule_id)).method == method, fields


@pytest.mark.parametrize(
    ("fields", "bad"),
    [
        ({}, ["body"]),
        ({"targetUrl": None, "triggerAt": None}, ["targetUrl", "triggerAt"]),
        ({"triggerAt": "2001-01-01T00:00:00Z"}, ["triggerAt"]),
        ({"expiresAt": "2020-01-01T00:00:00Z"}, ["expiresAt"]),
        ({"targetHeaders": {"Authorization": MASK}}, ["targetHeaders.Authorization"]),
        ([], ["body"]),
    ],
)
async def test_a_bad_change_is_a_400_that_names_all(api: Api, fields: Any, bad: list[str]) -> None:
    schedule_id = await api.create_id(**BEFORE)
    before = await api.stored(schedule_id)
    answer = await change(api, schedule_id, fields)
    assert bad_fields(answer) == bad
    assert await api.stored(schedule_id) == before
    await api.holds(credits=CREDITS - 1, waiting={schedule_id})


SECRETS = {"Authorization": "Bearer x", "X-Order": "12", "X-Auth": "y"}


@pytest.mark.parametrize(
    "url",
    ["https://other.example/hook", "http://example.com/hook", "https://example.com:8443/hook"],
)
async def test_a_new_origin_gets_no_secrets_of_the_one_before(api: Api, url: str) -> None:
    schedule_id = await api.create_id(targetHeaders=SECRETS)
    before = await api.stored(schedule_id)
    answer = await change(api, schedule_id, {"targetUrl": url})
    assert answer.status_code == 400
    fields = [detail["field"] for detail in answer.json()["details"]]
    assert fields == ["targetHeaders.Authorization", "targetHeaders.X-Auth"]
    assert await api.stored(schedule_id) == before

    anew = {"targetUrl": url, "targetHeaders": {"Authorization": "Bearer z"}}
    assert (await change(api, schedule_id, anew)).status_code == 200
    assert (await api.stored(schedule_id)).headers == {"Authorization": "Bearer z"}


@pytest.mark.parametrize(
    ("url", "headers"),
    [
        ("https://EXAMPLE.com:443/other", SECRETS),
        ("https://example.com./x?y", SECRETS),
        ("https://other.example/hook", {"X-Order": "12"}),  # no secret
    ],
)
async def test_the_same_origin_keeps_secrets_and_another_the_rest(
    api: Api, url: str, headers: dict[str, str]
) -> None:
    schedule_id = await api.create_id(targetHeaders=headers)
    assert (await change(api, schedule_id, {"targetUrl": url})).status_code == 200
    assert (await api.stored(schedule_id)).headers == headers


async def test_a_schedule_of_another_days_expiry_must_fit_its_new_time(api: Api) -> None:
    schedule_id = await api.create_id(expiresAt=later(hours=2))
    answer = await change(api, schedule_id, {"triggerAt": later(hours=3)})
    assert answer.status_code == 400
    assert answer.json()["error"] == "triggerAt: It must be before expiresAt."
    both = {"triggerAt": later(hours=3), "expiresAt": later(hours=4)}
    assert (await change(api, schedule_id, both)).status_code == 200


async def test_what_has_ended_is_409_with_its_status(api: Api) -> None:
    schedule_id = await api.create_id(triggerAt=past())
    await api.execute(Outcome(Status.COMPLETED, 200, 1, ""))
    answer = await change(api, schedule_id, {"targetBody": None})
    said = {
        "error": "The schedule is completed already",
        "reason": "already_ended",
        "status": "completed",
    }
    assert (answer.status_code, error_of(answer)) == (409, said)


async def test_what_is_being_executed_is_409_and_stays_as_it_is(api: Api) -> None:
    schedule_id = await api.create_id(triggerAt=past())
    [invocation] = await api.claim()
    answer = await change(api, schedule_id, {"targetUrl": URL + "/new"})
    said = {"error": "Execution has started", "reason": "already_started", "status": "scheduled"}
    assert (answer.status_code, error_of(answer)) == (409, said)
    assert await api.stored(schedule_id) == invocation.request


async def test_changes_that_race_are_applied_one_after_the_other(api: Api) -> None:
    schedule_id = await api.create_id(**BEFORE)
    pairs = [(f"{URL}/{n}", {"n": n}) for n in range(6)]
    changes: list[dict[str, Any]] = [
        *({"targetUrl": url, "targetBody": body} for url, body in pairs),
        {"targetHeaders": {"X-New": "1"}},
        {"delivery": None},
        {"expiresAt": None},
        {"targetMethod": "PUT"},
    ]
    answers = await asyncio.gather(*(change(api, schedule_id, fields) for fields in changes))
    assert [answer.status_code for answer in answers] == [200] * len(changes)
    after = await api.stored(schedule_id)
    assert (after.url, json.loads(after.body or b"")) in pairs
    assert (after.headers, after.delivery) == ({"X-New": "1"}, Delivery.AT_LEAST_ONCE)
    assert (after.expires_at_ms, after.method) == (None, "PUT")
