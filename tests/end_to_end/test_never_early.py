"""Nothing fires before its time: the receiver's clock against triggerAt, on one machine."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.servers import Customer, Deployment, Receiver

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def customer() -> Iterator[Customer]:
    with Deployment() as deployment:
        deployment.api()
        deployment.worker()
        yield deployment.customer()
        assert deployment.problems() == []


def iso8601_us(us: int) -> str:
    """Finer than the service's millisecond."""
    moment = EPOCH + timedelta(microseconds=us)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def fire_at(customer: Customer, receiver: Receiver, due_us: list[int]) -> list[float]:
    """Schedules one for each moment; returns how late each arrived (ms), in order."""
    ids = customer.schedule_all(
        {"targetUrl": receiver.url + "/hook", "triggerAt": iso8601_us(us)} for us in due_us
    )
    arrived = {each.schedule_id: each for each in receiver.wait_for(len(due_us))}
    assert len(receiver.requests) == len(due_us)
    return [arrived[id_].at_ns / 1e6 - us / 1e3 for id_, us in zip(ids, due_us, strict=True)]


def test_of_hundreds_spread_over_two_seconds_none_fires_early(
    customer: Customer, receiver: Receiver
) -> None:
    first_us = time.time_ns() // 1000 + 1_500_000
    late_ms = fire_at(customer, receiver, [first_us + i * 5_003 for i in range(400)])
    assert min(late_ms) >= 0


def test_what_is_created_just_before_its_time_does_not_fire_early(
    customer: Customer, receiver: Receiver
) -> None:
    """Some are due before they are accepted, some right after: the moments in between count."""
    now_us = time.time_ns() // 1000
    late_ms = fire_at(customer, receiver, [now_us + i * 2_001 for i in range(200)])
    assert min(late_ms) >= 0
