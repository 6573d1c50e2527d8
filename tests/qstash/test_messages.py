"""/v2/messages: messages read and cancelled."""

from __future__ import annotations

from typing import Any

import pytest

from api.qstash import messages
from scheduler.models import Request, Status
from tests.qstash.conftest import URL, Door, door_of
from tests.qstash.ends import (
    LOST,
    NOBODY,
    claim,
    delete,
    deleted,
    end,
    get,
    publish,
    refused,
)

DAY = "10d"
FLOW = {"flow_control_key": "k", "flow_control_value": "parallelism=3, rate=4, period=2s"}


async def waiting(door: Door) -> list[str]:
    page = await door.client.get("/schedule", params={"limit": 100})
    return [each["scheduleId"] for each in page.json()["schedules"]]


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
        "header": {"X-Some-Name": ["c"], "Content-Type": ["text/plain"]},
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


async def test_what_a_message_has_not_is_not_shown(door: Door) -> None:
    message_id = await publish(door, body=b"", delay=DAY)
    shown = await get(door, f"messages/{message_id}")
    assert set(shown) - {"callerIP", "header"} == {
        *("messageId", "url", "method", "maxRetries", "notBefore", "createdAt")
    }


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("rate=1", {"rate": 1, "period": 1}),
        ("parallelism=5", {"parallelism": 5, "period": 1}),
        ("rate=23, period=1h30m3s", {"rate": 23, "period": 5403}),
    ],
)
async def test_a_period_is_shown_with_each_key(door: Door, value: str, shown: Any) -> None:
    sent = {"flow_control_key": "k", "flow_control_value": value}
    found = await get(door, f"messages/{await publish(door, delay=DAY, **sent)}")
    names = ("parallelism", "rate", "period")
    assert {name: found[name] for name in names if name in found} == shown


async def test_secrets_and_what_is_redacted_are_not_shown(door: Door) -> None:
    url = "https://example.com/hook?api_key=s3cret"
    sent = {"forward_authorization": "Bearer s3cret", "forward_x_name": "s3cret"}
    sent |= {"callback": url, "failure_callback": url, "callback_forward_authorization": "s3cret"}
    sent |= {"redact_fields": "body,header[X-Name]"}
    message_id = await publish(door, url=url, body=b"s3cret", delay=DAY, **sent)
    answer = await door.client.get(f"/qstash/v2/messages/{message_id}")
    assert answer.status_code == 200
    assert "s3cret" not in answer.text


async def test_bytes_are_shown_in_base64(door: Door) -> None:
    message_id = await publish(door, body=b"\xff\x00", delay=DAY)
    shown = await get(door, f"messages/{message_id}")
    assert (shown["bodyBase64"], "body" in shown) == ("/wA=", False)


