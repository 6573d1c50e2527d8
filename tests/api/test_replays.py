"""POST /schedule/{scheduleId}/replay and POST /schedule/replay."""

from __future__ import annotations

import asyncio
import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import msgspec
import pytest

from api.masks import MASK
from api.payload import Change
from scheduler import ids
from scheduler.models import Plan, Request, Schedule, Status
from tests.api.conftest import CREDITS, URL, Api, client_of, past
from tests.api.letters import BROKEN, FINE, UNKNOWN, fail, failed
from tests.api.test_replay import slow

FAR = "2030-01-01T00:00:00Z"


async def replay(
    api: Api, schedule_id: str, fields: Any = None, key: str | None = None
) -> httpx.Response:
    content = b"" if fields is None else json.dumps(fields)
    headers = {} if key is None else {"idempotency-key": key}
    path = f"/schedule/{schedule_id}/replay"
    return await api.client.post(path, content=content, headers=headers)


async def replay_many(api: Api, body: Any, key: str | None = None) -> httpx.Response:
    headers = {} if key is None else {"idempotency-key": key}
    return await api.client.post("/schedule/replay", json=body, headers=headers)


async def stored(api: Api, schedule_id: str) -> Schedule:
    return await api.store.schedules.get(api.account_id, schedule_id)


def later(**by: float) -> str:
    return (datetime.now(UTC) + timedelta(**by)).isoformat()


async def test_a_replay_is_a_new_schedule_due_now(api: Api) -> None:
    [original] = await fail(api)
    answer = await replay(api, original)
    assert answer.status_code == 201
    body = answer.json()
    new = body["scheduleId"]
    assert body == {
        "scheduleId": new,
        "invocationId": "inv_" + new[4:],
        "message": body["message"],
        "replayOf": original,
    }
    read = (await api.client.get(f"/schedule/{new}")).json()
    assert (read["status"], read["replayOf"]) == ("scheduled", original)
    assert body["message"] == f"Scheduled for {read['triggerAt']}"
    due_in = datetime.fromisoformat(read["triggerAt"]) - datetime.now(UTC)
    assert abs(due_in) < timedelta(seconds=30)
    before = (await api.client.get(f"/schedule/{original}")).json()
    assert (before["status"], before["replayedAs"]) == ("failed", new)
    assert await failed(api) == []
    await api.holds(credits=CREDITS - 2, waiting={new})


