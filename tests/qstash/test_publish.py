"""publish, enqueue and batch over HTTP: what is stored, what it costs, and what a repeat does."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from scheduler.errors import OutcomeUnknown, QuotaExceeded
from scheduler.models import BodyKind, Idempotency, Plan
from scheduler.store import Store, keys
from scheduler.store.idempotency import once_name
from tests.qstash.conftest import URL, Door, client_of, door_of
from tests.qstash.ends import ask, refused
from tests.support.apps import app_of

JSON = {"Content-Type": "application/json"}
LARGE_OBJECT = json.dumps({"a": "x" * 262_144})


async def batch(door: Door, items: Any) -> httpx.Response:
    return await ask(door, "POST batch", items)


def item(number: int, **headers: str) -> dict[str, Any]:
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return {"destination": f"{URL}/{number}", "headers": named, "body": f"body {number}"}


async def test_a_message_is_a_schedule_that_is_due_now(door: Door) -> None:
    for _ in range(2):  # the second one goes to the store at once
        answer = await door.publish(label="a,b", forward_x_order="17", method="PUT")
        found = await door.message(answer)
        assert answer.json() == {"messageId": "msg_" + found.schedule_id[4:]}
        request = found.request
        assert (request.url, request.method, request.body) == (URL, "PUT", b"hello")
        assert request.headers["x-order"] == "17"
        assert (request.labels, request.body_kind) == (("a", "b"), BodyKind.TEXT)
        assert request.trigger_at_ms <= door.store.clock.now_ms()
        assert request.door is not None
    assert await door.credits() == 1998
    assert await door.store.check() == []


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com",
        "https://example.com/123/?asdasd=ooo",
        "https://example.com/a//b/",
        "https://example.com/a%2Fb%20c?d=%26&e=f%3Dg",
        "http://example.com:8080/?https://example.org/",
        "https://example.com/é",
    ],
)
async def test_a_destination_is_the_rest_of_the_path(door: Door, url: str) -> None:
    plain, escaped = await door.publish(url), await door.publish(quote(url, safe=""))
    wanted = url.replace("é", "%C3%A9")
    assert (await door.request(plain)).url == wanted
    assert (await door.request(escaped)).url == url


@pytest.mark.parametrize(
    ("query", "kept"),
    [("a=1&qstash_token={}&b=2", "?a=1&b=2"), ("qstash_token={}", "")],
)
async def test_a_token_in_the_query_is_none_of_the_destination(
    door: Door, query: str, kept: str
) -> None:
    async with client_of(door.app, None) as client:
        answer = await client.post(f"/qstash/v2/publish/{URL}?{query.format(door.key)}")
    assert (await door.request(answer)).url == URL + kept


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("/v2/publish/my-topic", "URL groups"),
        ("/v2/enqueue/q/my-topic", "URL groups"),
        ("/v2/publish/api/llm", "Destinations such as api/llm"),
        ("/v2/topics", "URL groups"),
        ("/v2/topics/a/endpoints", "URL groups"),
        ("/v2/workflows/runs", "Workflows"),
        ("/llm/v1/chat/completions", "Language models"),
    ],
)
async def test_what_is_not_offered_is_a_501(door: Door, path: str, what: str) -> None:
    sentence = refused(await door.client.post("/qstash" + path), 501)
    assert sentence == f"{what} are not offered; see docs/come-over/qstash"


@pytest.mark.parametrize(
    ("status", "method", "path"),
    [
        (404, "GET", "/qstash/"),
        (404, "POST", "/qstash/v2/nothing"),
        (404, "POST", "/qstash/v2/publish/"),
        (404, "POST", "/qstash/v2/batch/"),
        (404, "POST", "/qstash//v2/batch"),
        (404, "POST", "/qstash/v2%2Fbatch"),
        (404, "GET", "/%71stash/v2/batch"),
        (404, "POST", "/qstash"),
        (405, "PUT", "/qstash/v2/batch"),
        (405, "HEAD", f"/qstash/v2/publish/{URL}"),
        (400, "POST", "/qstash/v2/publish/ftp://example.com"),
        (400, "POST", "/qstash/v2/publish/https:/example.com"),
    ],
)
async def test_a_path_that_leads_nowhere_is_refused(
    door: Door, status: int, method: str, path: str
) -> None:
    answer = await door.client.request(method, path)
    assert answer.status_code == status
    assert answer.headers["postdate-request-id"]
    if status == 405:
        assert answer.headers["allow"] == "POST"
    if path.startswith("/qstash/") and method != "HEAD":
        assert list(answer.json()) == ["error"]


async def test_options_name_the_methods(door: Door) -> None:
    async with client_of(door.app, None) as client:
        answer = await client.options("/qstash/v2/batch")
    assert (answer.status_code, answer.headers["allow"]) == (204, "POST")


async def test_requests_are_counted_by_their_route(door: Door) -> None:
    await door.publish()
    await door.client.get("/qstash/nothing")
    counted = door.app.state.service.tally.requests
    assert counted == {
        ("/qstash/v2/publish/{url}", "POST", 200): 1,
        ("none", "GET", 404): 1,
    }


async def test_a_bad_header_costs_nothing(door: Door) -> None:
    for _ in range(2):
        sentence = refused(await door.publish(delay="soon"), 400)
        assert sentence.startswith("Upstash-Delay: It must be a duration")
    refused(await door.publish(body=b"x" * 300_000), 413)
    assert await door.credits() == 2000


async def test_a_deduplicated_message_is_the_first_one(door: Door) -> None:
    first = await door.publish(deduplication_id="order-1")
    again = [await door.publish(body=b"other", deduplication_id="order-1") for _ in range(2)]
    for each in again:
        assert each.json() == first.json() | {"deduplicated": True}
    assert (await door.publish(deduplication_id="order-2")).json() != first.json()
    racing = await asyncio.gather(*(door.publish(deduplication_id="x") for _ in range(20)))
    assert len({each.json()["messageId"] for each in racing}) == 1
    assert sum("deduplicated" in each.json() for each in racing) == 19
    assert await door.credits() == 1997
    assert await door.store.check() == []


async def test_a_deduplication_lasts_ten_minutes_and_is_of_one_account(door: Door) -> None:
    first = await door.publish(deduplication_id="a")
    other = await door_of(door.app, door.store)
    assert "deduplicated" not in (await other.publish(deduplication_id="a")).json()
    wanted, own_key = {"targetUrl": URL, "delay": "1h"}, {"idempotency-key": "a"}
    made = await door.client.post("/schedule", json=wanted, headers=own_key)
    assert made.status_code == 201
    base, name = keys.account(door.account_id), once_name(Idempotency("message a", ""))
    left_ms = await door.store.schedules._server.read("PTTL", base + keys.ONCE + name)
    assert 590_000 < left_ms <= 600_000
    again = await door.publish(deduplication_id="a")
    assert again.json() == first.json() | {"deduplicated": True}


async def test_a_batch_is_answered_in_order(door: Door) -> None:
    items = [item(0), item(1, upstash_delay="1h", upstash_method="GET"), item(2)]
    items[2] |= {"queue": "mail", "headers": {"Content-Type": "text/x", "Upstash-Label": "a"}}
    items += [{"destination": URL}, {"destination": URL, "body": None, "queue": None}]
    answer = await batch(door, items)
    assert answer.status_code == 200
    requests = [await door.request(each) for each in answer.json()]
    assert [each.url for each in requests] == [f"{URL}/0", f"{URL}/1", f"{URL}/2", URL, URL]
    assert [each.body for each in requests] == [b"body 0", b"body 1", b"body 2", None, None]
    assert [each.lane for each in requests] == [None, None, "queue:mail", None, None]
    assert requests[1].method == "GET"
    assert requests[2].headers["content-type"] == "text/x"
    assert await door.credits() == 1995


@pytest.mark.parametrize(
    ("items", "says"),
    [
        ([item(0), item(1, upstash_delay="soon")], "[1].Upstash-Delay: "),
        ([item(0), {"body": "no destination"}], "[1]: It is no message: "),
        ([item(0), item(1) | {"queue": "a b"}], "[1].Upstash-Queue-Name: "),
        ([item(0), item(1) | {"headers": {"a": 1}}], "[1]"),
        ([item(0), 5], "[1]"),
        ([item(0), item(1) | {"headers": {"upstash-forward-a": ["x"] * 257}}], "[1].headers: "),
        ([item(0), item(1) | {"headers": {"upstash-forward-a": "x" * 16384}}], "[1].headers: "),
        ([item(0), item(1) | {"body": LARGE_OBJECT, "headers": JSON}], "[1].body: "),
        ([item(0), item(1) | {"body": "x" * 196_609}], "[1].body: "),
        ([], "body: "),
        ({}, "body: It must be a list of 1 to 1,000 messages."),
        ([item(0)] * 1001, "body: It must be a list of 1 to 1,000 messages."),
    ],
)
async def test_a_bad_item_refuses_the_batch(door: Door, items: Any, says: str) -> None:
    assert refused(await batch(door, items), 400).startswith(says)
    assert await door.credits() == 2000


async def test_a_batch_that_is_none_is_refused(door: Door) -> None:
    refused(await batch(door, [item(0), item(1) | {"destination": "topic"}]), 501)
    refused(await door.send("batch", b"[{"), 400)
    assert await door.credits() == 2000


async def test_a_batch_stores_what_the_credits_reach_for(door: Door) -> None:
    poor = await door_of(door.app, door.store, credits=2)
    answer = await batch(poor, [item(n) for n in range(3)])
    assert answer.status_code == 200
    assert ["messageId" in each for each in answer.json()] == [True, True, False]
    assert answer.json()[2] == {"error": "Insufficient credits"}
    answer = await batch(poor, [item(n) for n in range(3)])
    for each in (answer, await poor.publish()):
        assert refused(each, 402) == "Insufficient credits"


async def test_items_of_a_batch_are_deduplicated_one_by_one(door: Door) -> None:
    once = {"upstash_deduplication_id": "a"}
    items = [item(0), item(1, **once), item(2), item(3, **once), item(4)]
    answers = (await batch(door, items)).json()
    assert answers[3] == answers[1] | {"deduplicated": True}
    assert len({each["messageId"] for each in answers}) == 4
    urls = [(await door.request(each)).url for each in answers]
    assert urls == [f"{URL}/{n}" for n in (0, 1, 2, 1, 4)]
    again = (await batch(door, [item(5, **once)])).json()
    assert again == [answers[1] | {"deduplicated": True}]
    assert await door.credits() == 1996


async def test_a_message_of_a_batch_may_be_refused_alone(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_all = door.store.schedules.create_all

    async def without_room(*given: Any) -> Any:
        if given[2] is not None:
            raise QuotaExceeded
        return await create_all(*given)

    monkeypatch.setattr(door.store.schedules, "create_all", without_room)
    items = [item(0), item(1, upstash_deduplication_id="a"), item(2)]
    answer = await batch(door, items)
    assert ["messageId" in each for each in answer.json()] == [True, False, True]
    assert answer.json()[1] == {"error": str(QuotaExceeded())}
    assert (await batch(door, items[1:2])).status_code == 413


async def test_a_large_batch_is_stored_whole(door: Door) -> None:
    items = [item(n) | {"body": "é" * 600} for n in range(1000)]
    answers = (await batch(door, items)).json()
    assert len({each["messageId"] for each in answers}) == 1000
    assert (await door.request(answers[999])).url == f"{URL}/999"
    assert await door.credits() == 1000


async def test_a_rate_is_told_as_qstash_tells_it(door: Door, store: Store) -> None:
    slow = await door_of(door.app, store, plan=Plan.FREE)
    answers = await asyncio.gather(*(slow.publish() for _ in range(50)))
    assert {each.status_code for each in answers} == {200, 429}
    limited = next(each for each in answers if each.status_code == 429)
    assert limited.headers["retry-after"]
    assert limited.headers["burst-ratelimit-limit"] == "10"
    assert "ratelimit-limit" not in limited.headers
    refused(limited, 429)
    assert await slow.credits() == 2000 - sum(each.status_code == 200 for each in answers)


async def test_a_lost_reply_names_the_header_that_makes_a_repeat_safe(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lost(*_: object) -> None:
        raise OutcomeUnknown("lost")

    monkeypatch.setattr(door.store.schedules, "create_all", lost)
    sentence = "Outcome unknown; repeat with the same Upstash-Deduplication-Id"
    assert refused(await door.publish(), 503) == sentence


async def test_the_document_and_native_paths_know_nothing_of_the_door(door: Door) -> None:
    document = (await door.client.get("/schema")).text
    assert "qstash" not in document.lower()
    off = app_of(door.app.state.service.settings, door.store)
    async with client_of(off, door.key) as client:
        assert (await client.post(f"/qstash/v2/publish/{URL}")).status_code == 404


NAMES = (
    "method delay not-before retries retry-delay timeout deduplication-id label redact-fields cron"
    " content-based-deduplication callback failure-callback flow-control-key flow-control-value"
    " queue-name forward-x forward- callback-forward-a callback-retries callback-timeout brand-new"
    " failure-callback-delay telemetry-sdk"
)
VALUES = (
    "GET POST 10s 1h 0 3 21 -1 1800000000 5000*retried pow(retried,2)*1e3 1/0 30 30s 31 true false"
    " a,b,c body,header[A] all https://example.com/x http://10.0.0.1/ queue:1 rate=0"
    " parallelism=2,rate=3 é \x7f ² ( ' \" \\ {} [] %00 Infinity NaN 1e999"
)


@pytest.mark.slow
async def test_10_000_random_headers_break_nothing(door: Door) -> None:
    chosen, names, statuses = random.Random(46), NAMES.split(), set()
    for number in range(2000):
        drawn = chosen.choices(names, k=9 if number % 2 else 1)
        lines = [(f"upstash-{name}".encode(), _value(chosen)) for name in drawn]
        answer = await door.client.post(f"/qstash/v2/publish/{URL}", headers=lines)
        statuses.add(answer.status_code)
        assert answer.status_code in (200, 400), (lines, answer.text)
    assert statuses == {200, 400}
    assert await door.store.check() == []


def _value(chosen: random.Random) -> bytes:
    if chosen.random() < 0.9:
        return chosen.choice(VALUES.split()).encode("latin-1")
    return bytes(chosen.choices(range(256), k=chosen.randrange(300)))
