"""/v2/messages: messages read and cancelled."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from api.qstash import messages
from scheduler.models import Request, Status
from tests.qstash.conftest import URL, Door
from tests.qstash.ends import LOST, NOBODY, ask, claim, delete, end, get, publish, refused

DAY = "10d"
FLOW = {"flow_control_key": "k", "flow_control_value": "parallelism=3, rate=4, period=2s"}


async def waiting(door: Door) -> list[str]:
    page = await door.client.get("/schedule", params={"limit": 100})
    return [each["scheduleId"] for each in page.json()["schedules"]]


async def is_gone(door: Door, message_id: str) -> None:
    refused(await ask(door, f"GET messages/{message_id}"), 404)
    refused(await ask(door, f"DELETE messages/{message_id}"), 404)


async def test_a_message_is_read_with_all_that_it_was_published_with(door: Door) -> None:
    sent = {
        "delay": "60s",
        "retries": "5",
        "retry_delay": "1000 * (1 + retried)",
        "method": "PUT",
        "timeout": "20s",
        "label": "one,two",
        "callback": "https://example.com?foo=bar",
        "failure_callback": "https://example.com/failed",
        "callback_forward_x_a": "b",
        "forward_x_some_name": "c",
        "forward_x_client": "Upstash-QStash",
        "forward_content_type": "text/plain",
        **FLOW,
    }
    message_id = await publish(door, body=b"hello", **sent)
    shown = await get(door, f"messages/{message_id}")
    created = shown.pop("createdAt")
    assert created + 50_000 < shown.pop("notBefore") <= created + 60_000
    assert isinstance(shown.pop("callerIP", ""), str)
    assert shown == {
        "messageId": message_id,
        "url": URL,
        "method": "PUT",
        "header": {
            "X-Some-Name": ["c"],
            "X-Client": ["Upstash-QStash"],
            "Content-Type": ["text/plain"],
        },
        "body": "hello",
        "maxRetries": 5,
        "retryDelayExpression": "1000 * (1 + retried)",
        "timeout": 20,
        "callback": "https://example.com?foo=bar",
        "failureCallback": "https://example.com/failed",
        "callbackHeader": {"X-A": ["b"]},
        "flowControlKey": "k",
        "parallelism": 3,
        "rate": 4,
        "period": 2,
        "label": "one",
        "labels": ["one", "two"],
    }


USUAL = {"messageId", "url", "method", "header", "callerIP", "maxRetries", "notBefore", "createdAt"}


@pytest.mark.parametrize(
    ("body", "value", "more"),
    [
        (b"", "", {}),
        (b"\xff\x00", "", {"bodyBase64": "/wA="}),
        (b"", "rate=1", {"rate": 1, "period": 1}),
        (b"", "parallelism=5", {"parallelism": 5, "period": 1}),
        (b"", "rate=23, period=1h30m3s", {"rate": 23, "period": 5403}),
    ],
)
async def test_what_a_message_has_not_is_not_shown(
    door: Door, body: bytes, value: str, more: dict[str, Any]
) -> None:
    flow = {"flow_control_key": "k", "flow_control_value": value} if value else {}
    shown = await get(door, f"messages/{await publish(door, body=body, delay=DAY, **flow)}")
    more |= {"flowControlKey": "k"} if value else {}
    assert {name: shown[name] for name in shown.keys() - USUAL} == more


async def test_secrets_and_what_is_redacted_are_not_shown(door: Door) -> None:
    url = "https://example.com/hook?api_key=s3cret"
    sent = {"forward_authorization": "Bearer s3cret", "forward_x_name": "s3cret"}
    sent |= {"callback": url, "failure_callback": url, "callback_forward_authorization": "s3cret"}
    sent |= {"redact_fields": "body,header[X-Name]"}
    message_id = await publish(door, url=url, body=b"s3cret", **sent)
    shown = [await get(door, f"messages/{message_id}")]
    await end(door, LOST)
    shown += [await get(door, noun) for noun in ("events", "dlq")]
    for text in ("s3cret", b64encode(b"s3cret").decode()):
        assert text not in str(shown)


async def test_one_that_has_ended_is_shown_for_a_while(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    message_id = await publish(door)
    await end(door)
    ended_ms = (await door.message({"messageId": message_id})).ended_at_ms or 0
    monkeypatch.setattr(door.store.clock, "now_ms", lambda: ended_ms + 10_000)
    assert (await get(door, f"messages/{message_id}"))["messageId"] == message_id
    monkeypatch.setattr(door.store.clock, "now_ms", lambda: ended_ms + 10_001)
    await is_gone(door, message_id)


@pytest.mark.parametrize("message_id", [NOBODY, "msg_", "x", "sch_01jd3v9x8kfw3s9s2m2v2v2v2v"])
async def test_what_is_no_message_is_not_found(door: Door, message_id: str) -> None:
    await is_gone(door, message_id)
    assert await delete(door, "messages", {"messageIds": [message_id]}) == {"cancelled": 0}


async def test_a_message_is_cancelled_once_and_its_credit_comes_back(door: Door) -> None:
    credits = await door.credits()
    message_id = await publish(door, delay=DAY)
    assert await door.credits() == credits - 1
    assert await delete(door, f"messages/{message_id}") == {"cancelled": 1}
    await is_gone(door, message_id)
    assert await door.credits() == credits
    assert (await door.message({"messageId": message_id})).status is Status.CANCELLED
    assert await door.store.check() == []


async def test_one_that_is_being_sent_goes_on(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "_WAITS_S", (0.0, 0.0))
    message_id = await publish(door)
    [held] = await claim(door)
    assert await delete(door, f"messages/{message_id}") == {"cancelled": 0}
    for query in ({"messageIds": message_id}, {}):
        assert await delete(door, "messages", **query) == {"cancelled": 0}
    assert (await get(door, f"messages/{message_id}"))["messageId"] == message_id
    assert held.schedule_id == (await door.message({"messageId": message_id})).schedule_id


async def test_one_between_two_attempts_is_cancelled_and_no_dead_letter(door: Door) -> None:
    message_id = await publish(door)
    await end(door, LOST, wait_ms=60_000)
    assert await delete(door, f"messages/{message_id}") == {"cancelled": 1}
    await is_gone(door, message_id)
    assert await get(door, "dlq") == {"messages": []}


@pytest.mark.parametrize("by_query", [True, False])
async def test_many_are_cancelled_by_their_ids(door: Door, by_query: bool) -> None:
    made = [await publish(door, delay=DAY) for _ in range(3)]
    named = {"messageIds": [*made[:2], made[0], NOBODY, "x"]}
    query, body = (named, None) if by_query else ({}, named)
    assert await delete(door, "messages", body, **query) == {"cancelled": 2}
    assert await waiting(door) == [made[2].replace("msg_", "sch_")]
    assert await delete(door, "messages", named) == {"cancelled": 0}


async def test_all_are_cancelled_a_count_at_a_time_but_what_is_native(door: Door) -> None:
    for _ in range(3):
        await publish(door, delay=DAY)
    native = Request(door.store.clock.now_ms() + 60_000, "POST", URL)
    kept = await door.store.schedules.create(door.account_id, native)
    assert await delete(door, "messages", count=2) == {"cancelled": 2}
    assert await delete(door, "messages") == {"cancelled": 1}
    assert await delete(door, "messages") == {"cancelled": 0}
    assert await waiting(door) == [kept]
    named = {"messageIds": [kept.replace("sch_", "msg_")]}
    assert await delete(door, "messages", named) == {"cancelled": 1}, "it was named"


@pytest.mark.parametrize(
    "body",
    [{"messageIds": []}, {"messageIds": [NOBODY] * 1001}, {"labeel": "x"}, {"label": {}}, ["x"]],
)
async def test_a_bad_body_cancels_nothing(door: Door, body: Any) -> None:
    await publish(door, delay=DAY)
    refused(await ask(door, "DELETE messages", body), 400)
    assert len(await waiting(door)) == 1
