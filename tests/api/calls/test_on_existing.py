"""`onExisting` and `maxWait` over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.conftest import Api, payload

KEEP, REPLACE = ({"reference": "order-1", "onExisting": way} for way in ("keep", "replace"))


@pytest.mark.parametrize("fields", [KEEP, REPLACE, {**REPLACE, "maxWait": "1h"}])
async def test_the_first_is_created_and_the_next_exists(api: Api, fields: dict[str, Any]) -> None:
    first = await api.create(**fields)
    assert first.status_code == 201
    assert "existing" not in first.json()
    schedule_id = first.json()["scheduleId"]
    again = await api.create(**fields, targetBody={"n": 2})
    assert again.status_code == 200
    found = await api.read(schedule_id)
    assert again.json() == {
        "scheduleId": schedule_id,
        "invocationId": first.json()["invocationId"],
        "triggerAt": found["triggerAt"],
        "existing": True,
    }
    assert found["targetBody"] == ({"n": 2} if fields["onExisting"] == "replace" else None)
    await api.holds(credits=999, waiting={schedule_id})


async def test_several_that_wait_are_a_conflict(api: Api) -> None:
    names = {await api.create_id(reference="order-1") for _ in range(2)}
    answer = await api.create(**REPLACE)
    assert answer.status_code == 409
    body = answer.json()
    assert (body["reason"], body["status"]) == ("several_waiting", "scheduled")
    assert body["error"] == "2 schedules wait with this reference; onExisting needs one at most"
    await api.holds(credits=998, waiting=names)


async def test_in_a_batch_the_later_meets_the_earlier(api: Api) -> None:
    replacing = payload(**REPLACE)
    items = [
        replacing,
        replacing | {"targetBody": {"n": 2}},
        payload(onExisting="keep"),
        payload(reference="two"),
        payload(reference="two"),
        payload(reference="two", onExisting="keep"),
    ]
    key = {"Idempotency-Key": "batch"}
    answers = [
        await api.client.post("/schedule/batch", json={"schedules": items}, headers=key)
        for _ in range(2)
    ]
    assert answers[0].json() == answers[1].json()
    first, second, bad, third, fourth, last = answers[0].json()["schedules"]
    assert second == {**first, "existing": True}
    assert (bad["code"], bad["details"][0]["field"]) == (400, "onExisting")
    assert (last["code"], last["reason"]) == (409, "several_waiting")
    names = {each["scheduleId"] for each in (first, third, fourth)}
    await api.holds(credits=997, waiting=names)
