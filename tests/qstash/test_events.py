"""Events of QStash: what each entry of the log says, in pages, by filters."""

from __future__ import annotations

import base64
from collections import Counter
from random import Random
from typing import Any

import pytest

from scheduler import ids
from scheduler.models import Outcome, Request, Status
from scheduler.qstash.names import message_id, schedule_id
from scheduler.recurrence.recurrence import Timing
from scheduler.recurrence.recurring import Draft
from scheduler.store import keys
from tests.qstash.conftest import URL, Door
from tests.qstash.ends import DONE, ask, claim, end, get, publish

HOUR_MS = 3_600_000
FAILED = Outcome(Status.FAILED, 500, 5, "HTTP 500")
EXPIRED = Outcome(Status.FAILED, 0, 0, "Expired before execution")


async def events(door: Door, name: str = "events", **query: Any) -> list[dict[str, Any]]:
    """All of them, in one answer."""
    answer = await get(door, name, **{"count": 1000, **query})
    assert answer.keys() == {name}
    return list(answer[name])


def states(found: list[dict[str, Any]]) -> list[str]:
    return [each["state"] for each in found]


def told(found: list[dict[str, Any]]) -> Counter[tuple[str, str]]:
    return Counter((each["messageId"], each["state"]) for each in found)


async def test_a_delivered_message_was_created_active_and_delivered(door: Door) -> None:
    message = await publish(door, label="one,two", retries="2", retry_delay="15000")
    await end(door, lateness_ms=3)
    found = await events(door)
    assert states(found) == ["DELIVERED", "ACTIVE", "CREATED"]
    found_id = schedule_id(message)
    assert found_id is not None
    ended_ms, sent_ms, created_ms = [each.pop("time") for each in found]
    assert ended_ms - sent_ms == DONE.response_time_ms
    assert created_ms == ids.created_at_ms(found_id)
    assert found[0].pop("responseStatus") == 200
    assert found[0].pop("latenessMs") == 3
    due_ms = found[2].pop("nextDeliveryTime")
    assert due_ms == (await door.message({"messageId": message})).request.trigger_at_ms
    for each in found:
        del each["state"]
        assert each.pop("callerIP")
        assert (each.pop("createdAt"), each.pop("notBefore")) == (created_ms, due_ms)
        assert each == {
            "messageId": message,
            "url": URL,
            "method": "POST",
            "body": base64.b64encode(b"hello").decode(),
            "label": "one",
            "labels": ["one", "two"],
            "maxRetries": 2,
            "retryDelayExpr": "15000",
            "retryDelayExpression": "15000",
        }
    assert await events(door, "logs") == await events(door)


async def test_a_failed_attempt_says_why_and_when_the_next_one_is(door: Door) -> None:
    await publish(door)
    await end(door, FAILED, wait_ms=HOUR_MS)
    retry, error, *_ = await events(door)
    assert retry["nextDeliveryTime"] == pytest.approx(retry["time"] + HOUR_MS, abs=5000)
    assert (error["error"], error["responseStatus"]) == ("HTTP 500", 500)
    assert "error" not in retry


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ("", "CREATED"),
        ("claim", "ACTIVE CREATED"),
        ("done", "DELIVERED ACTIVE CREATED"),
        ("again", "RETRY ERROR ACTIVE CREATED"),
        ("failed", "FAILED ERROR ACTIVE CREATED"),
        ("expired", "FAILED ERROR CREATED"),
        ("cancel", "CANCELED CREATED"),
        ("again cancel", "CANCELED RETRY ERROR ACTIVE CREATED"),
    ],
)
async def test_what_became_of_a_message_are_its_events(
    door: Door, steps: str, expected: str
) -> None:
    message = await publish(door, **({"delay": "1h"} if steps == "cancel" else {}))
    for step in steps.split():
        match step:
            case "claim":
                await claim(door)
            case "done":
                await end(door)
            case "again":
                await end(door, FAILED, wait_ms=HOUR_MS)
            case "failed":
                await end(door, FAILED)
            case "expired":
                await end(door, EXPIRED, lateness_ms=None)
            case _:
                await door.store.canceller.by_id(door.account_id, [schedule_id(message) or ""])
    found = await events(door)
    assert states(found) == expected.split()
    if steps == "failed":
        assert {each.get("error") for each in found[:2]} == {"HTTP 500"}


