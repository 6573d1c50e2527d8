"""Filters: which messages, dead letters and events they mean, and what is no filter."""

from __future__ import annotations

from typing import Any

import pytest

from tests.qstash.conftest import URL, Door
from tests.qstash.ends import LOST, NOBODY, ask, end, fail, get, publish, refused, said

A, B, C = "https://example.com/a?x=1", "https://example.org/b", "https://example.com/c"
SENT: dict[str, dict[str, str]] = {
    "a": {"url": A, "label": "one,both"},
    "b": {"url": B, "label": "two,both", "queue_name": "q"},
    "c": {"url": C, "flow_control_key": "k", "flow_control_value": "parallelism=9"},
}
UNKNOWN = {
    "messages": {"messageId", "responseStatus"},
    "dlq": {"host", "path"},
    "events": {"callerIp", "responseStatus"},
}
FAR_MS = 4_070_908_800_000


@pytest.mark.parametrize(
    ("query", "fits"),
    [
        ({"url": A}, "a"),
        ({"url": [B, C, URL]}, "bc"),
        ({"url": "https://example.com/a"}, ""),
        ({"host": "example.com"}, "ac"),
        ({"path": "/a"}, "a"),
        ({"path": ["/b", "/c"], "host": "example.com"}, "c"),
        ({"label": "one"}, "a"),
        ({"label": ["one", "two", "x"]}, "ab"),
        ({"label": "both", "url": B}, "b"),
        ({"label": "one", "url": B}, ""),
        ({"label": "none"}, ""),
        ({"queueName": "q"}, "b"),
        ({"queueName": ["q", "p"], "label": "both"}, "b"),
        ({"queueName": "none"}, ""),
        ({"flowControlKey": "k"}, "c"),
        ({"flowControlKey": ["j", "k"]}, "c"),
        ({"flowControlKey": "k", "queueName": "k"}, ""),
        ({"flowControlKey": "none"}, ""),
        ({"scheduleId": "none"}, ""),
        ({"topicName": "none"}, ""),
        ({"callerIp": "127.0.0.1"}, "abc"),
        ({"callerIp": "0.0.0.0"}, ""),
        ({"messageId": NOBODY}, ""),
        ({"messageId": "none"}, ""),
        ({"responseStatus": 404, "url": [A, C]}, "ac"),
        ({"responseStatus": 999}, ""),
        ({"fromDate": 1, "toDate": FAR_MS}, "abc"),
        ({"fromDate": FAR_MS}, ""),
        ({"toDate": 946_684_800_000}, ""),
    ],
)
async def test_a_filter_means_those_that_fit(door: Door, query: dict[str, Any], fits: str) -> None:
    made = {await publish(door, **sent): name for name, sent in SENT.items()}
    await end(door, LOST)
    for noun, member in (("dlq", "messages"), ("events", "events")):
        answer = await ask(door, f"GET {noun}", **query)
        if not is_refused(noun, query, answer):
            found = {made[each["messageId"]] for each in (await said(answer))[member]}
            assert "".join(sorted(found)) == fits, noun
    for given in ({"params": query}, {"json": query}):
        made = {await publish(door, delay="10d", **sent): name for name, sent in SENT.items()}
        answer = await door.client.request("DELETE", "/qstash/v2/messages", **given)
        if not is_refused("messages", query, answer):
            assert await said(answer) == {"cancelled": len(fits)}
            asked = {name: await ask(door, f"GET messages/{m}") for m, name in made.items()}
            assert "".join(name for name, seen in asked.items() if seen.status_code == 404) == fits


def is_refused(noun: str, query: dict[str, Any], answer: Any) -> bool:
    """By a noun without such a filter."""
    unknown = UNKNOWN[noun].intersection(query)
    return bool(unknown) and refused(answer, 400).partition(":")[0] in unknown


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ({"labeel": "x", "count": 100}, "labeel"),
        ({"label": ["x"] * 1001}, "label"),
        ({"count": 0}, "count"),
        ({"count": 1001}, "count"),
        ({"count": "many"}, "count"),
        ({"fromDate": "yesterday"}, "fromDate"),
        ({"toDate": -1}, "toDate"),
        ({"cursor": "x"}, "cursor"),
    ],
)
async def test_a_bad_filter_is_named_and_changes_nothing(
    door: Door, query: dict[str, Any], named: str
) -> None:
    await fail(door)
    await publish(door, delay="10d", label="x")
    before = [await get(door, noun) for noun in ("dlq", "events")]
    for call in ("GET dlq", "DELETE dlq", "POST dlq/retry", "GET events", "DELETE messages"):
        assert named in refused(await ask(door, call, **query), 400), call
    assert [await get(door, noun) for noun in ("dlq", "events")] == before


@pytest.mark.parametrize(
    ("call", "query", "named"),
    [
        ("GET dlq", {"responseStatus": "bad"}, "responseStatus"),
        ("GET dlq", {"dlqIds": "x", "label": "x"}, "dlqIds"),
        ("DELETE messages", {"messageIds": NOBODY, "label": "x"}, "messageIds"),
        ("GET events", {"state": "DONE"}, "state"),
        ("GET events", {"state": ["ACTIVE", "RETRY"]}, "state"),
        ("GET events", {"order": "up"}, "order"),
    ],
)
async def test_each_noun_has_rules_of_its_own(
    door: Door, call: str, query: dict[str, Any], named: str
) -> None:
    assert named in refused(await ask(door, call, **query), 400)
