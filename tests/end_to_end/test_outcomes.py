"""What a target can do, and what the log then says of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.servers import Customer, Deployment, Receiver

MOVED = (("Location", "/elsewhere"),)
TIMEOUT = ("failed", 0, "Timeout after 1 second")


@pytest.fixture
def customer(working: Deployment) -> Iterator[Customer]:
    """Whatever its target did: one credit spent, one execution counted, the store sound."""
    holder = working.customer(credits=5)
    yield holder
    completed, failed = holder.counts()
    assert completed + failed == 1
    assert holder.credits() == 4
    assert working.problems() == []


@pytest.mark.parametrize(
    ("behaviour", "outcome"),
    [
        ({"status": 204}, ("completed", 204, "")),
        ({"status": 301, "headers": MOVED}, ("failed", 301, "Moved Permanently")),
        ({"never": True}, TIMEOUT),
        ({"reset": True}, ("failed", 0, "Connection closed before an answer")),
    ],
    ids=str,
)
def test_one_request_decides(
    customer: Customer, receiver: Receiver, behaviour: dict[str, Any], outcome: tuple[str, int, str]
) -> None:
    limit = {"timeout": "1s"} if outcome == TIMEOUT else {}
    entry = customer.outcome(customer.schedule(receiver.answer("/hook", **behaviour), **limit))
    assert (entry["status"], entry["statusCode"], entry["errorMessage"]) == outcome
    assert customer.counts() == ((1, 0) if outcome[0] == "completed" else (0, 1))
    assert [each.path for each in receiver.requests] == ["/hook"]
    if outcome == TIMEOUT:
        assert entry["responseTimeMs"] == customer.stats()["averageResponseTime"] == 1000
