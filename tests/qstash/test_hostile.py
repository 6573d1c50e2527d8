"""What hostile clients and a store that is away get of the door."""

from __future__ import annotations

import base64
import json
import time
from itertools import product
from typing import Any
from unittest.mock import AsyncMock

import httpx
import msgspec
import pytest

from api.door.fast_path import KnownHeads
from api.qstash.fast_path import MessageFastPath
from scheduler.errors import OutcomeUnknown, StoreUnavailable
from scheduler.lanes import MOST_LANES
from scheduler.qstash.carried import opened
from scheduler.store import keys
from scheduler.store.server import Server
from tests.api.door.test_fast_path import Connection
from tests.qstash.conftest import URL, Door
from tests.qstash.ends import fail, publish, refused
from tests.qstash.test_auth import ROUTES
from tests.qstash.test_fast_path import BODY, HEAD, Client


class Rejecting(Connection):
    def write_eof(self) -> None:
        """Of what is no HTTP."""


async def batch(door: Door, items: object) -> httpx.Response:
    return await door.client.post("/qstash/v2/batch", content=json.dumps(items))


@pytest.mark.parametrize(
    "headers",
    [
        {"upstash-forward-a": ["x"] * 300_000},
        {f"upstash-x{number}": "" for number in range(100_000)},
        {"upstash-deduplication-id": "x" * 300_000},
    ],
)
async def test_an_item_has_no_more_headers_than_a_publish(
    door: Door, headers: dict[str, Any]
) -> None:
    began_s = time.process_time()
    answer = await batch(door, [{"destination": URL}, {"destination": URL, "headers": headers}])
    assert refused(answer, 400).startswith("[1]")
    assert time.process_time() - began_s < 2
    assert await door.credits() == 2000


@pytest.mark.parametrize("body", ['{"a": "%s"}', "%s"])
async def test_an_item_has_no_larger_body_than_a_publish(door: Door, body: str) -> None:
    headers = {"content-type": "application/json"}
    item = {"destination": URL, "headers": headers, "body": body % ("x" * 300_000)}
    assert (await batch(door, [item])).status_code in (400, 413)
    assert await door.credits() == 2000


async def test_an_item_that_is_refused_alone_leaves_the_others(door: Door) -> None:
    lanes = keys.account(door.account_id) + keys.LANES
    full = [value for n in range(MOST_LANES) for value in (0, f"{n}")]
    await door.store.server.call("ZADD", lanes, *full)
    named = {"Upstash-Deduplication-Id": "a", "Upstash-Flow-Control-Key": "k"}
    items: list[dict[str, Any]] = [
        {"destination": URL},
        {"destination": URL, "headers": named},
        {"destination": URL, "headers": {"Upstash-Deduplication-Id": "b"}},
    ]
    answer = await batch(door, items)
    assert answer.status_code == 200, answer.text
    assert [list(each) for each in answer.json()] == [["messageId"], ["error"], ["messageId"]]
    assert await door.credits() == 1998
    assert refused(await batch(door, items[1:2]), 409).startswith("The account has 10,000 lanes")


