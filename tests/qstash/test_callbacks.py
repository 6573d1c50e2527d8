"""The callback of a message: what it says, and how it is sent."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import Any

import pytest

from scheduler.callbacks import Callback, Response
from scheduler.masks import MASK
from scheduler.models import Answer, Occurrence, Outcome, Request, RetryOn, Schedule, Status
from scheduler.qstash.callbacks import callback_of
from scheduler.qstash.carried import CallbackWay, Carried, pack
from scheduler.store import keys
from tests.qstash.conftest import Door
from tests.qstash.ends import claim, end, publish
from tests.support.plain import redis_of

ID, DUE_MS, URL = "01jd3m0000e0080000000000a0", 2_000, "https://example.com/back"
DONE = Outcome(Status.COMPLETED, 201, 12, "")
FAILED = Outcome(Status.FAILED, 503, 12, "Service Unavailable", answer=Answer("text/plain", b"no"))
SILENT = Outcome(Status.FAILED, 0, 30_000, "Timeout after 30 seconds")
SAID = Response((("content-type", "text/plain"), ("x-a", "1"), ("X-A", "2")), b"\xff done")
WISH = Callback(URL, failure_url="https://example.com/failed", with_response=True)
OWN = {"content-type": "application/json", "user-agent": "Upstash-QStash"}


def ended(
    outcome: Outcome = DONE,
    carried: Carried | None = None,
    response: Response | None = SAID,
    attempts: int = 1,
    **fields: Any,
) -> Schedule:
    usual = {"headers": {"content-type": "text/x"}, "body": b"{\xc3\xbc}", "retries": 3}
    door, url = pack(carried or Carried()), "https://example.com/?token=t"
    request = Request(1_000, "PUT", url, **usual | {"callback": WISH} | fields, door=door)
    return Schedule(
        f"sch_{ID}", 500, request, outcome.status, outcome=outcome, attempts=attempts,
        response=response, ended_at_ms=1_500,
    )  # fmt: skip


def body_of(schedule: Schedule) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(callback_of(schedule, URL, DUE_MS).body or b"")
    return found


def test_it_says_what_was_sent_and_what_came_back() -> None:
    assert body_of(ended()) == {
        "status": 201,
        "header": {"Content-Type": ["text/plain"], "X-A": ["1", "2"]},
        "body": b64encode(b"\xff done").decode(),
        "retried": 0,
        "maxRetries": 3,
        "sourceMessageId": f"msg_{ID}",
        "url": f"https://example.com/?token={MASK}",
        "method": "PUT",
        "sourceHeader": {"Content-Type": ["text/x"]},
        "sourceBody": b64encode("{ü}".encode()).decode(),
        "createdAt": 500,
        "notBefore": 1000,
    }


def test_a_failure_names_its_dead_letter_and_a_schedule_its_id() -> None:
    carried = Carried(caller_ip="192.0.2.1", schedule_id="daily")
    occurrence = Occurrence("rec_01jd3m0000e0080000000000a0", 0)
    found = body_of(ended(FAILED, carried, attempts=9, recurring=occurrence))
    assert (found["status"], found["retried"], found["maxRetries"]) == (503, 3, 3)
    assert (found["dlqId"], found["scheduleId"], found["callerIP"]) == (ID, "daily", "192.0.2.1")


@pytest.mark.parametrize(
    ("outcome", "shown"),
    [(SILENT, (0, {}, b"Timeout after 30 seconds")), (DONE, (201, {}, b""))],
)
def test_without_an_answer_it_says_why(outcome: Outcome, shown: tuple[object, ...]) -> None:
    found = body_of(ended(outcome, response=None))
    assert (found["status"], found["header"], b64decode(found["body"])) == shown


def test_it_shows_no_secret_and_nothing_that_is_hidden() -> None:
    headers = {"Authorization": "Bearer hush", "X-Own": "hush", "X-Else": "else"}
    found = body_of(ended(carried=Carried(redacted="body,header[x-own]"), headers=headers))
    assert found["sourceHeader"]["Authorization"] == [MASK]
    assert found["sourceHeader"]["X-Else"] == ["else"]
    assert found["sourceHeader"]["X-Own"][0].startswith("REDACTED:")
    assert b64decode(found["sourceBody"]).startswith(b"REDACTED:")


def test_it_is_sent_as_a_message_is_unless_the_caller_said_how() -> None:
    waits = {"retry_delays_ms": (1000, 2000)}
    request = callback_of(ended(**waits), URL, DUE_MS)
    assert (request.trigger_at_ms, request.method, request.url) == (DUE_MS, "POST", URL)
    assert request.headers == OWN
    assert (request.retries, request.retry_delays_ms) == (3, (1000, 2000))
    assert (request.retry_on, request.timeout_s) == (RetryOn.ANY, 30)
    assert request.door is not None
    assert request.recurring is None


@pytest.mark.parametrize(
    ("outcome", "wish", "method"),
    [
        (DONE, WISH, "GET"),
        (FAILED, WISH, "PATCH"),
        (FAILED, Callback(URL), "GET"),
        (DONE, Callback(URL), "GET"),
    ],
)
def test_each_of_both_has_its_own_way(outcome: Outcome, wish: Callback, method: str) -> None:
    ways = Carried(
        callback=CallbackWay("GET", 0, headers={"user-agent": "own"}, timeout_s=7),
        failure_callback=CallbackWay("PATCH", 5, headers={"x-own": "1"}),
    )
    request = callback_of(ended(outcome, ways, callback=wish), URL, DUE_MS)
    assert request.method == method
    if method == "GET":
        assert request.headers == OWN | {"user-agent": "own"}
        assert (request.retries, request.timeout_s) == (0, 7)
    else:
        assert request.headers == OWN | {"x-own": "1"}
        assert (request.retries, request.timeout_s) == (5, 30)


@pytest.mark.parametrize(("outcome", "waits"), [(DONE, True), (FAILED, False)])
async def test_a_callback_waits_for_as_long_as_its_caller_said(
    door: Door, outcome: Outcome, waits: bool
) -> None:
    """That of a failure has a way of its own. Of two that end together each waits for itself."""
    wish = {"callback": URL, "failure_callback": URL}
    await publish(door, callback_delay="40s", **wish)
    await publish(door, **wish)
    before_ms = door.store.clock.now_ms()
    await end(door, outcome)
    base = keys.account(door.account_id)
    due = await redis_of(door.store).zrange(base + keys.CALLBACKS, 0, -1, withscores=True)
    late = [at_ms for _, at_ms in due if at_ms >= before_ms + 40_000]
    assert (len(due), len(late)) == (2, int(waits))
    assert all(at_ms < before_ms + 70_000 for _, at_ms in due)
    reports = await claim(door)
    assert len(reports) == 2 - len(late)
    assert all(each.is_callback and each.request.door for each in reports)
    assert await door.store.check() == []
