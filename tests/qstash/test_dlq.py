"""/v2/dlq: dead letters read, let go and tried again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.models import Answer, Outcome, Request, Status
from tests.qstash.conftest import URL, Door, door_of
from tests.qstash.ends import (
    LOST,
    NOBODY,
    delete,
    deleted,
    end,
    fail,
    get,
    letter_of,
    post,
    publish,
    refused,
)

FLOW = {"flow_control_key": "k", "flow_control_value": "parallelism=9"}


async def listed(door: Door, **query: Any) -> list[str]:
    """Every one, page by page."""
    found: list[str] = []
    while True:
        page = await get(door, "dlq", **query)
        found += [each["dlqId"] for each in page["messages"]]
        query["cursor"] = page.get("cursor")
        if query["cursor"] is None:
            return found


def message_of(letter: str) -> str:
    return f"msg_{letter}"


async def test_a_dead_letter_is_shown_with_the_answer(door: Door) -> None:
    message_id = await publish(door, body=b"hi", retries="0", label="a", retry_delay="7000")
    shown = await get(door, f"messages/{message_id}")
    await end(door, LOST)
    expected = shown | {
        "dlqId": letter_of(message_id),
        "responseStatus": 404,
        "responseHeader": {"Content-Type": ["text/plain"]},
        "responseBody": "404 Not Found",
    }
    assert await get(door, "dlq") == {"messages": [expected]}
    assert await get(door, f"dlq/{letter_of(message_id)}") == expected


@pytest.mark.parametrize(
    ("outcome", "shown"),
    [
        (Outcome(Status.FAILED, 0, 0, "refused"), {"responseStatus": 0}),
        (Outcome(Status.FAILED, 500, 1, ""), {"responseStatus": 500}),
        (
            Outcome(Status.FAILED, 500, 1, "", answer=Answer("", b"\xff")),
            {"responseStatus": 500, "responseBodyBase64": "/w=="},
        ),
    ],
)
async def test_what_an_answer_lacks_is_not_shown(
    door: Door, outcome: Outcome, shown: dict[str, Any]
) -> None:
    await publish(door, retries="0")
    await end(door, outcome)
    [found] = (await get(door, "dlq"))["messages"]
    said = {name: value for name, value in found.items() if name.startswith("response")}
    assert {
        name: value for name, value in said.items() if value or name == "responseStatus"
    } == shown


async def test_the_newest_come_first_and_pages_neither_skip_nor_repeat(door: Door) -> None:
    made = [(await fail(door))[0] for _ in range(5)]
    assert await listed(door) == await listed(door, count=2) == made[::-1]
    assert len((await get(door, "dlq", count=2))["messages"]) == 2


async def test_native_failures_are_left_alone(door: Door) -> None:
    native = Request(door.store.clock.now_ms() - 1, "POST", URL)
    kept = await door.store.schedules.create(door.account_id, native)
    await end(door, LOST)
    assert await listed(door) == []
    assert await delete(door, "dlq", count=100) == {"deleted": 0}
    assert await post(door, "dlq/retry", count=100) == {"responses": []}
    assert await listed(door, dlqIds=kept[4:]) == [kept[4:]], "it is named"
    assert await delete(door, f"dlq/{kept[4:]}") == {"deleted": 1}


async def test_one_that_is_deleted_is_gone_for_good(door: Door) -> None:
    first, second = await fail(door, 2)
    assert await delete(door, f"dlq/{first}") == {"deleted": 1}
    assert await listed(door) == [second]
    refused(await deleted(door, f"dlq/{first}"), 404)
    refused(await door.client.get(f"/qstash/v2/dlq/{first}"), 404)
    assert await post(door, "dlq/retry", dlqIds=first) == {"responses": []}
    assert await door.store.check() == []


@pytest.mark.parametrize("by_query", [True, False])
async def test_many_are_deleted_by_their_ids(door: Door, by_query: bool) -> None:
    made = await fail(door, 3)
    named = {"dlqIds": [*made[:2], made[0], NOBODY[4:], "x"]}
    query, body = (named, None) if by_query else ({}, named)
    assert await delete(door, "dlq", body, **query) == {"deleted": 2}
    assert await delete(door, "dlq", body, **query) == {"deleted": 0}
    assert await listed(door) == made[2:]


async def test_all_are_deleted_a_count_at_a_time(door: Door) -> None:
    made = await fail(door, 3)
    first = await delete(door, "dlq", count=2)
    assert (first.pop("deleted"), list(first)) == (2, ["cursor"])
    assert await delete(door, "dlq", count=2, **first) == {"deleted": 1}
    assert await listed(door, dlqIds=made) == []


async def test_one_that_is_tried_again_is_a_new_message(door: Door) -> None:
    [letter] = await fail(door, body=b"hi", retries="2", label="a", **FLOW)
    before = await get(door, f"dlq/{letter}")
    credits = await door.credits()
    [new] = (await post(door, "dlq/retry", dlqIds=letter))["responses"]
    assert await door.credits() == credits - 1
    after = await get(door, f"messages/{new['messageId']}")
    own = {"messageId", "createdAt", "notBefore"}
    assert {k: v for k, v in after.items() if k not in own} == {
        k: v for k, v in before.items() if k not in own | {"dlqId"} and not k.startswith("response")
    }
    assert await listed(door) == []
    refused(await deleted(door, f"dlq/{letter}"), 404)
    assert await post(door, "dlq/retry", dlqIds=[letter]) == {"responses": []}


async def test_many_are_tried_again(door: Door) -> None:
    made = await fail(door, 3, label="a")
    first = await post(door, "dlq/retry", dlqIds=made[:2])
    assert (len(first["responses"]), "cursor" in first) == (2, False)
    await end(door, LOST)
    rest = await post(door, "dlq/retry", label="a", count=1)
    assert (len(rest["responses"]), list(rest)) == (1, ["responses", "cursor"])
    last = await post(door, "dlq/retry", label="a", count=100)
    assert (len(last["responses"]), list(last)) == (2, ["responses"])


async def test_without_credits_none_is_tried_again(door: Door) -> None:
    poor = await door_of(door.app, door.store, credits=1)
    [letter] = await fail(poor)
    refused(await poor.client.post("/qstash/v2/dlq/retry", params={"dlqIds": letter}), 402)
    assert await listed(poor) == [letter]


FILTERS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {"url": URL}),
    ({"label": "a,b"}, {"label": ["b", "x"]}),
    (FLOW, {"flowControlKey": "k"}),
    ({}, {"url": [URL, "https://example.com/none"], "responseStatus": 404}),
    ({}, {"url": URL, "fromDate": 1, "toDate": 4_070_908_800_000}),
]
OTHER: dict[str, Any] = {"url": "https://example.org/other"}


@pytest.mark.parametrize(("sent", "query"), FILTERS)
async def test_a_filter_means_those_that_fit(door: Door, sent: Any, query: Any) -> None:
    made = await fail(door, 2, **sent)
    [other] = await fail(door, **OTHER)
    assert await listed(door, **query) == made[::-1]
    assert len((await post(door, "dlq/retry", **query))["responses"]) == 2
    await end(door, LOST)
    assert await delete(door, "dlq", **query) == {"deleted": 2}
    assert await listed(door) == [other]


NONE: list[dict[str, Any]] = [
    {"messageId": "non-existent-id"},
    {"messageId": NOBODY},
    {"url": "https://non-existent-url.example.com"},
    {"topicName": "non-existent-url-group"},
    {"scheduleId": "non-existent-schedule"},
    {"queueName": "non-existent-queue"},
    {"callerIp": "0.0.0.0"},
    {"label": "non-existent-label"},
    {"flowControlKey": "non-existent-key"},
    {"responseStatus": 999},
    {"fromDate": 4_070_908_800_000},
    {"toDate": 946_684_800_000},
]


@pytest.mark.parametrize("query", NONE)
async def test_a_filter_that_nothing_fits_means_none(door: Door, query: Any) -> None:
    made = await fail(door, label="a", **FLOW)
    assert await get(door, "dlq", **query) == {"messages": []}
    assert await post(door, "dlq/retry", **query) == {"responses": []}
    assert await delete(door, "dlq", **query) == {"deleted": 0}
    assert await listed(door) == made


async def test_one_is_found_by_its_message(door: Door) -> None:
    made = await fail(door, 2, label="a")
    assert await listed(door, messageId=message_of(made[0]), count=1) == [made[0]]
    assert await listed(door, messageId=message_of(made[0]), label="b") == []
    assert await delete(door, "dlq", messageId=message_of(made[0]), count=100) == {"deleted": 1}


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ({"labeel": "x", "count": 100}, "labeel"),
        ({"host": "example.com"}, "host"),
        ({"count": 0}, "count"),
        ({"responseStatus": "bad"}, "responseStatus"),
        ({"dlqIds": "x", "label": "x"}, "dlqIds"),
        ({"cursor": "x"}, "cursor"),
    ],
)
async def test_a_bad_filter_is_named_and_changes_nothing(
    door: Door, query: Any, named: str
) -> None:
    made = await fail(door)
    answers = [
        await door.client.get("/qstash/v2/dlq", params=query),
        await deleted(door, "dlq", **query),
        await door.client.post("/qstash/v2/dlq/retry", params=query),
    ]
    assert [named in refused(each, 400) for each in answers] == [True] * 3
    assert await listed(door) == made


async def test_those_of_another_account_are_not_found_and_stay(door: Door) -> None:
    [letter] = await fail(door)
    other = await door_of(door.app, door.store)
    refused(await other.client.get(f"/qstash/v2/dlq/{letter}"), 404)
    refused(await deleted(other, f"dlq/{letter}"), 404)
    for query in ({"dlqIds": letter}, {"messageId": message_of(letter)}, {"count": 9}):
        assert await get(other, "dlq", **query) == {"messages": []}
        assert await delete(other, "dlq", **query) == {"deleted": 0}
        assert await post(other, "dlq/retry", **query) == {"responses": []}
    assert await listed(door) == [letter]


@pytest.mark.parametrize("letter", [NOBODY[4:], NOBODY, "x"])
async def test_what_is_none_is_not_found(door: Door, letter: str) -> None:
    refused(await door.client.get(f"/qstash/v2/dlq/{letter}"), 404)
    refused(await deleted(door, f"dlq/{letter}"), 404)


async def test_a_waiting_or_delivered_message_is_none(door: Door) -> None:
    done = await publish(door)
    await end(door)
    waits = await publish(door, delay="60s")
    for each in (done, waits):
        refused(await door.client.get(f"/qstash/v2/dlq/{letter_of(each)}"), 404)
        assert await listed(door, dlqIds=letter_of(each)) == []
        assert await post(door, "dlq/retry", dlqIds=letter_of(each)) == {"responses": []}


async def test_too_many_bytes_are_not_read_at_once(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as a batch may have."""
    settings = msgspec.structs.replace(door.app.state.service.settings, max_batch_bytes=300)
    made = await fail(door, 2, body=b"x" * 60)
    monkeypatch.setattr(door.app.state.service, "settings", settings)
    assert await listed(door, dlqIds=made[0]) == made[:1]
    for method, path in (("GET", "dlq"), ("DELETE", "dlq"), ("POST", "dlq/retry")):
        answer = await door.client.request(method, f"/qstash/v2/{path}", params={"dlqIds": made})
        assert "name fewer" in refused(answer, 400)
    assert await listed(door) == made[::-1]
