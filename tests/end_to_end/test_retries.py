"""Attempts that fail and are made again, as the target and the customer see them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from scheduler.times import format_iso8601, parse_iso8601
from tests.servers import Customer, Deployment, Receiver, free_port, now_ms, until

LIMIT_MS = 700
ONE = {"retries": 1, "retryDelays": ["1s"]}


@pytest.fixture(scope="module")
def deployment() -> Iterator[Deployment]:
    with Deployment(fire_timeout_ms=LIMIT_MS) as running:
        running.api()
        running.worker()
        yield running


@pytest.fixture
def customer(deployment: Deployment) -> Iterator[Customer]:
    holder = deployment.customer(credits=5)
    yield holder
    assert deployment.problems() == []


def stands(customer: Customer, schedule_id: str) -> dict[str, Any]:
    answer = customer.get(f"/schedule/{schedule_id}")
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def waiting(customer: Customer, schedule_id: str, attempts: int = 1) -> dict[str, Any]:
    """The schedule, once so many attempts have failed and it waits for the next."""

    def found() -> dict[str, Any] | None:
        now = stands(customer, schedule_id)
        return now if now["attempts"] == attempts and now["nextAttemptAt"] else None

    return until(found, f"{attempts} attempts of {schedule_id}")


def ended(customer: Customer, schedule_id: str) -> dict[str, Any]:
    def found() -> dict[str, Any] | None:
        now = stands(customer, schedule_id)
        return None if now["status"] == "scheduled" else now

    return until(found, f"the end of {schedule_id}")


def waits_s(now: dict[str, Any]) -> float:
    return (parse_iso8601(now["nextAttemptAt"]) - parse_iso8601(now["executedAt"])) / 1000


def test_an_attempt_that_fails_is_made_again_under_the_same_invocation(
    customer: Customer, receiver: Receiver
) -> None:
    target = receiver.answer("/hook", status=503)
    schedule_id = customer.schedule(target, targetBody={"n": 1}, **ONE)
    between = waiting(customer, schedule_id)
    receiver.answer("/hook", status=200)
    assert (between["status"], between["statusCode"]) == ("scheduled", 503)
    assert between["errorMessage"] == "Service Unavailable"
    [attempt] = customer.log(status="retrying")
    assert (attempt["attempt"], attempt["statusCode"]) == (1, 503)
    assert attempt["nextAttemptAt"] == between["nextAttemptAt"]
    first, second = receiver.wait_for(2, "/hook")
    assert second.at_ms >= parse_iso8601(between["nextAttemptAt"])
    assert second.at_ms - first.at_ms >= 990
    assert first.body == second.body != b""
    names = ("postdate-schedule-id", "postdate-invocation-id", "postdate-trigger-at")
    assert [first.headers[name] for name in names] == [second.headers[name] for name in names]
    assert [each.headers["postdate-attempt"] for each in (first, second)] == ["1", "2"]
    done = ended(customer, schedule_id)
    assert (done["status"], done["statusCode"], done["attempts"]) == ("completed", 200, 2)
    assert done["nextAttemptAt"] is None
    final, retrying = customer.entries_of(schedule_id)
    assert (final["status"], final["attempt"]) == ("completed", 2)
    assert retrying == attempt
    assert (customer.counts(), customer.credits()) == ((1, 0), 4)


def test_the_last_attempt_is_the_outcome(customer: Customer, receiver: Receiver) -> None:
    target = receiver.answer("/hook", status=500)
    schedule_id = customer.schedule(target, **ONE)
    done = ended(customer, schedule_id)
    assert (done["status"], done["statusCode"], done["attempts"]) == ("failed", 500, 2)
    assert (customer.counts(), customer.credits()) == ((0, 1), 4)
    assert len(receiver.at("/hook")) == 2


def test_without_retries_a_503_is_the_end(customer: Customer, receiver: Receiver) -> None:
    target = receiver.answer("/hook", status=503, headers=(("Retry-After", "1"),))
    schedule_id = customer.schedule(target)
    done = ended(customer, schedule_id)
    assert (done["status"], done["attempts"], done["retries"]) == ("failed", 1, 0)
    assert customer.outcome(schedule_id)["attempt"] == 1


def test_a_plain_404_is_the_end(customer: Customer, receiver: Receiver) -> None:
    schedule_id = customer.schedule(receiver.answer("/hook", status=404), retries=5)
    assert ended(customer, schedule_id)["attempts"] == 1


def in_future(seconds: float) -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


@pytest.mark.parametrize(
    ("asked", "least_s", "most_s"),
    [
        ("300", 300, 360),
        (3600, 3500, 4320),
        (-3600, 1, 1.2),
        ("0", 1, 1.2),
        ("99999999999999999999999", 86_400, 86_400),
        ("whenever", 1, 1.2),
    ],
    ids=["seconds", "date", "past", "zero", "absurd", "neither"],
)
def test_a_503_may_say_when_to_come_back(
    customer: Customer, receiver: Receiver, asked: str | int, least_s: float, most_s: float
) -> None:
    """A number is a date, so many seconds ahead."""
    retry_after = asked if isinstance(asked, str) else in_future(asked)
    target = receiver.answer("/hook", status=503, headers=(("Retry-After", retry_after),))
    schedule_id = customer.schedule(target, retries=3, retryDelays=["1s"])
    # The wait counts from when the end was recorded: later than it was, by long on a busy machine.
    assert least_s - 0.3 <= waits_s(waiting(customer, schedule_id)) <= most_s + 30
    stopped = customer.cancel(schedule_id)
    if least_s > 1:
        assert stopped.json()["status"] == "failed"


def test_expires_at_bounds_the_whole(customer: Customer, receiver: Receiver) -> None:
    target = receiver.answer("/hook", status=503)
    expires = format_iso8601(now_ms() + 60_000)
    schedule_id = customer.schedule(target, retries=3, retryDelays=["1h"], expiresAt=expires)
    done = ended(customer, schedule_id)
    assert (done["statusCode"], done["attempts"]) == (503, 1)
    assert [each["status"] for each in customer.entries_of(schedule_id)] == ["failed"]


@pytest.mark.parametrize(
    ("answer", "attempts"),
    [({"status": 503}, 2), ({"never": True}, 1), ({"reset": True}, 1)],
    ids=["answered", "timeout", "reset"],
)
def test_at_most_once_is_sent_again_only_after_a_whole_answer(
    customer: Customer, receiver: Receiver, answer: dict[str, Any], attempts: int
) -> None:
    target = receiver.answer("/hook", **answer)
    schedule_id = customer.schedule(target, delivery="at-most-once", **ONE)
    assert ended(customer, schedule_id)["attempts"] == attempts
    assert len(receiver.at("/hook")) == attempts


def test_at_most_once_is_tried_again_where_nobody_listened(customer: Customer) -> None:
    target = f"http://127.0.0.1:{free_port()}/"
    schedule_id = customer.schedule(target, delivery="at-most-once", **ONE)
    done = ended(customer, schedule_id)
    assert (done["errorMessage"], done["attempts"]) == ("Connection refused", 2)


def test_what_is_stopped_between_attempts_is_not_sent_again(
    customer: Customer, receiver: Receiver
) -> None:
    target = receiver.answer("/hook", status=503)
    schedule_id = customer.schedule(target, **ONE)
    waiting(customer, schedule_id)
    answer = customer.cancel(schedule_id)
    assert answer.status_code == 200
    assert answer.json() == {
        "scheduleId": schedule_id,
        "status": "failed",
        "creditsRemaining": 4,
        "message": "Stopped after 1 attempt; no credit was refunded",
        "statusCode": 503,
        "responseTimeMs": answer.json()["responseTimeMs"],
        "errorMessage": "Service Unavailable",
        "attempts": 1,
    }
    assert customer.cancel(schedule_id).json()["status"] == "failed"
    # One that is sent later shows that the worker has looked since.
    later = customer.schedule(receiver.url + "/later", due_in_s=1.3)
    receiver.wait_for(1, "/later")
    assert ended(customer, later)["status"] == "completed"
    assert len(receiver.at("/hook")) == 1
    assert (customer.counts(), customer.credits()) == ((1, 1), 3)


def test_a_new_trigger_time_brings_the_next_attempt_forward(
    customer: Customer, receiver: Receiver
) -> None:
    target = receiver.answer("/hook", status=503)
    schedule_id = customer.schedule(target, retries=1, retryDelays=["1h"])
    waiting(customer, schedule_id)
    receiver.answer("/hook", status=204)
    at = format_iso8601(now_ms())
    answer = customer.change(schedule_id, triggerAt=at)
    assert answer.status_code == 200, answer.text
    assert (answer.json()["nextAttemptAt"], answer.json()["attempts"]) == (at, 1)
    done = ended(customer, schedule_id)
    assert (done["status"], done["attempts"], done["triggerAt"]) == ("completed", 2, at)