async def test_one_that_has_ended_is_shown_for_a_while(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    message_id = await publish(door)
    await end(door)
    ended_ms = (await door.message({"messageId": message_id})).ended_at_ms or 0
    monkeypatch.setattr(door.store.clock, "now_ms", lambda: ended_ms + 10_000)
    assert (await get(door, f"messages/{message_id}"))["messageId"] == message_id
    monkeypatch.setattr(door.store.clock, "now_ms", lambda: ended_ms + 10_001)
    refused(await door.client.get(f"/qstash/v2/messages/{message_id}"), 404)
    refused(await deleted(door, f"messages/{message_id}"), 404)


@pytest.mark.parametrize("message_id", [NOBODY, "msg_", "x", "sch_01jd3v9x8kfw3s9s2m2v2v2v2v"])
async def test_what_is_no_message_is_not_found(door: Door, message_id: str) -> None:
    refused(await door.client.get(f"/qstash/v2/messages/{message_id}"), 404)
    refused(await deleted(door, f"messages/{message_id}"), 404)
    assert await delete(door, "messages", {"messageIds": [message_id]}) == {"cancelled": 0}


async def test_one_of_another_account_is_not_found_and_stays(door: Door) -> None:
    message_id = await publish(door, delay=DAY)
    other = await door_of(door.app, door.store)
    refused(await other.client.get(f"/qstash/v2/messages/{message_id}"), 404)
    refused(await deleted(other, f"messages/{message_id}"), 404)
    for query in ({"messageIds": message_id}, {"count": 9}, {}):
        assert await delete(other, "messages", **query) == {"cancelled": 0}
    assert len(await waiting(door)) == 1


async def test_a_message_is_cancelled_once_and_its_credit_comes_back(door: Door) -> None:
    credits = await door.credits()
    message_id = await publish(door, delay=DAY)
    assert await door.credits() == credits - 1
    assert await delete(door, f"messages/{message_id}") == {"cancelled": 1}
    assert await door.credits() == credits
    refused(await deleted(door, f"messages/{message_id}"), 404)
    refused(await door.client.get(f"/qstash/v2/messages/{message_id}"), 404)
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
    refused(await door.client.get(f"/qstash/v2/messages/{message_id}"), 404)
    assert await get(door, "dlq") == {"messages": []}


@pytest.mark.parametrize("by_query", [True, False])
async def test_many_are_cancelled_by_their_ids(door: Door, by_query: bool) -> None:
    made = [await publish(door, delay=DAY) for _ in range(3)]
    named = {"messageIds": [*made[:2], made[0], NOBODY, "x"]}
    query, body = (named, None) if by_query else ({}, named)
    assert await delete(door, "messages", body, **query) == {"cancelled": 2}
    assert len(await waiting(door)) == 1
    assert await delete(door, "messages", named) == {"cancelled": 0}


async def test_all_are_cancelled_but_what_is_native(door: Door) -> None:
    for n in range(3):
        await publish(door, delay=DAY, label=f"l{n}")
    native = Request(door.store.clock.now_ms() + 60_000, "POST", URL)
    kept = await door.store.schedules.create(door.account_id, native)
    assert await delete(door, "messages") == {"cancelled": 3}
    assert await waiting(door) == [kept]
    named = {"messageIds": [kept.replace("sch_", "msg_")]}
    assert await delete(door, "messages", named) == {"cancelled": 1}, "it was named"


OTHER: dict[str, Any] = {"url": "https://example.org/other"}


@pytest.mark.parametrize(
    ("sent", "query"),
    [
        ({}, {"url": URL}),
        ({}, {"url": [URL, "https://example.com/none"]}),
        ({}, {"host": "example.com"}),
        ({}, {"path": "/hook"}),
        ({}, {"path": ["/hook", "/x"], "host": "example.com"}),
        ({"label": "a,b"}, {"label": "b"}),
        ({"label": "a,b"}, {"label": ["c", "a"]}),
        (FLOW, {"flowControlKey": "k"}),
        (FLOW, {"flowControlKey": ["j", "k"]}),
        ({}, {"url": URL, "fromDate": 1, "toDate": 4_070_908_800_000}),
    ],
)
@pytest.mark.parametrize("in_body", [True, False])
async def test_a_filter_means_those_that_fit(
    door: Door, sent: dict[str, str], query: dict[str, Any], in_body: bool
) -> None:
    for _ in range(2):
        await publish(door, delay=DAY, **sent)
    other = await publish(door, delay=DAY, **OTHER, label="z")
    given, body = ({}, query) if in_body else (query, None)
    assert await delete(door, "messages", body, **given) == {"cancelled": 2}
    assert await waiting(door) == [other.replace("msg_", "sch_")]


@pytest.mark.parametrize(
    "query",
    [
        {"url": "https://example.com/none"},
        {"label": "none"},
        {"queueName": "none"},
        {"flowControlKey": "none"},
        {"flowControlKey": "k", "queueName": "k"},
        {"scheduleId": "none"},
        {"callerIp": "0.0.0.0"},
        {"topicName": "none"},
        {"fromDate": 4_070_908_800_000},
        {"toDate": 946_684_800_000},
        {"label": "a", "url": "https://example.com/none"},
    ],
)
async def test_a_filter_that_nothing_fits_means_none(door: Door, query: Any) -> None:
    await publish(door, delay=DAY, label="a", **FLOW)
    assert await delete(door, "messages", **query) == {"cancelled": 0}
    assert len(await waiting(door)) == 1


async def test_those_of_a_queue_are_cancelled(door: Door) -> None:
    for queue in ("q", "q", "p"):
        answer = await door.client.post(
            f"/qstash/v2/enqueue/{queue}/{URL}", headers={"Upstash-Delay": DAY}
        )
        assert answer.status_code == 200, answer.text
    assert await delete(door, "messages", queueName="q") == {"cancelled": 2}
    assert len(await waiting(door)) == 1


async def test_a_count_bounds_a_call_and_the_caller_goes_on(door: Door) -> None:
    for _ in range(3):
        await publish(door, delay=DAY)
    found = [(await delete(door, "messages", count=2))["cancelled"] for _ in range(3)]
    assert found == [2, 1, 0]


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ({"labeel": "x", "count": 100}, "labeel"),
        ({"count": 0}, "count"),
        ({"count": 1001}, "count"),
        ({"count": "many"}, "count"),
        ({"fromDate": "yesterday"}, "fromDate"),
        ({"toDate": -1}, "toDate"),
        ({"messageIds": NOBODY, "label": "x"}, "messageIds"),
        ({"responseStatus": 500}, "responseStatus"),
        ({"cursor": "x"}, "cursor"),
    ],
)
async def test_a_bad_filter_is_named_and_cancels_nothing(
    door: Door, query: dict[str, Any], named: str
) -> None:
    await publish(door, delay=DAY, label="x")
    assert named in refused(await deleted(door, "messages", **query), 400)
    assert len(await waiting(door)) == 1


@pytest.mark.parametrize(
    "body",
    [{"messageIds": []}, {"messageIds": [NOBODY] * 1001}, {"labeel": "x"}, {"label": {}}, ["x"]],
)
async def test_a_bad_body_cancels_nothing(door: Door, body: Any) -> None:
    await publish(door, delay=DAY)
    refused(await deleted(door, "messages", body), 400)
    assert len(await waiting(door)) == 1


async def test_a_cancelled_message_stays_cancelled(door: Door) -> None:
    message_id = await publish(door, delay=DAY)
    await delete(door, f"messages/{message_id}")
    assert (await door.message({"messageId": message_id})).status is Status.CANCELLED
