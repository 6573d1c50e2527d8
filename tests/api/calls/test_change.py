"""PATCH /schedule/{scheduleId}. What a change makes of a request: test_fields.py."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx

from scheduler.models import Delivery, Outcome, Status
from tests.api.conftest import CREDITS, NEW_YEAR, URL, YEAR, Api, bad_fields, past
from tests.api.errors import refusal_of

BEFORE: dict[str, Any] = {
    "targetMethod": "POST",
    "targetHeaders": {"X-Order": "12", "Authorization": "Bearer x"},
    "targetBody": {"a": 1},
    "delivery": "at-most-once",
    "expiresAt": f"{YEAR + 1}-01-01T00:00:00Z",
}


async def change(api: Api, schedule_id: str, fields: Any) -> httpx.Response:
    return await api.client.patch(f"/schedule/{schedule_id}", json=fields)


async def test_a_change_is_stored_and_answered_with_all_else_as_it_was(api: Api) -> None:
    schedule_id = await api.create_id(**BEFORE)
    before, stored = await api.read(schedule_id), await api.stored(schedule_id)
    given = {"targetUrl": f"{URL}/b", "triggerAt": NEW_YEAR, "targetBody": {"b": [2]}}
    answer = await change(api, schedule_id, given | {"expiresAt": None})
    assert (answer.status_code, answer.json()) == (200, before | given | {"expiresAt": None})
    assert await api.read(schedule_id) == answer.json()
    assert (await api.stored(schedule_id)).headers == stored.headers
    await api.holds(credits=CREDITS - 1, waiting={schedule_id})


async def test_a_bad_change_is_a_400_that_names_all_and_changes_nothing(api: Api) -> None:
    schedule_id = await api.create_id(**BEFORE)
    before = await api.stored(schedule_id)
    for fields, bad in (
        ({"targetUrl": None, "triggerAt": "2001-01-01T00:00:00Z"}, ["targetUrl", "triggerAt"]),
        ({"triggerAt": f"{YEAR + 1}-01-01T00:00:01Z"}, ["triggerAt"]),  # beyond expiresAt
    ):
        assert bad_fields(await change(api, schedule_id, fields)) == bad
    assert await api.stored(schedule_id) == before
    await api.holds(credits=CREDITS - 1, waiting={schedule_id})


async def test_what_has_ended_or_is_being_executed_is_409_and_stays_as_it_is(api: Api) -> None:
    completed = await api.create_id(triggerAt=past())
    await api.execute(Outcome(Status.COMPLETED, 200, 1, ""))
    held = await api.create_id(triggerAt=past())
    [invocation] = await api.claim()
    for schedule_id, error, reason, status in (
        (completed, "The schedule is completed already", "already_ended", "completed"),
        (held, "Execution has started", "already_started", "scheduled"),
    ):
        for url in (URL + "/new", URL):  # also if nothing would change
            answer = await change(api, schedule_id, {"targetUrl": url})
            assert refusal_of(answer) == (409, error, reason, status)
    assert await api.stored(held) == invocation.request


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