async def some_of_each(door: Door) -> Counter[tuple[str, str]]:
    """Messages in each state; what there is to tell of them."""
    for count, outcome, wait_ms in ((3, FAILED, HOUR_MS), (2, DONE, None), (2, FAILED, None)):
        for _ in range(count):
            await publish(door)
        await end(door, outcome, wait_ms=wait_ms)
    for number in range(3):
        await publish(door, delay=f"{number + 1}h")
    found = await events(door)
    assert len(found) == 3 * 4 + 2 * 3 + 2 * 4 + 3
    return told(found)


async def test_pages_neither_skip_nor_repeat(door: Door) -> None:
    expected = await some_of_each(door)
    whole = await events(door)
    for order in ("latestFirst", "earliestFirst"):
        for count in (1, 2, 3, 5, 25):
            found, query = list[dict[str, Any]](), {"count": count, "order": order}
            while page := await get(door, "logs", **query):
                assert len(page["logs"]) <= max(count, 4)
                found += page["logs"]
                if "cursor" not in page:
                    break
                query["cursor"] = page["cursor"]
            assert told(found) == expected
            assert found == (whole if order == "latestFirst" else whole[::-1])


@pytest.mark.parametrize("order", ["latestFirst", "earliestFirst"])
async def test_an_entry_is_told_as_a_whole(door: Door, order: str) -> None:
    """Though others come to stand before and behind it meanwhile."""
    for number in range(3):
        await publish(door, url=f"https://example.com/{number}")
    await end(door)
    await publish(door, url="https://example.com/waits", delay="1h")
    expected = told(await events(door))
    found, query = list[dict[str, Any]](), {"count": 1, "order": order}
    for turn in range(100):
        page = await get(door, "events", **query)
        found += page["events"]
        if "cursor" not in page:
            break
        query["cursor"] = page["cursor"]
        if turn < 8:
            await publish(door, delay=f"{30 + turn % 2 * 60}m")
        if turn == 3:
            await publish(door)
            await end(door)
    assert set(told(found).values()) == {1}
    assert told(found).keys() >= expected.keys()


@pytest.mark.parametrize("order", ["latestFirst", "earliestFirst"])
async def test_several_ids_have_one_answer(door: Door, order: str) -> None:
    made = [await publish(door) for _ in range(3)]
    await end(door, FAILED, wait_ms=HOUR_MS)
    query: dict[str, Any] = {"messageIds": made, "order": order}
    of_each = ["RETRY", "ERROR", "ACTIVE", "CREATED"][:: 1 if order == "latestFirst" else -1]
    assert states(await events(door, **query)) == of_each * 3
    assert states(await events(door, **query, count=5)) == of_each * 2


async def test_next_occurrences_and_retries_hide_no_events(door: Door) -> None:
    """They come first in the log, and tell nothing yet."""
    message = await publish(door)
    await end(door)
    for number in range(15):
        draft = Draft(Request(0, "POST", URL), Timing("0 9 * * *"), f"native{number}")
        await door.store.recurring.create(door.account_id, draft)
    page = await get(door, "events", count=1)
    assert {each["messageId"] for each in page["events"]} == {message}


async def test_a_state_selects_events(door: Door) -> None:
    expected = Counter(state for _, state in await some_of_each(door))
    for state in ("CREATED", "ACTIVE", "RETRY", "ERROR", "DELIVERED", "FAILED", "CANCELED"):
        assert states(await events(door, state=state)) == [state] * expected[state]
    in_progress = {each: expected[each] for each in ("ACTIVE", "RETRY", "ERROR")}
    assert Counter(states(await events(door, state="IN_PROGRESS"))) == in_progress
    assert await events(door, state="CANCEL_REQUESTED") == []


