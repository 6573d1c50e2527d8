"""/v2/dlq: dead letters read, let go and tried again."""

from __future__ import annotations

from itertools import product
from typing import Any

import msgspec
import pytest

from scheduler.models import Answer, Outcome, Request, Status
from tests.qstash.conftest import URL, Door, door_of
from tests.qstash.ends import (
    LOST,
    NOBODY,
    ask,
    delete,
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


async def is_none(door: Door, letter: str) -> None:
    refused(await ask(door, f"GET dlq/{letter}"), 404)
    refused(await ask(door, f"DELETE dlq/{letter}"), 404)
    assert await get(door, "dlq", dlqIds=letter) == {"messages": []}
    assert await post(door, "dlq/retry", dlqIds=letter) == {"responses": []}


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
    ("status", "answer", "shown"),
    [
        (0, None, {"responseStatus": 0}),
        (500, None, {"responseStatus": 500}),
        (
            500,
            Answer("", b"\xff"),
            {"responseStatus": 500, "responseHeader": {}, "responseBodyBase64": "/w=="},
        ),
    ],
)
async def test_what_an_answer_lacks_is_not_shown(
    door: Door, status: int, answer: Answer | None, shown: dict[str, Any]
) -> None:
    await publish(door, retries="0")
    await end(door, Outcome(Status.FAILED, status, 1, "", answer=answer))
    [found] = (await get(door, "dlq"))["messages"]
    assert {name: found[name] for name in found if name.startswith("response")} == shown


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
    await is_none(door, first)
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
    await is_none(door, letter)


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


async def test_one_is_found_by_its_message(door: Door) -> None:
    made = await fail(door, 2, label="a")
    assert await listed(door, messageId=f"msg_{made[0]}", count=1) == [made[0]]
    assert await listed(door, messageId=f"msg_{made[0]}", label="b") == []
    assert await delete(door, "dlq", messageId=f"msg_{made[0]}", count=100) == {"deleted": 1}


async def test_what_is_no_dead_letter_is_not_found(door: Door) -> None:
    done = await publish(door)
    await end(door)
    waits = await publish(door, delay="60s")
    for letter in (letter_of(done), letter_of(waits), NOBODY[4:], NOBODY, "x"):
        await is_none(door, letter)


async def test_too_many_bytes_are_not_read_at_once(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list has a bound of its own; other calls take as many as a batch may have."""
    service = door.app.state.service
    made = await fail(door, 2, body=b"x" * 60)
    ways = {"dlqIds": made}, {"messageId": [f"msg_{each}" for each in made]}
    monkeypatch.setattr("api.qstash.dlq._MOST_SHOWN_BYTES", 300)
    for named in ways:
        assert "name fewer" in refused(await ask(door, "GET dlq", **named), 400)
        one = {name: ids[0] for name, ids in named.items()}
        assert await listed(door, **one) == made[:1]
    settings = msgspec.structs.replace(service.settings, max_batch_bytes=300)
    monkeypatch.setattr(service, "settings", settings)
    for named, call in product(ways, ("DELETE dlq", "POST dlq/retry")):
        assert "name fewer" in refused(await ask(door, call, **named), 400)
    assert await listed(door) == made[::-1]
