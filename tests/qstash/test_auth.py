"""Whose request it is: judged before anything else is said about it."""

from __future__ import annotations

import json

import pytest
import structlog

from api.qstash.app import _NOUNS
from scheduler.errors import OutcomeUnknown, StoreUnavailable
from tests.qstash.conftest import URL, Door, client_of, door_of
from tests.qstash.ends import ask, delete, fail, get, post, publish, refused

ROUTES = [(each.method, each.path) for noun in _NOUNS for each in noun.ROUTES]
PATHS = [
    *((method, "/qstash" + path.replace("{url}", URL).replace("{", "").replace("}", ""))
    for method, path in ROUTES),
    ("GET", "/qstash/v2/topics"),
    ("GET", "/qstash/v2/nothing"),
    ("PUT", "/qstash/v2/batch"),
]  # fmt: skip
UNKNOWN = f"pd_00_{'x' * 43}"


@pytest.mark.parametrize(
    ("headers", "query", "error"),
    [
        ({}, "", "Missing API key"),
        ({"authorization": "Bearer"}, "", "Missing API key"),
        ({}, "qstash_token=", "Missing API key"),
        ({"authorization": f"Bearer {UNKNOWN}"}, "", "Invalid or inactive API key"),
        ({}, f"qstash_token={UNKNOWN}", "Invalid or inactive API key"),
        ({}, f"qstash_token={UNKNOWN}&qstash_token=x", "More than one API key"),
        ({"authorization": f"Bearer {UNKNOWN}"}, "qstash_token=x", "More than one API key"),
    ],
)
async def test_without_a_good_key_it_is_401(
    door: Door, headers: dict[str, str], query: str, error: str
) -> None:
    door.app.state.service.refusals._next_s = -1e9
    async with client_of(door.app, None) as client:
        for method, path in PATHS[:10]:
            whole = f"{path}?{query}" if query else path
            answer = await client.request(method, whole, headers=headers, content=b"{")
            assert refused(answer, 401).startswith(error), (method, path)
            assert answer.headers["www-authenticate"]


async def test_a_stranger_learns_nothing_of_any_path(door: Door) -> None:
    async with client_of(door.app, None) as client:
        for method, path in PATHS:
            assert (await client.request(method, path)).status_code == 401


async def test_a_key_or_account_that_is_out_of_use_is_refused_at_once(door: Door) -> None:
    assert (await door.publish()).status_code == 200
    await door.store.changes.suspend(door.account_id)
    assert "suspended" in refused(await door.publish(), 403)
    await door.store.changes.resume(door.account_id)
    [key] = await door.store.api_keys.of_account(door.account_id)
    await door.store.api_keys.deactivate(key.key_id)
    assert (await door.publish()).status_code == 401
    assert await door.credits() == 1999


async def test_what_another_account_has_is_not_there(door: Door) -> None:
    [letter] = await fail(door)
    flow = {"flow_control_key": "k", "flow_control_value": "parallelism=5"}
    waits = await publish(door, delay="1h", **flow)
    await door.client.post("/qstash/v2/queues", json={"queueName": "q", "parallelism": 2})
    cron = {"Upstash-Cron": "0 9 * * *", "Upstash-Schedule-Id": "s"}
    await door.client.post(f"/qstash/v2/schedules/{URL}", headers=cron)
    places = (f"messages/{waits}", "dlq", "events", "queues/q", "schedules/s", "flowControl/k")
    before = [await get(door, each) for each in (*places, "keys")]
    other = await door_of(door.app, door.store)
    missing = [
        f"GET messages/{waits}", f"DELETE messages/{waits}",
        f"GET dlq/{letter}", f"DELETE dlq/{letter}",
        "GET queues/q", "GET schedules/s", "DELETE schedules/s",
        "PATCH schedules/s/pause", "PATCH schedules/s/resume",
    ]  # fmt: skip
    for call in missing:
        refused(await ask(other, call), 404)
    for query in ({}, {"messageId": waits}):
        for noun, member in (("dlq", "messages"), ("events", "events")):
            assert await get(other, noun, **query) == {member: []}
    assert await get(other, "queues") == await get(other, "schedules") == []
    for query in ({}, {"count": 9}, {"messageIds": waits}):
        assert await delete(other, "messages", **query) == {"cancelled": 0}
    for query in ({}, {"count": 9}, {"dlqIds": letter}, {"messageId": f"msg_{letter}"}):
        assert await delete(other, "dlq", **query) == {"deleted": 0}
        assert await post(other, "dlq/retry", **query) == {"responses": []}
    await delete(other, "queues/q")
    for path in ("queues/q/pause", "queues/q/resume", "flowControl/k/pause", "keys/rotate"):
        await post(other, path)
    await post(other, "flowControl/k/pin", parallelism=1)
    assert not {*(await get(other, "keys")).values()} & {*before[-1].values()}
    assert [await get(door, each) for each in (*places, "keys")] == before


@pytest.mark.parametrize("error", [StoreUnavailable("at 10.0.0.5"), OutcomeUnknown("at 10.0.0.5")])
async def test_without_a_store_it_is_a_503_that_names_no_host(
    door: Door, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async def away(*_: object) -> None:
        raise error

    monkeypatch.setattr(door.store.api_keys, "admit", away)
    answer = await door.client.get("/qstash/v2/messages/msg_x")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert "10.0.0.5" not in answer.text


async def test_a_token_is_never_logged(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(door.store.schedules, "create_all", broken)
    with structlog.testing.capture_logs() as logged:
        async with client_of(door.app, None) as client:
            answer = await client.post(f"/qstash/v2/publish/{URL}?qstash_token={door.key}")
    assert (answer.status_code, answer.json()) == (500, {"error": "Internal server error"})
    [line] = [each for each in logged if each["event"] == "request failed"]
    assert line["path"] == "/qstash/v2/publish/{url}"
    assert door.key not in json.dumps(logged, default=str)
