"""POST /schedule/batch."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from typing import Any

import httpx
import pytest

from api.limits import MAX_ITEMS
from scheduler.ids import is_schedule_id
from scheduler.models import Plan
from scheduler.settings import Settings
from scheduler.store import Store
from tests.api.conftest import CREDITS, URL, Api, client_of, payload
from tests.apps import app_of

UNPAID = {"code": 402, "error": "Insufficient credits", "details": []}


async def batch(api: Api, items: list[Any], **headers: str) -> httpx.Response:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return await api.client.post("/schedule/batch", json={"schedules": items}, headers=names)


def ids_of(answer: httpx.Response) -> list[str]:
    return [each["scheduleId"] for each in answer.json()["schedules"] if "scheduleId" in each]


async def test_every_item_is_stored_with_one_debit_and_answered_in_order(api: Api) -> None:
    answer = await batch(api, [payload(targetUrl=f"{URL}/{n}") for n in range(5)])
    assert answer.status_code == 200
    items = answer.json()["schedules"]
    for n, item in enumerate(items):
        assert set(item) == {"scheduleId", "invocationId"}
        assert is_schedule_id(item["scheduleId"])
        assert item["invocationId"] == "inv_" + item["scheduleId"].removeprefix("sch_")
        stored = await api.store.schedules.get(api.account_id, item["scheduleId"])
        assert stored.request.url == f"{URL}/{n}"
    assert len(items) == 5
    await api.holds(credits=CREDITS - 5, waiting=set(ids_of(answer)))


async def test_a_bad_item_is_told_what_it_would_be_told_alone_and_keeps_no_other_out(
    api: Api,
) -> None:
    bad = {"targetUrl": "nowhere", "color": "red"}
    answer = await batch(api, [payload(), bad, payload(), 5, None, payload(targetBody=[])])
    items = answer.json()["schedules"]
    assert ["scheduleId" in item for item in items] == [True, False, True, False, False, False]
    alone = (await api.client.post("/schedule", json=bad)).json()
    assert items[1] == {"code": 400, **alone}
    for item in items[3:]:
        assert set(item) == {"code", "error", "details"}
        assert item["code"] == 400
    assert [detail["field"] for detail in items[3]["details"]] == ["body"]
    assert [detail["field"] for detail in items[5]["details"]] == ["targetBody"]
    await api.holds(credits=CREDITS - 2, waiting=set(ids_of(answer)))


async def test_where_the_credits_end_the_rest_is_402(api: Api) -> None:
    poor = await api.store.accounts.create("poor", credits=2, plan=Plan.UNLIMITED)
    _, key = await api.store.api_keys.create(poor.account_id, "test")
    items = [payload(), {}, payload(), payload(), {}, payload()]
    async with client_of(api.app, key) as client:
        answer = await client.post("/schedule/batch", json={"schedules": items})
        again = await client.post("/schedule/batch", json={"schedules": items})
        listed = (await client.get("/schedule")).json()["schedules"]
    assert answer.status_code == again.status_code == 200
    found = answer.json()["schedules"]
    assert [item.get("code") for item in found] == [None, 400, None, 402, 400, 402]
    assert found[3] == found[5] == UNPAID
    assert [item["code"] for item in again.json()["schedules"]] == [402, 400, 402, 402, 400, 402]
    assert {each["scheduleId"] for each in listed} == set(ids_of(answer))
    assert await api.store.accounts.credits(poor.account_id) == 0
    assert await api.store.check() == []


async def test_batches_that_race_for_the_last_credits_spend_each_once(api: Api) -> None:
    answers = await asyncio.gather(*(batch(api, [payload()] * 300) for _ in range(5)))
    stored = [schedule_id for answer in answers for schedule_id in ids_of(answer)]
    assert len(stored) == len(set(stored)) == CREDITS
    assert await api.credits() == 0
    assert await api.store.check() == []


async def test_a_thousand_are_taken_and_one_more_is_a_400(api: Api) -> None:
    answer = await batch(api, [payload()] * MAX_ITEMS)
    assert len(set(ids_of(answer))) == MAX_ITEMS == CREDITS
    assert await api.credits() == 0
    answer = await batch(api, [payload()] * (MAX_ITEMS + 1))
    assert answer.status_code == 400


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        (b"", ["body"]),
        (b"{", ["body"]),
        (b"\xff", ["body"]),
        (b'{"schedules":[{"targetUrl":"\xff"}]}', ["body"]),
        (b"[]", ["body"]),
        (b"{}", ["schedules"]),
        (b'{"schedules":null}', ["schedules"]),
        (b'{"schedules":{}}', ["schedules"]),
        (b'{"schedules":[]}', ["schedules"]),
        (b'{"schedules":[],"more":1}', ["schedules", "more"]),
        (b'{"schedules":' + b"[" * 100_000, ["body"]),
    ],
)
async def test_what_is_no_batch_is_a_400_and_costs_nothing(
    api: Api, body: bytes, fields: list[str]
) -> None:
    answer = await api.client.post("/schedule/batch", content=body)
    assert answer.status_code == 400
    assert [detail["field"] for detail in answer.json()["details"]] == fields
    await api.holds(credits=CREDITS, waiting=set())


async def test_a_batch_may_be_larger_than_a_request_and_has_a_bound_of_its_own(
    settings: Settings, store: Store
) -> None:
    account = await store.accounts.create("bulk", credits=CREDITS, plan=Plan.UNLIMITED)
    _, key = await store.api_keys.create(account.account_id, "test")
    narrow = app_of(Settings(redis_url=settings.redis_url, max_batch_bytes=600_000), store)
    items = [payload(targetBody={"a": "x" * 100_000})] * 5
    async with client_of(narrow, key) as client:
        assert len(ids_of(await client.post("/schedule/batch", json={"schedules": items}))) == 5
        answer = await client.post("/schedule/batch", json={"schedules": items * 2})
    assert answer.status_code == 413
    assert answer.json() == {"error": "The request body is larger than 600,000 bytes"}
    assert await store.accounts.credits(account.account_id) == CREDITS - 5


async def test_an_item_is_bounded_as_a_request_of_its_own_is(
    settings: Settings, store: Store
) -> None:
    account = await store.accounts.create("bulk", credits=CREDITS, plan=Plan.UNLIMITED)
    _, key = await store.api_keys.create(account.account_id, "test")
    narrow = app_of(Settings(redis_url=settings.redis_url, max_body_bytes=1000), store)
    item = json.dumps(payload())
    fits, too_large = (item[:-1] + " " * (size - len(item)) + "}" for size in (1000, 1001))
    not_ascii = item[:-1] + ',"targetHeaders":{"X-A":"' + "é" * 450 + '"}}'
    items = [fits, too_large, item, not_ascii]
    assert len(not_ascii) < 1000 < len(not_ascii.encode())
    async with client_of(narrow, key) as client:
        answer = await client.post(
            "/schedule/batch", content=f'{{"schedules":[{",".join(items)}]}}'
        )
        alone = [(await client.post("/schedule", content=each)).status_code for each in items]
    found = answer.json()["schedules"]
    assert ["scheduleId" in each for each in found] == [True, False, True, False]
    assert alone == [201, 413, 201, 413]
    message = "It is larger than 1,000 bytes."
    assert found[1] == {
        "code": 400,
        "error": f"schedules[1]: {message}",
        "details": [{"field": "schedules[1]", "message": message}],
    }
    assert found[3]["details"][0]["field"] == "schedules[3]"
    assert await store.accounts.credits(account.account_id) == CREDITS - 4


async def test_half_a_surrogate_pair_in_a_batch_goes_out_as_it_came(api: Api) -> None:
    text = r'{"a":"\ud800 \\ud800"}'
    item = json.dumps(payload())[:-1] + f',"targetBody":{text}}}'
    answer = await api.client.post("/schedule/batch", content=f'{{"schedules":[{item}, {item}]}}')
    for schedule_id in ids_of(answer):
        stored = await api.store.schedules.get(api.account_id, schedule_id)
        assert stored.request.body == text.encode()
        shown = await api.client.get(f"/schedule/{schedule_id}")
        assert f'"targetBody":{text}' in shown.text
    assert len(ids_of(answer)) == 2


async def test_a_flood_of_items_or_of_fields_is_refused_before_it_is_read(api: Api) -> None:
    for body, field in (
        (b'{"schedules":[' + b"1," * 1_000_000 + b"1]}", "schedules"),
        (b"{" + b",".join(b'"f%d":1' % n for n in range(200_000)) + b"}", "f0"),
    ):
        tracemalloc.start()
        answer = await api.client.post("/schedule/batch", content=body)
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert answer.status_code == 400
        assert [detail["field"] for detail in answer.json()["details"]] == [field]
        assert peak_bytes < 8 * len(body)


@pytest.mark.parametrize("bad", [{f"f{n}": 1 for n in range(9)}, {}])
async def test_a_flood_of_faults_is_listed_in_part_and_every_item_is_answered(
    api: Api, bad: dict[str, int]
) -> None:
    alone = (await api.client.post("/schedule", json=bad)).json()
    items = (await batch(api, [bad] * 200)).json()["schedules"]
    assert {(item["code"], item["error"]) for item in items} == {(400, alone["error"])}
    assert items[0]["details"] == alone["details"]
    faults = [detail for item in items for detail in item["details"]]
    assert sum(detail["field"] != "…" for detail in faults) == 100
    count = int(alone["error"].partition(" ")[0])
    assert items[-1]["details"] == [{"field": "…", "message": f"and {count} more"}]


async def test_a_batch_counts_as_one_request_against_the_rate(api: Api) -> None:
    free = await api.store.accounts.create("free", credits=CREDITS, plan=Plan.FREE)
    _, key = await api.store.api_keys.create(free.account_id, "test")
    async with client_of(api.app, key) as client:
        answer = await client.post("/schedule/batch", json={"schedules": [payload()] * 500})
    assert len(ids_of(answer)) == 500
    assert answer.headers["ratelimit-remaining"] == "9"


async def test_a_batch_is_replayed_item_by_item(api: Api) -> None:
    items = [payload(), {}, payload()]
    first = await batch(api, items, idempotency_key="b1")
    again = await batch(api, items, idempotency_key="b1")
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    assert (again.status_code, again.json()) == (200, first.json())
    await api.holds(credits=CREDITS - 2, waiting=set(ids_of(first)))


async def test_a_replay_tells_the_402s_of_the_first_time_though_there_are_credits_now(
    api: Api,
) -> None:
    poor = await api.store.accounts.create("poor", credits=2, plan=Plan.UNLIMITED)
    _, key = await api.store.api_keys.create(poor.account_id, "test")
    content, headers = json.dumps({"schedules": [payload()] * 3}), {"idempotency-key": "b"}
    async with client_of(api.app, key) as client:
        first = await client.post("/schedule/batch", content=content, headers=headers)
        await api.store.accounts.grant(poor.account_id, 10)
        again = await client.post("/schedule/batch", content=content, headers=headers)
    assert again.json() == first.json()
    assert first.json()["schedules"][2] == UNPAID
    assert await api.store.accounts.credits(poor.account_id) == 10


async def test_of_a_batch_of_which_nothing_was_stored_nothing_is_remembered(api: Api) -> None:
    answers = [
        await batch(api, [{}], idempotency_key="b"),
        await batch(api, [5], idempotency_key="b"),
    ]
    assert [answer.status_code for answer in answers] == [200, 200]
    stored = await batch(api, [payload()], idempotency_key="b")
    await api.holds(credits=CREDITS - 1, waiting=set(ids_of(stored)))
