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
from scheduler.store.lifecycle.end.end_rows import Ack
from tests.qstash.conftest import URL, Door, door_of

HOUR_MS = 3_600_000
DONE = Outcome(Status.COMPLETED, 200, 5, "")
FAILED = Outcome(Status.FAILED, 500, 5, "HTTP 500")


async def events(door: Door, name: str = "events", **query: Any) -> list[dict[str, Any]]:
    """All of them, in one answer."""
    answer = await door.client.get(f"/qstash/v2/{name}", params={"count": 1000, **query})
    assert answer.status_code == 200, answer.text
    assert answer.json().keys() == {name}
    return list(answer.json()[name])


async def published(door: Door, url: str = URL, body: bytes = b"hello", **headers: str) -> str:
    answer = await door.publish(url, body, **headers)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["messageId"])


async def attempted(
    door: Door, outcome: Outcome, *, again: bool = False, sent: bool = True
) -> None:
    """An attempt of all that is due, as a worker makes it; the next one is in an hour."""
    shard = keys.parts(door.account_id).shard
    batch = await door.store.claims.claim(shard, lease_ms=15_000, most=1000)
    next_ms = door.store.clock.now_ms() + HOUR_MS if again else None
    lateness_ms = 3 if sent else None
    acks = [Ack(each, outcome, lateness_ms, next_ms) for each in batch.invocations]
    assert acks
    await door.store.ends.ack(shard, acks)


def states(found: list[dict[str, Any]]) -> list[str]:
    return [each["state"] for each in found]


async def test_a_delivered_message_was_created_active_and_delivered(door: Door) -> None:
    message = await published(door, label="one,two", retries="2", retry_delay="15000")
    await attempted(door, DONE)
    found = await events(door)
    assert states(found) == ["DELIVERED", "ACTIVE", "CREATED"]
    found_id = schedule_id(message)
    assert found_id is not None
    [times] = [[each.pop("time") for each in found]]
    assert times == sorted(times, reverse=True)
    assert times[0] - times[1] == DONE.response_time_ms
    assert times[2] == ids.created_at_ms(found_id)
    assert found[0].pop("responseStatus") == 200
    assert found[0].pop("latenessMs") == 3
    due_ms = found[2].pop("nextDeliveryTime")
    assert due_ms == (await door.message({"messageId": message})).request.trigger_at_ms
    for each in found:
        del each["state"]
        assert each.pop("callerIP")
        assert (each.pop("createdAt"), each.pop("notBefore")) == (times[2], due_ms)
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


async def test_a_failed_attempt_is_an_error_and_a_retry(door: Door) -> None:
    await published(door)
    assert states(await events(door)) == ["CREATED"]
    await attempted(door, FAILED, again=True)
    found = await events(door)
    assert states(found) == ["RETRY", "ERROR", "ACTIVE", "CREATED"]
    assert found[0]["nextDeliveryTime"] == pytest.approx(found[0]["time"] + HOUR_MS, abs=5000)
    assert (found[1]["error"], found[1]["responseStatus"]) == ("HTTP 500", 500)
    assert "error" not in found[0]


async def test_the_last_attempt_fails_the_message(door: Door) -> None:
    await published(door)
    await attempted(door, FAILED)
    found = await events(door)
    assert states(found) == ["FAILED", "ERROR", "ACTIVE", "CREATED"]
    assert {each.get("error") for each in found[:2]} == {"HTTP 500"}


async def test_what_was_never_sent_was_not_active(door: Door) -> None:
    await published(door)
    await attempted(door, Outcome(Status.FAILED, 0, 0, "Expired before execution"), sent=False)
    assert states(await events(door)) == ["FAILED", "ERROR", "CREATED"]


async def test_a_cancelled_message_is_canceled(door: Door) -> None:
    waits = await published(door, delay="1h")
    retried = await published(door)
    await attempted(door, FAILED, again=True)
    found = [schedule_id(each) or "" for each in (waits, retried)]
    await door.store.canceller.by_id(door.account_id, found)
    assert states(await events(door, messageId=waits)) == ["CANCELED", "CREATED"]
    expected = ["CANCELED", "RETRY", "ERROR", "ACTIVE", "CREATED"]
    assert states(await events(door, messageId=retried)) == expected


