"""What a target can do, and what the log then says of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from scheduler.times import format_iso8601
from tests.servers import Customer, Deployment, Receiver, free_port, now_ms

LIMIT_MS = 600


@pytest.fixture(scope="module")
def deployment() -> Iterator[Deployment]:
    """Its fires have 600 ms instead of thirty seconds."""
    with Deployment(fire_timeout_ms=LIMIT_MS) as running:
        running.api()
        running.worker()
        yield running


@pytest.fixture
def customer(deployment: Deployment) -> Iterator[Customer]:
    """Whatever its target did: one credit spent, one execution counted, the store sound."""
    holder = deployment.customer(credits=5)
    yield holder
    completed, failed = holder.counts()
    assert completed + failed == 1
    assert holder.credits() == 4
    assert deployment.problems() == []


def fire(customer: Customer, target: str, **fields: Any) -> dict[str, Any]:
    return customer.outcome(customer.schedule(target, **fields))


def told(entry: dict[str, Any]) -> tuple[str, int, str]:
    return entry["status"], entry["statusCode"], entry["errorMessage"]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (200, ("completed", 200, "")),
        (204, ("completed", 204, "")),
        (404, ("failed", 404, "Not Found")),
        (429, ("failed", 429, "Too Many Requests")),
        (500, ("failed", 500, "Internal Server Error")),
    ],
)
def test_the_status_decides(
    customer: Customer, receiver: Receiver, status: int, expected: tuple[str, int, str]
) -> None:
    target = receiver.answer("/hook", status=status, body=b"" if status == 204 else b"some text")
    entry = fire(customer, target, targetMethod="POST")
    assert told(entry) == expected
    assert entry["responseTimeMs"] < LIMIT_MS
    assert customer.counts() == ((1, 0) if expected[0] == "completed" else (0, 1))
    assert len(receiver.requests) == 1


def test_what_a_target_said_when_it_failed_is_kept(customer: Customer, receiver: Receiver) -> None:
    plain = (("Content-Type", "text/plain"),)
    target = receiver.answer("/hook", status=500, body=b"<b>\x1b\xff" + b"x" * 5000, headers=plain)
    schedule_id = customer.schedule(target)
    customer.outcome(schedule_id)
    found = customer.get(f"/schedule/{schedule_id}").json()
    assert found["responseBody"] == "<b>\x1b\N{REPLACEMENT CHARACTER}" + "x" * 1019
    assert found["responseContentType"] == "text/plain"


def test_how_long_each_part_took_is_kept(customer: Customer, receiver: Receiver) -> None:
    target = receiver.answer("/hook", status=500, delay_s=0.2)
    schedule_id = customer.schedule(target, delivery="at-most-once")  # on a connection of its own
    entry = customer.outcome(schedule_id)
    told = customer.get(f"/schedule/{schedule_id}").json()["phases"]
    assert told.pop("connectionReused") is False
    assert told["firstByteMs"] >= 195
    assert [name for name, ms in told.items() if ms is None] == ["resolveMs", "tlsMs"]
    assert sum(ms or 0 for ms in told.values()) == entry["responseTimeMs"]
    assert "phases" not in entry


def test_a_redirect_is_a_failure_and_is_not_followed(
    customer: Customer, receiver: Receiver
) -> None:
    second = receiver.answer("/second")
    target = receiver.answer("/first", status=301, headers=(("Location", second),))
    assert told(fire(customer, target)) == ("failed", 301, "Moved Permanently")
    assert [each.path for each in receiver.requests] == ["/first"]


@pytest.mark.parametrize(
    "behaviour",
    [
        pytest.param({"never": True}, id="never answers"),
        pytest.param({"body": b"x" * 100, "drip_s": 0.05}, id="drips its body"),
        pytest.param({"delay_s": 5.0}, id="answers too late"),
    ],
)
def test_a_timeout_ends_at_the_limit_and_is_not_repeated(
    customer: Customer, receiver: Receiver, behaviour: dict[str, Any]
) -> None:
    entry = fire(customer, receiver.answer("/hook", **behaviour))
    assert told(entry) == ("failed", 0, "Timeout after 0.6 seconds")
    assert entry["responseTimeMs"] == LIMIT_MS
    assert customer.stats()["averageResponseTime"] == LIMIT_MS
    assert len(receiver.requests) == 1


def test_a_refused_connection_is_a_failure(customer: Customer) -> None:
    entry = fire(customer, f"http://127.0.0.1:{free_port()}/hook")
    assert told(entry) == ("failed", 0, "Connection refused")


def test_a_connection_that_is_cut_off_is_a_failure_and_is_not_repeated(
    customer: Customer, receiver: Receiver
) -> None:
    entry = fire(customer, receiver.answer("/hook", reset=True))
    assert told(entry)[:2] == ("failed", 0)
    assert entry["errorMessage"].startswith("Connection ")
    assert len(receiver.requests) == 1


def test_what_expired_before_it_was_claimed_is_not_sent(
    customer: Customer, receiver: Receiver
) -> None:
    due_ms = now_ms() - 60_000
    entry = fire(
        customer,
        receiver.url + "/hook",
        triggerAt=format_iso8601(due_ms),
        expiresAt=format_iso8601(due_ms + 1000),
    )
    assert told(entry) == ("failed", 0, "Expired before execution")
    assert receiver.requests == []


@pytest.fixture(scope="module")
def guarded() -> Iterator[Deployment]:
    """Its requests may reach public addresses only."""
    with Deployment(allow_targets="none") as running:
        running.api()
        running.worker()
        yield running
        assert running.problems() == []


@pytest.mark.parametrize("host", ["127.0.0.1", "10.1.2.3", "[::1]", "169.254.169.254", "0x7f.1"])
def test_a_private_address_is_refused_when_it_is_posted(guarded: Deployment, host: str) -> None:
    customer = guarded.customer(credits=5)
    answer = customer.post(f"http://{host}:8080/hook")
    assert answer.status_code == 400
    assert answer.json()["error"] == "Destination not allowed"
    assert [detail["field"] for detail in answer.json()["details"]] == ["targetUrl"]
    assert customer.credits() == 5


def test_a_name_of_a_private_address_is_refused_when_it_is_connected_to(
    guarded: Deployment, receiver: Receiver
) -> None:
    customer = guarded.customer(credits=5)
    entry = fire(customer, f"http://localhost:{receiver.port}/hook")
    assert told(entry) == ("failed", 0, "Host not found, or destination not allowed")
    assert receiver.requests == []
    assert (customer.credits(), customer.counts()) == (4, (0, 1))
