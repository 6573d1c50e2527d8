"""The callback of a schedule as it stands; the account's; sending one again. How its fields are
read is tested in test_fields.py, what becomes of callbacks in the store."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from scheduler.masks import MASK
from scheduler.models import Invocation, Outcome, Status
from scheduler.store import keys
from scheduler.store.lifecycle.callback.callbacks import CallbackAck
from tests.api.conftest import Api, bad_fields, past, payload
from tests.api.errors import error_of
from tests.support.plain import redis_of

HERE, THERE = "https://example.com/ended", "https://example.com/ended-too"
ACCOUNTS = "https://example.com/of-the-account"
DONE = Outcome(Status.COMPLETED, 200, 1, "")
FAILED = Outcome(Status.FAILED, 500, 1, "no")


def shown(body: dict[str, Any]) -> tuple[str | None, str | None]:
    return body["callbackUrl"], body["callbackOn"]


async def called(api: Api, outcome: Outcome) -> Invocation:
    """Makes the one attempt of the one callback that is due."""
    [call] = await api.claim()
    assert call.is_callback
    await api.store.callbacks.ack(call.shard, [CallbackAck(call, outcome)])
    return call


@pytest.mark.parametrize(
    ("given", "field", "reason"),
    [
        ({"callbackUrl": "http://10.0.0.1/"}, "callbackUrl", "destination_not_allowed"),
        ({"callbackUrl": "defualt"}, "callbackUrl", "invalid_field"),
        ({"callbackUrl": HERE.ljust(8193, "x")}, "callbackUrl", "invalid_field"),
        ({"callbackUrl": None, "callbackOn": "failed"}, "callbackOn", "invalid_field"),
    ],
)
async def test_a_bad_one_is_named_on_every_way_in(
    api: Api, given: dict[str, Any], field: str, reason: str
) -> None:
    ended = await api.create_id(triggerAt=past())
    await api.execute(DONE)
    waits = await api.create_id(reference="ours")
    post, item = api.client.post, payload(**given)
    batch = await post("/schedule/batch", json={"schedules": [payload(), item]})
    refused = [
        await post("/schedule", json=item),
        await post("/schedule", json=item | {"reference": "ours", "onExisting": "replace"}),
        await api.client.patch(f"/schedule/{waits}", json=given),
        await post(f"/schedule/{ended}/replay", json=given),
        await api.client.patch("/account", json=given),
    ]
    for answer in refused:
        assert (bad_fields(answer), error_of(answer)["reason"]) == ([field], reason)
    stored, bad = batch.json()["schedules"]
    assert ([each["field"] for each in bad["details"]], bad["reason"]) == ([field], reason)
    await api.holds(credits=997, waiting={waits, stored["scheduleId"]})


async def test_a_condition_without_a_url_is_refused_of_the_account(api: Api) -> None:
    answer = await api.client.patch("/account", json={"callbackOn": "failed"})
    assert bad_fields(answer) == ["callbackOn"]
    answer = await api.client.patch("/account", json={"callbackUrl": "default"})
    assert bad_fields(answer) == ["callbackUrl"]


@pytest.mark.parametrize(("outcome", "status"), [(DONE, "delivered"), (FAILED, "failed")])
async def test_a_get_shows_how_it_stands(api: Api, outcome: Outcome, status: str) -> None:
    schedule_id = await api.create_id(callbackUrl=HERE, triggerAt=past())
    await api.execute(FAILED)
    pending = (await api.read(schedule_id))["callback"]
    assert pending.pop("nextAttemptAt") is not None
    nothing = {"attempts": 0, "statusCode": None, "errorMessage": None}
    assert pending == {"status": "pending", **nothing}
    await called(api, outcome)
    ended = {"statusCode": outcome.status_code, "errorMessage": outcome.error_message}
    state = {"status": status, "attempts": 1, **ended, "nextAttemptAt": None}
    assert (await api.read(schedule_id))["callback"] == state


async def account(api: Api, **given: Any) -> tuple[tuple[str | None, str | None], str]:
    answer = await api.client.patch("/account", json=given)
    assert answer.status_code == 200, answer.text
    again = await api.client.get("/account")
    assert (again.json(), again.headers["etag"]) == (answer.json(), answer.headers["etag"])
    return shown(answer.json()), answer.headers["etag"]


async def test_the_accounts_own_is_set_changed_and_removed(api: Api) -> None:
    etags = [(await api.client.get("/account")).headers["etag"]]
    steps: list[tuple[dict[str, Any], tuple[str | None, str | None]]] = [
        ({"callbackUrl": HERE}, (HERE, "executed")),
        ({"callbackOn": "failed"}, (HERE, "failed")),
        ({"callbackUrl": THERE}, (THERE, "failed")),
        ({"callbackOn": None}, (THERE, "executed")),
        ({"callbackUrl": None}, (None, None)),
    ]
    for given, after in steps:
        seen, etag = await account(api, **given)
        assert seen == after
        etags.append(etag)
    assert len(set(etags)) == len(steps)  # at last as at first
    (masked, _), _ = await account(api, callbackUrl=f"{HERE}?job=7&token=geheim")
    assert masked == f"{HERE}?job=7&token={MASK}"
    assert (await account(api, callbackUrl=masked))[0] == (masked, "executed")
    answer = await api.client.patch("/account", json={"callbackUrl": f"{THERE}?token={MASK}"})
    assert bad_fields(answer) == ["callbackUrl"]
    await account(api, callbackUrl=HERE)
    answer = await api.client.patch("/account", json={"callbackUrl": masked})
    assert bad_fields(answer) == ["callbackUrl"]
    await account(api, paused=True, pauseNote="y")
    seen, _ = await account(api, paused=False)
    assert seen == (HERE, "executed")


async def test_ends_are_reported_to_the_account_unless_a_schedule_says_otherwise(api: Api) -> None:
    await account(api, callbackUrl=THERE, callbackOn="failed")
    made = [
        await api.create_id(triggerAt=past(), **given)
        for given in ({}, {"callbackUrl": HERE}, {"callbackUrl": None})
    ]
    await api.execute(FAILED)
    assert [(await api.read(each))["callback"] is not None for each in made] == [True, True, False]
    calls = {each.schedule_id: each.request.url for each in await api.claim()}
    assert calls == {made[0]: THERE, made[1]: HERE}


async def resent(api: Api, schedule_id: str, **body: Any) -> httpx.Response:
    path = f"/schedule/{schedule_id}/callback"
    return await api.client.post(path, json=body) if body else await api.client.post(path)


@pytest.mark.parametrize(
    ("body", "url"),
    [({}, HERE), ({"callbackUrl": THERE}, THERE), ({"callbackUrl": "default"}, "default")],
)
async def test_a_callback_is_sent_again(api: Api, body: dict[str, Any], url: str) -> None:
    await account(api, callbackUrl=ACCOUNTS)
    schedule_id = await api.create_id(callbackUrl=HERE, triggerAt=past())
    await api.execute(DONE)
    first = await called(api, FAILED)
    answer = await resent(api, schedule_id, **body)
    assert answer.status_code == 202, answer.text
    assert answer.json() == (found := await api.read(schedule_id))["callback"]
    assert (found["callback"]["status"], found["callbackUrl"]) == ("pending", url)
    again = await resent(api, schedule_id)
    assert (again.status_code, error_of(again)["reason"]) == (409, "callback_pending")
    assert again.json()["status"] == "completed"
    second = await called(api, DONE)
    went_to = ACCOUNTS if url == "default" else url
    assert (second.request.url, second.request.body) == (went_to, first.request.body)


async def test_what_cannot_be_reported_is_refused(api: Api) -> None:
    waits = await api.create_id()
    cancelled = await api.create_id()
    await api.client.delete(f"/schedule/{cancelled}")
    ended = await api.create_id(triggerAt=past())
    await api.execute(DONE)
    for schedule_id, status, reason in (
        (waits, 409, "not_ended"),
        (cancelled, 409, "already_ended"),
        ("sch_01m7td70g0fw3s9s2m2v2v2v2v", 404, "unknown_schedule"),
        (ended, 400, "invalid_field"),
    ):
        answer = await resent(api, schedule_id)
        assert (answer.status_code, error_of(answer)["reason"]) == (status, reason)
    assert bad_fields(answer) == ["callbackUrl"]
    for body in ({"callbackUrl": each} for each in ("http://10.0.0.1/", 5, None, "defualt")):
        assert bad_fields(await resent(api, ended, **body)) == ["callbackUrl"]
    assert bad_fields(await resent(api, ended, callbackOn="failed")) == ["callbackOn"]
    async with api.another() as other:
        assert (await resent(other, ended, callbackUrl=HERE)).status_code == 404
    assert (await resent(api, ended, callbackUrl=HERE)).status_code == 202


async def test_one_resend_too_many_is_told_when_to_come_again(api: Api) -> None:
    await redis_of(api.store).set(keys.account(api.account_id) + keys.RESENDS, 2**52)
    ended = await api.create_id(callbackUrl=HERE, triggerAt=past())
    await api.execute(DONE)
    await called(api, DONE)
    for _ in range(2):
        answer = await resent(api, ended)
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "20")
        assert error_of(answer)["reason"] == "rate_limited"
        assert error_of(answer)["error"] == "Too many callbacks were sent again; try again in 20 s"


async def many(api: Api, **body: Any) -> list[tuple[str, Any]]:
    """Each schedule, and the status of its callback, or why that is not sent again."""
    answer = await api.client.post("/schedule/callback", json=body)
    assert answer.status_code == 200, answer.text
    assert answer.json()["nextCursor"] is None
    return [
        (each["scheduleId"], each["reason"] if "code" in each else each["callback"]["status"])
        for each in answer.json()["schedules"]
    ]


async def listed(api: Api, path: str = "/schedule", **query: str) -> list[str]:
    answer = await api.client.get(path, params=query)
    assert answer.status_code == 200, answer.text
    [found] = [each for each in answer.json().values() if isinstance(each, list)]
    return [each["scheduleId"] for each in found]


async def reported(api: Api, outcome: Outcome, **fields: Any) -> str:
    schedule_id = await api.create_id(triggerAt=past(), callbackUrl=HERE, **fields)
    await api.execute(FAILED if fields else DONE)
    await called(api, outcome)
    return schedule_id


async def test_lists_and_the_log_find_schedules_by_their_callback(api: Api) -> None:
    good, bad = await reported(api, DONE), await reported(api, FAILED, lane="a")
    other = await reported(api, FAILED)
    [again] = await many(api, ids=[other])
    assert again == (other, "pending")
    await api.create_id()
    for callback, found in (("delivered", good), ("failed", bad), ("pending", other)):
        for path in ("/schedule", "/stats/logs"):
            assert await listed(api, path, callback=callback) == [found]
            assert await listed(api, path, callback=callback, status="scheduled") == []
    assert await listed(api, callback="failed", status="failed", lane="a") == [bad]
    assert await listed(api, callback="failed", lane="b") == []
    for path in ("/schedule", "/stats/logs"):
        assert bad_fields(await api.client.get(path, params={"callback": "lost"})) == ["callback"]
    first = await api.client.post("/schedule/callback", json={"callback": "failed", "limit": 1})
    assert [each["scheduleId"] for each in first.json()["schedules"]] == [bad]


async def test_many_callbacks_are_sent_again(api: Api) -> None:
    good, bad, waits = await reported(api, DONE), await reported(api, FAILED), await api.create_id()
    ended = await api.create_id(triggerAt=past())
    await api.execute(DONE)
    answer = await api.client.post("/schedule/callback", json={"ids": [waits, ended, "x", good]})
    *refused, sent = answer.json()["schedules"]
    assert [(each["code"], each["reason"], each["status"]) for each in refused] == [
        (409, "not_ended", "scheduled"),
        (400, "invalid_field", None),
        (404, "unknown_schedule", None),
    ]
    assert [each["field"] for each in refused[1]["details"]] == ["callbackUrl"]
    assert sent == {"scheduleId": good, "callback": (await api.read(good))["callback"]}
    assert await many(api, callback="failed", lane="a") == []
    assert await many(api, callback="failed") == [(bad, "pending")]
    assert await many(api, callback="failed") == []
    assert await many(api, ids=[bad, bad]) == [(bad, "callback_pending")] * 2
    async with api.another() as other:
        assert await many(other, ids=[bad]) == [(bad, "unknown_schedule")]


async def test_many_beyond_the_rate_are_told_when_to_come_again(api: Api) -> None:
    """The call is refused where none is sent."""
    made = [await reported(api, FAILED) for _ in range(3)]
    await redis_of(api.store).set(keys.account(api.account_id) + keys.RESENDS, 2**52)
    for body in ({"ids": [*made, "x"]}, {"callback": "failed"}):
        answer = await api.client.post("/schedule/callback", json=body)
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
        assert error_of(answer)["reason"] == "rate_limited"


async def test_a_callback_of_the_account_that_is_damaged_is_a_fault_of_ours(api: Api) -> None:
    key = keys.account(api.account_id) + keys.CALLBACK
    await redis_of(api.store).hset(key, mapping={"on": "never", "url": HERE})
    answer = await api.client.get("/account")
    assert (answer.status_code, error_of(answer)["reason"]) == (500, "damaged")