async def test_one_that_is_being_sent_is_active(door: Door) -> None:
    await published(door)
    shard = keys.parts(door.account_id).shard
    await door.store.claims.claim(shard, lease_ms=15_000, most=10)
    assert states(await events(door)) == ["ACTIVE", "CREATED"]


async def some_of_each(door: Door) -> Counter[tuple[str, str]]:
    """Messages in each state; what there is to tell of them."""
    for number in range(6):
        await published(door, f"https://example.com/{number}", label=f"n{number % 2}")
    await attempted(door, FAILED, again=True)
    for number in range(4):
        await published(door, f"https://example.com/done/{number}")
    await attempted(door, DONE)
    for number in range(3):
        await published(door, f"https://example.com/failed/{number}")
    await attempted(door, FAILED)
    for number in range(5):
        await published(door, f"https://example.com/waits/{number}", delay=f"{number + 1}h")
    found = await events(door)
    assert len(found) == 6 * 4 + 4 * 3 + 3 * 4 + 5
    return Counter((each["messageId"], each["state"]) for each in found)


@pytest.mark.parametrize("order", ["latestFirst", "earliestFirst"])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7, 9, 50])
async def test_pages_neither_skip_nor_repeat(door: Door, count: int, order: str) -> None:
    expected = await some_of_each(door)
    whole = await events(door, order=order)
    found, query = list[dict[str, Any]](), {"count": count, "order": order}
    while True:
        answer = (await door.client.get("/qstash/v2/logs", params=query)).json()
        assert len(answer["logs"]) <= max(count, 4)
        found += answer["logs"]
        if "cursor" not in answer:
            break
        query["cursor"] = answer["cursor"]
    assert Counter((each["messageId"], each["state"]) for each in found) == expected
    assert found == whole
    if order == "earliestFirst":
        assert found == (await events(door))[::-1]


async def test_new_events_do_not_disturb_a_walk(door: Door) -> None:
    expected = await some_of_each(door)
    first = (await door.client.get("/qstash/v2/events", params={"count": 3})).json()
    await published(door)
    await attempted(door, DONE)
    query = {"count": 1000, "cursor": first["cursor"]}
    rest = (await door.client.get("/qstash/v2/events", params=query)).json()
    told = Counter((each["messageId"], each["state"]) for each in first["events"] + rest["events"])
    assert all(told[each] == 1 for each in expected)


@pytest.mark.parametrize("order", ["latestFirst", "earliestFirst"])
async def test_an_entry_is_told_as_a_whole(door: Door, order: str) -> None:
    """Though others come to stand before and behind it meanwhile."""
    for number in range(3):
        await published(door, f"https://example.com/{number}")
    await attempted(door, DONE)
    await published(door, "https://example.com/waits", delay="1h")
    expected = Counter((each["messageId"], each["state"]) for each in await events(door))
    told, query = list[dict[str, Any]](), {"count": 1, "order": order}
    for turn in range(100):
        answer = (await door.client.get("/qstash/v2/events", params=query)).json()
        told += answer["events"]
        if "cursor" not in answer:
            break
        query["cursor"] = answer["cursor"]
        if turn < 8:
            await published(door, "https://example.com/new", delay=f"{30 + turn % 2 * 60}m")
    found = Counter((each["messageId"], each["state"]) for each in told)
    assert set(found.values()) == {1}
    assert found.keys() >= expected.keys()


@pytest.mark.parametrize("order", ["latestFirst", "earliestFirst"])
async def test_several_ids_have_one_answer(door: Door, order: str) -> None:
    made = [await published(door) for _ in range(3)]
    await attempted(door, FAILED, again=True)
    query: dict[str, Any] = {"messageIds": made, "order": order}
    of_each = ["RETRY", "ERROR", "ACTIVE", "CREATED"][:: 1 if order == "latestFirst" else -1]
    assert states(await events(door, **query)) == of_each * 3
    assert states(await events(door, **query, count=5)) == of_each * 2