async def test_it_is_created_at_the_moment_that_its_trigger_at_counts_from(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = await fail(api, 3)
    slow(api.store, monkeypatch).step_ms = 7
    made = [
        (await replay(api, first)).json(),
        (await replay(api, first, {"delay": "10s"})).json(),
        *(await replay_many(api, {"ids": [second]})).json()["schedules"],
        *(await replay_many(api, {"status": "failed"})).json()["schedules"],
    ]
    assert [each["replayOf"] for each in made] == [first, first, second, third]
    found = [await stored(api, each["scheduleId"]) for each in made]
    ahead_ms = [each.request.trigger_at_ms - each.created_at_ms for each in found]
    assert ahead_ms == [0, 10_000, 0, 0]


@pytest.mark.parametrize(
    "body",
    [
        {"targetBody": {"b": 1.50, "a": "\u00e9", "deep": [None, {"x": 1e400}]}},
        {"targetBodyText": "plain \x00 text\r\n\u2028"},
        {"targetBodyBase64": base64.b64encode(bytes(range(256)) * 9).decode()},
        {"targetBodyText": ""},
        {},
    ],
)
async def test_nothing_of_the_request_is_lost(api: Api, body: dict[str, Any]) -> None:
    """Byte for byte, as the worker would get it."""
    fields = {
        "targetUrl": "https://example.com/a%20b?key=secret&x=1#",
        "targetHeaders": {"X-B": "2", "Authorization": "Bearer secret", "x-a": "1"},
        "delivery": "at-most-once",
        "expiresAt": FAR,
        **body,
    }
    text = json.dumps({**fields, "targetMethod": "DELETE", "triggerAt": past()})
    answer = await api.client.post("/schedule", content=text.replace("Infinity", "1e400"))
    assert answer.status_code == 201, answer.text
    [invocation] = await api.claim()
    before = invocation.request
    from scheduler.store.lifecycle.end_rows import Ack

    await api.store.ends.ack(invocation.shard, [Ack(invocation, BROKEN, 0)])
    new = (await replay(api, invocation.schedule_id)).json()["scheduleId"]
    [again] = await api.claim()
    assert again.schedule_id == new
    as_before = msgspec.structs.replace(
        again.request, trigger_at_ms=before.trigger_at_ms, replay_of=None
    )
    assert as_before == before
    assert list(again.request.headers) == list(before.headers)
    assert again.request.replay_of == invocation.schedule_id
    assert again.attempt == 1


@pytest.mark.parametrize(
    ("fields", "name", "value"),
    [
        ({"triggerAt": FAR}, "triggerAt", "2030-01-01T00:00:00.000Z"),
        ({"targetUrl": URL + "/fixed"}, "targetUrl", URL + "/fixed"),
        ({"targetMethod": "put"}, "targetMethod", "PUT"),
        ({"targetHeaders": {"X-New": "1"}}, "targetHeaders", {"X-New": "1"}),
        ({"targetHeaders": None}, "targetHeaders", {}),
        ({"targetBody": {"b": 1}}, "targetBody", {"b": 1}),
        ({"targetBodyText": "b"}, "targetBodyText", "b"),
        ({"targetBody": None}, "targetBody", None),
        ({"delivery": "at-most-once"}, "delivery", "at-most-once"),
        ({"expiresAt": FAR}, "expiresAt", "2030-01-01T00:00:00.000Z"),
    ],
)
async def test_the_body_says_what_is_to_be_another(
    api: Api, fields: dict[str, Any], name: str, value: Any
) -> None:
    [original] = await fail(api, targetBody={"a": 1}, targetHeaders={"X-Order": "1"})
    before = (await api.client.get(f"/schedule/{original}")).json()
    answer = await replay(api, original, fields)
    assert answer.status_code == 201, answer.text
    read = (await api.client.get(f"/schedule/{answer.json()['scheduleId']}")).json()
    assert read[name] == value
    same = {"targetUrl", "targetMethod", "targetHeaders", "targetBody", "delivery"}
    for each in same - {name} - ({"targetBody"} if name == "targetBodyText" else set()):
        if name != "targetBody" or each != "targetMethod":  # the default follows the body
            assert read[each] == before[each], each
    # The original is as it was.
    after = (await api.client.get(f"/schedule/{original}")).json()
    assert after == {**before, "replayedAs": read["scheduleId"]}


async def test_a_delay_counts_from_the_replay_and_a_repeat_tells_the_same(api: Api) -> None:
    [original] = await fail(api)
    first = await replay(api, original, {"delay": "1h"}, "k")
    again = await replay(api, original, {"delay": "1h"}, "k")
    assert again.json() == first.json()
    assert again.headers["idempotency-replayed"] == "true"
    read = (await api.client.get(f"/schedule/{first.json()['scheduleId']}")).json()
    assert first.json()["message"] == f"Scheduled for {read['triggerAt']}"
    due_in = datetime.fromisoformat(read["triggerAt"]) - datetime.now(UTC)
    assert abs(due_in - timedelta(hours=1)) < timedelta(minutes=1)
    await api.holds(credits=CREDITS - 2, waiting={first.json()["scheduleId"]})


@pytest.mark.parametrize(
    ("fields", "bad"),
    [
        ({"targetUrl": "ftp://example.com"}, ["targetUrl"]),
        ({"triggerAt": None}, ["triggerAt"]),
        ({"triggerAt": "2020-01-01T00:00:00Z", "x": 1}, ["triggerAt", "x"]),
        ({"triggerAt": FAR, "delay": "1s"}, ["triggerAt", "delay"]),
        ({"expiresAt": "2020-01-01T00:00:00Z"}, ["expiresAt"]),
        ({"targetHeaders": {"Authorization": MASK}}, ["targetHeaders.Authorization"]),
        ({"targetUrl": "https://other.example/"}, ["targetHeaders.Authorization"]),
        ({"replayOf": UNKNOWN}, ["replayOf"]),
        ([], ["body"]),
        ("x", ["body"]),
    ],
)
async def test_a_bad_body_is_a_400_that_names_every_field_and_does_nothing(
    api: Api, fields: Any, bad: list[str]
) -> None:
    [original] = await fail(api, targetHeaders={"Authorization": "Bearer x"})
    answer = await replay(api, original, fields)
    assert answer.status_code == 400
    assert [detail["field"] for detail in answer.json()["details"]] == bad
    assert await failed(api) == [original]
    await api.holds(credits=CREDITS - 1, waiting=set())


async def test_another_origin_gets_the_secrets_that_are_given_anew(api: Api) -> None:
    [original] = await fail(api, targetHeaders={"Authorization": "Bearer old"})
    fields = {
        "targetUrl": "https://other.example/",
        "targetHeaders": {"Authorization": "Bearer new"},
    }
    new = (await replay(api, original, fields)).json()["scheduleId"]
    assert (await stored(api, new)).request.headers == {"Authorization": "Bearer new"}


NOW_MS, MINUTE_MS = 1_800_000_000_000, 60_000


@pytest.mark.parametrize(
    ("expires_ms", "given", "expected_ms"),
    [
        (None, {}, None),
        (NOW_MS + 1, {}, NOW_MS + 1),  # it still holds
        (NOW_MS, {}, NOW_MS + MINUTE_MS),  # it has passed: as long after triggerAt as before
        (NOW_MS - MINUTE_MS + 1, {}, NOW_MS + 1),
        (NOW_MS + 5, {"trigger_at_ms": NOW_MS + 6}, NOW_MS + MINUTE_MS + 11),
        (NOW_MS, {"expires_at_ms": None}, None),
        (NOW_MS, {"expires_at_ms": NOW_MS + 3}, NOW_MS + 3),
    ],
)
def test_an_expires_at_that_has_passed_keeps_its_distance(
    expires_ms: int | None, given: dict[str, Any], expected_ms: int | None
) -> None:
    request = Request(NOW_MS - MINUTE_MS, "GET", URL, expires_at_ms=expires_ms)
    original = Schedule(UNKNOWN, 0, request, Status.FAILED)
    made = Change(given).of_replay(original, NOW_MS)
    assert made.expires_at_ms == expected_ms
    assert made.trigger_at_ms == given.get("trigger_at_ms", NOW_MS)


async def test_one_that_expired_can_be_replayed_as_it_is(api: Api) -> None:
    fields = {"triggerAt": later(hours=-2), "expiresAt": later(hours=-1)}
    original = await api.create_id(**fields)
    await api.execute(msgspec.structs.replace(FINE, status=Status.FAILED, status_code=0))
    before = (await stored(api, original)).request
    answer = await replay(api, original)
    assert answer.status_code == 201
    request = (await stored(api, answer.json()["scheduleId"])).request
    assert before.expires_at_ms is not None
    assert request.expires_at_ms is not None
    distance_ms = before.expires_at_ms - before.trigger_at_ms
    assert request.expires_at_ms - request.trigger_at_ms == distance_ms


async def test_what_completed_can_be_replayed_again_and_again(api: Api) -> None:
    original = await api.create_id(triggerAt=past())
    await api.execute(FINE)
    first, second = [(await replay(api, original)).json()["scheduleId"] for _ in range(2)]
    assert (await stored(api, original)).replayed_as == second
    await api.holds(credits=CREDITS - 3, waiting={first, second})


async def test_what_has_not_ended_or_has_lost_its_body_is_409(api: Api) -> None:
    waiting, cancelled = await api.create_id(), await api.create_id(targetBody={})
    await api.client.delete(f"/schedule/{cancelled}")
    answer = await replay(api, waiting)
    assert answer.status_code == 409
    assert answer.json() == {"error": "The schedule has not ended yet", "status": "scheduled"}
    answer = await replay(api, cancelled)
    assert answer.status_code == 409
    assert answer.json() == {
        "error": "Its body was not kept when it was cancelled",
        "status": "cancelled",
    }
    await api.holds(credits=CREDITS - 1, waiting={waiting})


@pytest.mark.parametrize("schedule_id", [UNKNOWN, "sch_x", "x", "sch_8" + "0" * 25])
async def test_what_is_unknown_is_404(api: Api, schedule_id: str) -> None:
    answer = await replay(api, schedule_id)
    assert answer.status_code == 404
    assert answer.json() == {"error": "There is no such schedule"}


async def test_another_accounts_is_404(api: Api) -> None:
    [original] = await fail(api)
    other = await api.store.accounts.create("other", credits=5, plan=Plan.UNLIMITED)
    _, key = await api.store.api_keys.create(other.account_id, "test")
    async with client_of(api.app, key) as client:
        assert (await client.post(f"/schedule/{original}/replay")).status_code == 404
        answer = await client.post("/schedule/replay", json={"ids": [original]})
        assert [each["code"] for each in answer.json()["schedules"]] == [404]
    assert await failed(api) == [original]


async def test_without_credits_it_is_402(api: Api) -> None:
    poor = await api.store.accounts.create("poor", credits=1, plan=Plan.UNLIMITED)
    _, key = await api.store.api_keys.create(poor.account_id, "test")
    async with client_of(api.app, key) as client:
        its = msgspec.structs.replace(api, account=poor, client=client)
        [original] = await fail(its)
        answer = await replay(its, original, key="k")
        assert answer.status_code == 402
        assert answer.json() == {"error": "Insufficient credits"}
        assert await failed(its) == [original]
        await api.store.accounts.grant(poor.account_id, 1)
        assert (await replay(its, original, key="k")).status_code == 201


async def test_a_key_is_of_one_replay(api: Api) -> None:
    first, second = await fail(api, 2)
    made = await asyncio.gather(*(replay(api, first, key="k") for _ in range(9)))
    assert len({answer.text for answer in made}) == 1
    assert {answer.status_code for answer in made} == {201}
    assert (await replay(api, second, key="k")).status_code == 422
    assert (await replay(api, first, {"delay": "1s"}, key="k")).status_code == 422
    assert (await replay_many(api, {"ids": [second]}, key="k")).status_code == 422
    assert (await replay(api, second, key="bad key")).status_code == 400
    await api.holds(credits=CREDITS - 3, waiting={made[0].json()["scheduleId"]})


async def test_many_are_answered_one_by_one_in_order(api: Api) -> None:
    originals = await fail(api, 3)
    waiting = await api.create_id()
    await replay(api, originals[1])
    asked = [originals[0], UNKNOWN, originals[1], waiting, originals[2]]
    answer = await replay_many(api, {"ids": asked})
    assert answer.status_code == 200
    items = answer.json()["schedules"]
    assert [each["replayOf"] for each in items] == asked
    assert [each.get("code") for each in items] == [None, 404, 409, 409, None]
    assert answer.json()["nextCursor"] is None
    assert items[2] == {
        "code": 409,
        "error": "The schedule was replayed already",
        "details": [],
        "replayOf": originals[1],
    }
    assert items[3]["error"] == "The schedule has not ended yet"
    for each in (items[0], items[4]):
        assert each["invocationId"] == ids.invocation_id(each["scheduleId"])
        assert (await stored(api, each["scheduleId"])).request.replay_of == each["replayOf"]
    assert await failed(api) == []
    assert await api.credits() == CREDITS - 7
    assert await api.store.check() == []


async def test_a_filter_takes_the_oldest_and_goes_on_at_its_cursor(api: Api) -> None:
    originals = await fail(api, 5)
    body: dict[str, Any] = {"status": "failed", "limit": 2}
    seen: list[str] = []
    while True:
        answer = (await replay_many(api, body)).json()
        seen += [each["replayOf"] for each in answer["schedules"]]
        if answer["nextCursor"] is None:
            break
        body["cursor"] = answer["nextCursor"]
    assert seen == originals
    assert await failed(api) == []
    assert await api.store.check() == []


async def test_a_filter_is_by_url_and_by_end(api: Api) -> None:
    first = await fail(api, 2)
    other = await fail(api, 2, targetUrl=URL + "?other")
    nothing = {"status": "failed", "from": "2100-01-01T00:00:00Z"}
    assert (await replay_many(api, nothing)).json() == {"schedules": [], "nextCursor": None}
    body = {"status": "failed", "targetUrl": URL + "?other", "to": FAR, "from": None}
    answer = (await replay_many(api, body)).json()
    assert [each["replayOf"] for each in answer["schedules"]] == other
    assert sorted(await failed(api)) == first


@pytest.mark.parametrize("form", ["ids", "filter"])
async def test_many_with_a_key_are_told_again(api: Api, form: str) -> None:
    originals = await fail(api, 3)
    body = {"ids": [UNKNOWN, *originals]} if form == "ids" else {"status": "failed", "limit": 2}
    first = await replay_many(api, body, "k")
    again = await replay_many(api, body, "k")
    assert again.json() == first.json()
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    made = {each["scheduleId"] for each in first.json()["schedules"] if "scheduleId" in each}
    assert len(made) == (3 if form == "ids" else 2)
    await api.holds(credits=CREDITS - 3 - len(made), waiting=made)


async def test_a_duplicate_has_its_answer_again_and_what_is_no_id_a_404(api: Api) -> None:
    first, second = await fail(api, 2)
    asked = [first, "nonsense", second, first]
    answer = await replay_many(api, {"ids": asked}, "k")
    items = answer.json()["schedules"]
    assert [each["replayOf"] for each in items] == asked
    assert [each.get("code") for each in items] == [None, 404, None, None]
    assert items[1]["error"] == "There is no such schedule"
    assert items[3] == items[0]
    await api.holds(credits=CREDITS - 4, waiting={each["scheduleId"] for each in items[::2]})
    assert (await replay_many(api, {"ids": asked}, "k")).json() == answer.json()


async def test_many_without_credits_are_402_each(api: Api) -> None:
    poor = await api.store.accounts.create("poor", credits=3, plan=Plan.UNLIMITED)
    _, key = await api.store.api_keys.create(poor.account_id, "test")
    async with client_of(api.app, key) as client:
        its = msgspec.structs.replace(api, account=poor, client=client)
        originals = await fail(its, 2)
        items = (await replay_many(its, {"ids": originals})).json()["schedules"]
        assert [each.get("code") for each in items] == [None, 402]
        assert items[1]["error"] == "Insufficient credits"
        assert await failed(its) == originals[1:]


async def test_a_bad_selection_is_a_400_and_does_nothing(api: Api) -> None:
    [original] = await fail(api)
    for body in ({}, {"status": "scheduled"}, {"ids": [original], "status": "failed"}, []):
        answer = await replay_many(api, body)
        assert answer.status_code == 400
        assert answer.json()["details"]
    assert await failed(api) == [original]
    await api.holds(credits=CREDITS - 1, waiting=set())


async def test_a_cursor_is_good_for_the_filter_that_gave_it(api: Api) -> None:
    await fail(api, 3)
    first = (await replay_many(api, {"status": "failed", "limit": 1})).json()
    cursor = first["nextCursor"]
    other = {"status": "failed", "cursor": cursor, "targetUrl": URL}
    assert (await replay_many(api, other)).status_code == 400
    listed = await api.client.get("/schedule", params={"status": "failed", "cursor": cursor})
    assert listed.status_code == 400
    answer = await replay_many(api, {"status": "failed", "limit": 1, "cursor": cursor})
    assert len(answer.json()["schedules"]) == 1


async def test_a_thousand_at_once(api: Api) -> None:
    await api.store.accounts.grant(api.account_id, 3000)
    request = Request(1, "POST", URL)
    made = await api.store.schedules.create_all(api.account_id, [request] * 1000)
    for _ in range(10):
        await api.execute(msgspec.structs.replace(FINE, status=Status.FAILED, status_code=500))
    answer = await replay_many(api, {"ids": made.schedule_ids}, "k")
    items = answer.json()["schedules"]
    assert [each["replayOf"] for each in items] == made.schedule_ids
    assert len({each["scheduleId"] for each in items}) == 1000
    assert (await replay_many(api, {"ids": made.schedule_ids}, "k")).json() == answer.json()
    assert await api.credits() == CREDITS + 3000 - 2000
    assert await failed(api) == []
