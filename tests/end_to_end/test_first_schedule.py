"""The way of the README: `postdate up`, the key that it printed, and plain HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from scheduler.times import format_iso8601, parse_iso8601
from tests.servers import (
    Customer,
    PostdateProcess,
    Receiver,
    now_ms,
    postdate_json,
    postdate_process,
)

# No JSON library would write it like this again: that is how it is seen to arrive as it was sent.
BODY = '{"amount": 12345678901234567890.10,"name":"Zo\\u00eb — ok",  "deep": { "a" : [1,  2e3] }}'


@pytest.fixture(scope="module")
def customer(postdate_up: PostdateProcess) -> Iterator[Customer]:
    """The holder of the key that the first start printed."""
    with Customer(postdate_up.base_url, postdate_up.api_key) as holder:
        yield holder


@contextmanager
def on_hold(up: PostdateProcess) -> Iterator[None]:
    """Nothing fires within it, however long it lasts."""
    postdate_json("hold", data_dir=up.data_dir)
    try:
        yield
    finally:
        postdate_json("resume", data_dir=up.data_dir)


def test_a_schedule_fires_as_it_was_posted_and_is_logged_counted_and_paid(
    customer: Customer, receiver: Receiver, postdate_up: PostdateProcess
) -> None:
    target = receiver.answer("/hook", status=202) + "?a=1&b=%20"
    credits, (completed, failed) = customer.credits(), customer.counts()
    began_ms = now_ms()
    due_ms = began_ms + 700
    with on_hold(postdate_up):
        answer = customer.post_text(
            f'{{"targetUrl": "{target}", "targetMethod": "put",'
            ' "targetHeaders": {"X-Order": "4711", "Authorization": "Bearer t"},'
            f' "targetBody": {BODY}, "triggerAt": "{format_iso8601(due_ms)}"}}'
        )
        assert answer.status_code == 201
        created = answer.json()
        schedule_id, suffix = created["scheduleId"], created["scheduleId"].removeprefix("sch_")
        assert created["invocationId"] == f"inv_{suffix}"
        assert created["message"]
        assert customer.credits() == credits - 1
        [entry] = customer.entries_of(schedule_id)
        assert (entry["status"], entry["statusCode"], entry["executedAt"]) == ("scheduled", 0, None)

    [received] = receiver.wait_for(1, "/hook")
    assert received.at_ms >= due_ms
    assert (received.method, received.path) == ("PUT", "/hook?a=1&b=%20")
    assert received.body == BODY.encode()
    assert received.headers == {
        **received.headers,
        "host": f"127.0.0.1:{receiver.port}",
        "content-type": "application/json",
        "content-length": str(len(BODY.encode())),
        "x-order": "4711",
        "authorization": "Bearer t",
        "postdate-schedule-id": schedule_id,
        "postdate-invocation-id": created["invocationId"],
        "postdate-attempt": "1",
    }

    entry = customer.outcome(schedule_id)
    assert entry == {
        "scheduleId": schedule_id,
        "invocationId": created["invocationId"],
        "createdAt": entry["createdAt"],
        "scheduledAt": format_iso8601(due_ms),
        "executedAt": entry["executedAt"],
        "targetUrl": target,
        "targetMethod": "PUT",
        "status": "completed",
        "statusCode": 202,
        "responseTimeMs": entry["responseTimeMs"],
        "errorMessage": "",
        "attempt": 1,
        "nextAttemptAt": None,
    }
    created_ms, executed_ms = (parse_iso8601(entry[at]) for at in ("createdAt", "executedAt"))
    assert began_ms <= created_ms <= executed_ms <= now_ms()
    assert due_ms <= executed_ms
    assert 0 <= entry["responseTimeMs"] < 5000
    assert customer.counts() == (completed + 1, failed)
    assert customer.credits() == credits - 1
    assert len(receiver.requests) == 1
    assert postdate_json("check", data_dir=postdate_up.data_dir) == {"problems": []}


def test_a_cancelled_schedule_gives_its_credit_back_and_never_fires(
    customer: Customer, receiver: Receiver, postdate_up: PostdateProcess
) -> None:
    credits, counts = customer.credits(), customer.counts()
    with on_hold(postdate_up):
        cancelled = customer.schedule(receiver.url + "/cancelled")
        later = customer.schedule(receiver.url + "/later")
        answer = customer.cancel(cancelled)
        assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")
        assert answer.json()["creditsRemaining"] == customer.credits() == credits - 1
        assert customer.cancel(cancelled).status_code == 409
    receiver.wait_for(1, "/later")
    assert customer.outcome(later)["status"] == "completed"
    assert receiver.at("/cancelled") == []
    entry = customer.outcome(cancelled)
    assert (entry["status"], entry["statusCode"], entry["executedAt"]) == ("cancelled", 0, None)
    assert customer.counts() == (counts[0] + 1, counts[1])
    assert customer.credits() == credits - 1
    assert customer.cancel(later).status_code == 409
    assert postdate_json("check", data_dir=postdate_up.data_dir) == {"problems": []}


def test_what_is_due_already_fires_at_once_and_without_a_body_it_is_a_get(
    customer: Customer, receiver: Receiver
) -> None:
    schedule_id = customer.schedule(receiver.url + "/now", due_in_s=-3600)
    [received] = receiver.wait_for(1, "/now")
    assert (received.method, received.body) == ("GET", b"")
    assert "content-type" not in received.headers
    assert customer.outcome(schedule_id)["targetMethod"] == "GET"


def test_an_unknown_host_is_a_failure_that_says_so(customer: Customer) -> None:
    """Here, where a fire has its thirty seconds: some machines ask for long before they know."""
    schedule_id = customer.schedule("http://nope.invalid/hook")
    entry = customer.outcome(schedule_id, deadline_s=45)
    assert (entry["status"], entry["statusCode"], entry["errorMessage"]) == (
        "failed",
        0,
        "Could not resolve host",
    )


def test_a_refused_payload_costs_nothing(customer: Customer) -> None:
    credits = customer.credits()
    answer = customer.post("ftp://example.com/", targetMethod="BREW")
    assert answer.status_code == 400
    assert {detail["field"] for detail in answer.json()["details"]} == {
        "targetUrl",
        "targetMethod",
    }
    assert customer.credits() == credits


def test_what_waits_at_an_orderly_stop_fires_after_the_next_start(receiver: Receiver) -> None:
    with PostdateProcess() as up:
        key = up.api_key
        with Customer(up.base_url, key) as before:
            due_ms = now_ms() + 1500
            schedule_id = before.schedule(receiver.url + "/hook", triggerAt=format_iso8601(due_ms))
        assert up.stop() == 0
        up.start()
        [received] = receiver.wait_for(1, "/hook")
        assert received.at_ms >= due_ms
        assert received.schedule_id == schedule_id
        with Customer(up.base_url, key) as after:
            assert after.outcome(schedule_id)["status"] == "completed"
            assert after.credits() == 999_999
        done = postdate_process("check", data_dir=up.data_dir)
        assert (done.returncode, done.stdout) == (0, "Every invariant holds.\n")