async def test_next_occurrences_and_retries_hide_no_events(door: Door) -> None:
    """They come first in the log, and tell nothing yet."""
    message = await published(door)
    await attempted(door, DONE)
    for number in range(15):
        draft = Draft(Request(0, "POST", URL), Timing("0 9 * * *"), f"native{number}")
        await door.store.recurring.create(door.account_id, draft)
    answer = (await door.client.get("/qstash/v2/events", params={"count": 1})).json()
    assert {each["messageId"] for each in answer["events"]} == {message}


STATES = ("CREATED", "ACTIVE", "RETRY", "ERROR", "DELIVERED", "FAILED", "CANCELED")


async def test_a_state_selects_events(door: Door) -> None:
    expected = Counter(state for _, state in await some_of_each(door))
    for state in STATES:
        found = await events(door, state=state)
        assert len(found) == expected[state]
        assert set(states(found)) <= {state}
    in_progress = await events(door, state="IN_PROGRESS")
    assert Counter(states(in_progress)) == Counter(
        {each: expected[each] for each in ("ACTIVE", "RETRY", "ERROR")}
    )
    assert await events(door, state="CANCEL_REQUESTED") == []


async def test_filters_have_several_values_of_which_one_fits(door: Door) -> None:
    first = await published(door, "https://example.com/a?x=1", label="one,both")
    second = await published(door, "https://example.org/b", label="two,both", queue_name="q")
    third = await published(
        door, "https://example.com/c", flow_control_key="k", flow_control_value="rate=1"
    )
    await attempted(door, DONE)
    waits = await published(door, "https://example.com/a?x=1", label="one", delay="1h")

    async def found(**query: Any) -> set[str]:
        return {each["messageId"] for each in await events(door, **query)}

    assert await found(label="one") == {first, waits}
    assert await found(label=["one", "two"]) == {first, second, waits}
    assert await found(label="none") == set()
    assert await found(url="https://example.com/a?x=1") == {first, waits}
    assert await found(url=["https://example.org/b", "https://example.com/c"]) == {second, third}
    assert await found(host="example.org") == {second}
    assert await found(path="/a") == {first, waits}
    assert await found(path=["/b", "/c"], host="example.com") == {third}
    assert await found(queueName="q") == {second}
    assert await found(flowControlKey="k") == {third}
    assert await found(queueName=["q", "p"], label="both") == {second}
    assert await found(queueName="q", flowControlKey="k") == set()
    assert await found(topicName="group") == set()
    assert await found(messageId=first) == {first}
    assert await found(messageIds=[first, third, "msg_unknown"]) == {first, third}
    assert await found(messageId="msg_unknown") == set()
    assert states(await events(door, messageId=first, state="DELIVERED")) == ["DELIVERED"]


async def test_dates_are_those_of_the_log_both_inclusive(door: Door) -> None:
    await published(door)
    await attempted(door, DONE)
    [delivered] = await events(door, state="DELIVERED")
    at_ms = delivered["time"]
    assert len(await events(door, fromDate=at_ms, toDate=at_ms)) == 3
    assert await events(door, toDate=at_ms - 1) == []
    assert await events(door, fromDate=at_ms + 1) == []


async def test_runs_of_a_schedule_are_events_of_it(door: Door) -> None:
    headers = {"Upstash-Cron": "@every 1s", "Upstash-Schedule-Id": "each"}
    await door.client.post(f"/qstash/v2/schedules/{URL}", headers=headers)
    assert await events(door) == []
    await published(door)
    [rule] = (await door.store.recurring.page(door.account_id)).rules
    created = await door.store.recurring.trigger(door.account_id, rule.recurring_id)
    await attempted(door, DONE)
    found = await events(door, scheduleId="each")
    assert {each["messageId"] for each in found} >= {message_id(created.schedule_ids[0])}
    assert {each["scheduleId"] for each in found} == {"each"}
    assert {"DELIVERED", "CREATED"} <= set(states(found))
    assert await events(door, scheduleId="other") == []
    assert {each["messageId"] for each in await events(door, scheduleId=["each", "other"])} == {
        each["messageId"] for each in found
    }