async def test_messages_are_named_by_either_filter(door: Door) -> None:
    first, second, _ = [await publish(door) for _ in range(3)]
    await end(door)
    some = await events(door, messageIds=[first, second, "msg_unknown"])
    assert {each["messageId"] for each in some} == {first, second}
    [delivered] = await events(door, messageId=first, state="DELIVERED")
    assert (delivered["messageId"], delivered["state"]) == (first, "DELIVERED")


async def test_dates_are_those_of_the_log_both_inclusive(door: Door) -> None:
    await publish(door)
    await end(door)
    [delivered] = await events(door, state="DELIVERED")
    at_ms = delivered["time"]
    assert len(await events(door, fromDate=at_ms, toDate=at_ms)) == 3
    assert await events(door, toDate=at_ms - 1) == []
    assert await events(door, fromDate=at_ms + 1) == []


async def test_runs_of_a_schedule_are_events_of_it(door: Door) -> None:
    headers = {"Upstash-Cron": "@every 1s", "Upstash-Schedule-Id": "each"}
    await door.client.post(f"/qstash/v2/schedules/{URL}", headers=headers)
    assert await events(door) == []
    await publish(door)
    [rule] = (await door.store.recurring.page(door.account_id)).rules
    created = await door.store.recurring.trigger(door.account_id, rule.recurring_id)
    await end(door)
    found = await events(door, scheduleId="each")
    assert {each["messageId"] for each in found} >= {message_id(created.schedule_ids[0])}
    assert {each["scheduleId"] for each in found} == {"each"}
    assert {"DELIVERED", "CREATED"} <= set(states(found))
    assert await events(door, scheduleId="other") == []
    assert await events(door, scheduleId=["each", "other"]) == found


async def test_native_schedules_have_events_too(door: Door) -> None:
    now_ms = door.store.clock.now_ms()
    plain = Request(now_ms, "GET", "https://example.com/plain?token=secret", lane="eu")
    await door.store.schedules.create_all(door.account_id, [plain], None, now_ms)
    draft = Draft(Request(0, "POST", URL), Timing(every_ms=1000), "native")
    await door.store.recurring.create(door.account_id, draft)
    await end(door)
    found = await events(door, host="example.com")
    of_plain = [each for each in found if each["method"] == "GET"]
    assert states(of_plain) == ["DELIVERED", "ACTIVE", "CREATED"]
    assert "secret" not in str(of_plain)
    assert "queueName" not in of_plain[0]


async def test_a_long_body_is_left_out(door: Door) -> None:
    await publish(door, body=b"x" * 3072)
    await publish(door, body=b"x" * 3073)
    assert [("body" in each) for each in await events(door)] == [False, True]


async def test_without_its_message_an_event_has_what_the_log_has(door: Door) -> None:
    message = await publish(door, label="one", queue_name="q")
    await end(door)
    await door.store.server.call("DEL", keys.schedule(door.account_id, schedule_id(message) or ""))
    [found] = await events(door, state="DELIVERED", label="one")
    assert found["queueName"] == "q"
    assert found["labels"] == ["one"]
    assert "body" not in found


async def test_no_cursor_breaks_an_answer(door: Door) -> None:
    await some_of_each(door)
    query = {"count": 1, "cursor": ""}
    good = (await get(door, "events", **query))["cursor"]
    random = Random(46)
    for _ in range(150):
        letters = list(good)
        for _ in range(random.randint(1, 3)):
            letters[random.randrange(len(letters))] = random.choice("0123456789abcXYZ-_.")
        query["cursor"] = "".join(letters)
        answer = await ask(door, "GET events", **query)
        assert answer.status_code in (200, 400), answer.text
