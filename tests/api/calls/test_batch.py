"""POST /schedule/batch."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from typing import Any

import httpx
import pytest

from api.calls.batch import _judged
from api.limits import MAX_ITEMS
from api.schema.rules import Rules
from scheduler.ids import is_schedule_id
from scheduler.models import Plan
from scheduler.runtime import pause
from scheduler.runtime.settings import Settings
from scheduler.target.destinations import Destinations
from scheduler.times import format_iso8601
from tests.api.conftest import CREDITS, URL, Api, bad_fields, payload
from tests.api.errors import error_of, refusal_of
from tests.support.apps import app_of

UNPAID = {
    "code": 402,
    "error": "Insufficient credits",
    "reason": "insufficient_credits",
    "details": [],
}


async def batch(api: Api, items: list[Any]) -> httpx.Response:
    return await api.client.post("/schedule/batch", json={"schedules": items})


def ids_of(answer: httpx.Response) -> list[str]:
    return [each["scheduleId"] for each in answer.json()["schedules"] if "scheduleId" in each]


async def test_every_item_is_stored_with_one_debit_and_answered_in_order(api: Api) -> None:
    when: list[dict[str, Any]] = [{}] * 4 + [{"triggerAt": None, "delay": "1h"}]
    answer = await batch(api, [payload(targetUrl=f"{URL}/{n}", **when[n]) for n in range(5)])
    assert answer.status_code == 200
    items = answer.json()["schedules"]
    for n, item in enumerate(items):
        assert set(item) == {"scheduleId", "invocationId", "triggerAt"}
        assert is_schedule_id(item["scheduleId"])
        assert item["invocationId"] == "inv_" + item["scheduleId"].removeprefix("sch_")
        stored = await api.stored(item["scheduleId"])
        assert (stored.url, format_iso8601(stored.trigger_at_ms)) == (
            f"{URL}/{n}",
            item["triggerAt"],
        )
    assert len(items) == 5
    await api.holds(credits=CREDITS - 5, waiting=set(ids_of(answer)))


async def test_a_bad_item_gets_the_answer_of_a_create_and_stops_no_other(api: Api) -> None:
    bad = {"targetUrl": "nowhere", "color": "red"}
    answer = await batch(api, [payload(), bad, payload(), 5, None, payload(targetBody=[])])
    items = answer.json()["schedules"]
    alone = error_of(await api.client.post("/schedule", json=bad))
    assert [item.get("code") for item in items] == [None, 400, None, 400, 400, 400]
    assert items[1] == {"code": 400, **alone}
    assert set(items[3]) == {"code", "error", "reason", "details"}
    assert [items[n]["details"][0]["field"] for n in (3, 4, 5)] == ["body", "body", "targetBody"]
    await api.holds(credits=CREDITS - 2, waiting=set(ids_of(answer)))


async def test_where_the_credits_end_the_rest_is_402(api: Api) -> None:
    items = [payload(), {}, payload(), payload(), {}, payload()]
    async with api.another(credits=2) as poor:
        answer, again = [await batch(poor, items) for _ in range(2)]
        assert answer.status_code == again.status_code == 200
        found = answer.json()["schedules"]
        assert [item.get("code") for item in found] == [None, 400, None, 402, 400, 402]
        assert found[3] == found[5] == UNPAID
        codes = [item["code"] for item in again.json()["schedules"]]
        assert codes == [402, 400, 402, 402, 400, 402]
        await poor.holds(credits=0, waiting=set(ids_of(answer)))


async def test_a_thousand_are_taken_and_one_more_is_a_400(api: Api) -> None:
    answer = await batch(api, [payload()] * MAX_ITEMS)
    assert len(set(ids_of(answer))) == MAX_ITEMS == CREDITS
    assert await api.credits() == 0
    answer = await batch(api, [payload()] * (MAX_ITEMS + 1))
    assert answer.status_code == 400


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        (b"{", ["body"]),
        (b'{"schedules":[{"targetUrl":"\xff"}]}', ["body"]),
        (b"{}", ["schedules"]),
        (b'{"schedules":{}}', ["schedules"]),
        (b'{"schedules":[],"more":1}', ["schedules", "more"]),
        (b'{"schedules":' + b"[" * 100_000, ["body"]),
    ],
)
async def test_no_batch_is_400_and_costs_nothing(api: Api, body: bytes, fields: list[str]) -> None:
    answer = await api.client.post("/schedule/batch", content=body)
    assert bad_fields(answer) == fields
    await api.holds(credits=CREDITS, waiting=set())


async def test_a_batch_has_a_larger_bound_than_a_create(api: Api, settings: Settings) -> None:
    narrow = app_of(Settings(redis_url=settings.redis_url, max_batch_bytes=600_000), api.store)
    items = [payload(targetBody={"a": "x" * 100_000})] * 5
    async with api.another(CREDITS, app=narrow) as bulk:
        assert len(ids_of(await batch(bulk, items))) == 5
        answer = await batch(bulk, items * 2)
        assert await bulk.credits() == CREDITS - 5
    assert refusal_of(answer) == (413, "The request body is larger than 600,000 bytes", "too_large")


async def test_an_item_is_bounded_as_a_request_of_its_own_is(api: Api, settings: Settings) -> None:
    narrow = app_of(Settings(redis_url=settings.redis_url, max_body_bytes=1000), api.store)
    item = json.dumps(payload())
    fits, too_large = (item[:-1] + " " * (size - len(item)) + "}" for size in (1000, 1001))
    items = [fits, too_large, item]
    content = f'{{"schedules":[{",".join(items)}]}}'
    async with api.another(CREDITS, app=narrow) as bulk:
        answer = await bulk.client.post("/schedule/batch", content=content)
        assert await bulk.credits() == CREDITS - 2
    found = answer.json()["schedules"]
    assert [each.get("code") for each in found] == [None, 400, None]
    message = "It is larger than 1,000 bytes."
    assert found[1] == {
        "code": 400,
        "error": f"schedules[1]: {message}",
        "reason": "invalid_field",
        "details": [{"field": "schedules[1]", "message": message}],
    }


async def test_a_flood_of_items_or_of_fields_is_refused_before_it_is_read(api: Api) -> None:
    for body, field in (
        (b'{"schedules":[' + b"1," * 1_000_000 + b"1]}", "schedules"),
        (b"{" + b",".join(b'"f%d":1' % n for n in range(200_000)) + b"}", "f0"),
    ):
        tracemalloc.start()
        answer = await api.client.post("/schedule/batch", content=body)
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert bad_fields(answer) == [field]
        assert peak_bytes < 8 * len(body)


@pytest.mark.parametrize("bad", [{f"f{n}": 1 for n in range(9)}, {}])
async def test_a_flood_of_faults_is_listed_in_part(api: Api, bad: dict[str, int]) -> None:
    alone = (await api.client.post("/schedule", json=bad)).json()
    items = (await batch(api, [bad] * 200)).json()["schedules"]
    assert {(item["code"], item["error"]) for item in items} == {(400, alone["error"])}
    assert items[0]["details"] == alone["details"]
    faults = [detail for item in items for detail in item["details"]]
    assert sum(detail["field"] != "…" for detail in faults) == 100
    count = int(alone["error"].partition(" ")[0])
    assert items[-1]["details"] == [{"field": "…", "message": f"and {count} more"}]


FINE = b'{"targetUrl":"https://example.com","delay":"1h"}'


@pytest.mark.parametrize(("item", "at_once"), [(b"{}", 1), (FINE, 32)])
async def test_others_have_their_turn_while_small_items_are_judged(
    monkeypatch: pytest.MonkeyPatch, item: bytes, at_once: int
) -> None:
    """As often as a piece is over; here with each item, or some that are alike."""
    monkeypatch.setattr(pause, "PIECE_S", 0.0)
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await _judged([item] * MAX_ITEMS, Rules(Destinations(), 1), 0)
    task.cancel()
    assert turns >= MAX_ITEMS // at_once


async def test_a_batch_counts_as_one_request_against_the_rate(api: Api) -> None:
    async with api.another(CREDITS, Plan.FREE) as free:
        answer = await batch(free, [payload()] * 500)
    assert len(ids_of(answer)) == 500
    assert answer.headers["ratelimit-remaining"] == "9"