@pytest.mark.parametrize("error", [StoreUnavailable("x"), OutcomeUnknown("x"), OSError("x")])
async def test_a_fast_message_goes_to_the_store_once(
    door: Door, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    client, write = await Client.of(door), AsyncMock(side_effect=error)
    monkeypatch.setattr("scheduler.store.server.server._PAUSES_S", (0.0,))
    monkeypatch.setattr(door.store.server, "write", write)
    told, _ = await client.publish()
    assert told.status == (500 if isinstance(error, OSError) else 503)
    assert list(told.body) == ["error"]
    assert write.await_count == (2 if isinstance(error, OutcomeUnknown) else 1)  # repeated there


@pytest.mark.slow
async def test_the_fast_way_takes_no_destination_that_the_usual_one_refuses(door: Door) -> None:
    heads = KnownHeads()
    known = await Client(door, heads).publish()
    assert known[0].status == 200
    different, codes = [], (*range(0x21, 0x7F), 0x80, 0xC3, 0xFF)
    for code, place in product(codes, (b"a%cb?c%cd", b"%c", b"?a%c")):
        statuses = []
        for more in ("", "X-Usual: 1\r\n"):
            connection = Rejecting(door, heads, MessageFastPath)
            line = "POST /qstash/v2/publish/https://example.com/@ HTTP/1.1"
            asked = connection.request(BODY, HEAD + more, line)
            told = await connection.ask(asked.replace(b"@", place % ((code,) * place.count(b"%c"))))
            statuses.append(told.status)
        if statuses[0] != statuses[1]:
            different.append((chr(code), place, statuses))
    assert different == []


async def test_what_is_forwarded_to_a_callback_is_none_of_its_own_headers(door: Door) -> None:
    forwarded = {"method": "x", "retries": "many", "timeout": "soon", "delay": "later"}
    named: dict[str, Any] = {f"callback_forward_{n}": text for n, text in forwarded.items()}
    answer = await door.publish(callback=URL, callback_method="PUT", **named)
    carried = opened((await door.request(answer)).door)
    assert carried is not None
    assert carried.callback is not None
    assert (carried.callback.method, carried.callback.headers) == ("PUT", forwarded)


async def test_a_function_of_one_value_and_a_long_sum_are_numbers(door: Door) -> None:
    answer = await door.publish(retry_delay="max(5000)")
    assert (await door.request(answer)).retry_delays_ms == (5000,) * 3
    answer = await door.publish(retry_delay="1000" + "+1" * 126, retries="20")
    assert (await door.request(answer)).retry_delays_ms == (1126,) * 20


async def test_names_of_headers_that_no_request_can_have_break_no_metric(door: Door) -> None:
    from metrics.families import counter, text

    names = ["upstash-\n# HELP x", 'upstash-"}', "upstash-\x00\r", "upstash-é", "upstash-"]
    answer = await batch(door, [{"destination": URL, "headers": dict.fromkeys(names, "")}])
    assert answer.status_code in (200, 400)
    ignored = door.app.state.service.tally.ignored
    shown = text(counter("x", "x", {(name,): count for name, count in ignored.items()}, ("name",)))
    assert len(shown.strip().split(b"\n")) == len(ignored) + 2


@pytest.mark.parametrize("text", ['"\\ud800"', '"a\\udfffb"', '"\\ud83d\\ude00"'])
async def test_half_a_surrogate_pair_breaks_nothing(door: Door, text: str) -> None:
    for item in (
        '{"destination": %s}',
        '{"destination": "https://example.com/", "body": %s}',
        '{"destination": "https://example.com/", "queue": %s}',
        '{"destination": "https://example.com/", "headers": {%s: "a"}}',
        '{"destination": "https://example.com/", "headers": {"Upstash-Deduplication-Id": %s}}',
        '{"destination": "https://example.com/", "headers": {"Upstash-Label": %s}}',
        '{"destination": "https://example.com/", "headers": {"Upstash-Forward-A": %s}}',
        '{"destination": "https://example.com/", "headers": {"Upstash-Redact-Fields": %s}}',
        '{"destination": "https://example.com/", "headers": {"Upstash-X%s": ""}}',
    ):
        answer = await door.client.post("/qstash/v2/batch", content=f"[{item % text}]")
        assert answer.status_code in (200, 400, 501), (item, answer.text)
    assert await door.store.check() == []


def forged(*place: object) -> str:
    return base64.urlsafe_b64encode(msgspec.msgpack.encode(place)).rstrip(b"=").decode()


CURSORS = [
    "x",
    "\x00",
    "é",
    "A" * 4000,
    forged(2**53, 1, "z" * 3000),
    forged(2**53, 1, "\r\n[("),
    forged(2**53, 0, "9" * 25),
    forged(-1, 0, ""),
    forged(0, 5, ""),
    forged(2**64 - 1, -1, ""),
    forged("0", 1, ""),
    forged(2**53, 1, ""),
    forged({}, [], None),
    "0.0.-." + forged(2**53, 1, "x"),
    "scd_01jd3v9x8kfw3s9s2m2v2v2v2v",
]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "dlq"),
        ("DELETE", "dlq"),
        ("POST", "dlq/retry"),
        ("DELETE", "messages"),
        ("GET", "events"),
        ("GET", "logs"),
        ("GET", "schedules"),
        ("GET", "queues"),
    ],
)
async def test_a_forged_cursor_breaks_nothing(door: Door, method: str, path: str) -> None:
    await fail(door, 2)
    await publish(door, delay="1h")
    for cursor in CURSORS:
        params = {"cursor": cursor, "count": "1"} if path not in ("schedules", "queues") else {}
        answer = await door.client.request(
            method, f"/qstash/v2/{path}", params=params or {"cursor": cursor}
        )
        assert answer.status_code in (200, 400), (cursor, answer.text)
    assert await door.store.check() == []


async def test_without_a_store_each_call_is_a_503(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object, **__: object) -> None:
        raise StoreUnavailable("at 10.0.0.5")

    for name in ("read", "reads", "look_up", "write", "write_until_answered"):
        monkeypatch.setattr(Server, name, away)
    for method, path in ROUTES:
        path = path.replace("{url}", URL).replace("{", "").replace("}", "")
        answer = await door.client.request(method, f"/qstash{path}")
        assert refused(answer, 503) == "The service is temporarily unavailable", (method, path)
        assert answer.headers["retry-after"] == "1"