async def test_native_schedules_have_events_too(door: Door) -> None:
    now_ms = door.store.clock.now_ms()
    plain = Request(now_ms, "GET", "https://example.com/plain?token=secret", lane="eu")
    await door.store.schedules.create_all(door.account_id, [plain], None, now_ms)
    draft = Draft(Request(0, "POST", URL), Timing(every_ms=1000), "native")
    await door.store.recurring.create(door.account_id, draft)
    await attempted(door, DONE)
    found = await events(door, host="example.com")
    of_plain = [each for each in found if each["method"] == "GET"]
    assert states(of_plain) == ["DELIVERED", "ACTIVE", "CREATED"]
    assert "secret" not in str(of_plain)
    assert "queueName" not in of_plain[0]


async def test_secrets_are_masked_and_what_is_redacted(door: Door) -> None:
    await published(
        door,
        "https://example.com/?token=xyzzy",
        b"plugh",
        redact_fields="body,header[X-Private]",
        forward_x_private="xyzzy",
        forward_authorization="Bearer xyzzy",
        forward_x_public="seen",
    )
    await attempted(door, DONE)
    [one, *_] = found = await events(door)
    assert "xyzzy" not in str(found)
    assert base64.b64encode(b"plugh").decode() not in str(found)
    assert one["header"]["X-Public"] == ["seen"]


async def test_a_long_body_is_left_out(door: Door) -> None:
    await published(door, body=b"x" * 3072)
    await published(door, body=b"x" * 3073)
    assert [("body" in each) for each in await events(door)] == [False, True]


async def test_without_its_message_an_event_has_what_the_log_has(door: Door) -> None:
    message = await published(door, label="one", queue_name="q")
    await attempted(door, DONE)
    await door.store.server.call("DEL", keys.schedule(door.account_id, schedule_id(message) or ""))
    [found] = await events(door, state="DELIVERED", label="one")
    assert found["queueName"] == "q"
    assert found["labels"] == ["one"]
    assert "body" not in found


async def test_others_learn_nothing(door: Door) -> None:
    message = await published(door)
    await attempted(door, DONE)
    other = await door_of(door.app, door.store)
    assert await events(other) == []
    assert await events(other, messageId=message) == []


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ({"state": "DONE"}, "state"),
        ({"state": ["ACTIVE", "RETRY"]}, "state"),
        ({"order": "up"}, "order"),
        ({"count": "0"}, "count"),
        ({"count": "1001"}, "count"),
        ({"count": "x"}, "count"),
        ({"fromDate": "yesterday"}, "fromDate"),
        ({"toDate": "-1"}, "toDate"),
        ({"cursor": "x"}, "cursor"),
        ({"callerIp": "1.2.3.4"}, "callerIp"),
        ({"lable": "x"}, "lable"),
        ({"messageIds": ["msg_x"] * 1001}, "messageIds"),
    ],
)
async def test_a_bad_query_is_refused(door: Door, query: dict[str, Any], named: str) -> None:
    answer = await door.client.get("/qstash/v2/events", params=query)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"].startswith(f"{named}: ")


async def test_no_cursor_breaks_an_answer(door: Door) -> None:
    await some_of_each(door)
    query = {"count": 1, "cursor": ""}
    good = (await door.client.get("/qstash/v2/events", params=query)).json()["cursor"]
    random = Random(46)
    for _ in range(300):
        letters = list(good)
        for _ in range(random.randint(1, 3)):
            letters[random.randrange(len(letters))] = random.choice("0123456789abcXYZ-_.")
        query["cursor"] = "".join(letters)
        answer = await door.client.get("/qstash/v2/events", params=query)
        assert answer.status_code in (200, 400), answer.text
