"""A worker at its ceiling of connections to one host, as a customer and its operator see it."""

from __future__ import annotations

import signal
from collections import Counter

import pytest

from tests.end_to_end.conftest import said_by_workers
from tests.servers import Deployment, Receiver, until


@pytest.mark.parametrize("delivery", ["at-least-once", "at-most-once"])
def test_a_drain_gives_back_who_waits_in_line_and_another_worker_sends_it_as_the_first_attempt(
    deployment: Deployment, receiver: Receiver, delivery: str
) -> None:
    slow_target = receiver.answer("/slow", held=True)
    customer = deployment.customer()
    stopped = deployment.worker(max_connections_per_origin=1)
    slow = customer.schedule(slow_target)
    receiver.wait_for(1, "/slow")
    waiting = [customer.schedule(receiver.url + "/quick", delivery=delivery) for _ in range(5)]
    until(lambda: said_by_workers(deployment, "inFlight") == [6], "all six held by the worker")
    assert receiver.at("/quick") == []
    stopped.signal(signal.SIGTERM)
    until(lambda: "draining" in stopped.stderr, "the drain")
    deployment.worker(max_connections_per_origin=1)
    receiver.wait_for(5, "/quick")
    assert customer.entries_of(slow)[0]["status"] == "scheduled"
    receiver.let_go()
    assert stopped.wait() == 0
    for schedule_id in (slow, *waiting):
        assert customer.outcome(schedule_id)["status"] == "completed"
    assert Counter(each.schedule_id for each in receiver.requests) == Counter([slow, *waiting])
    assert {each.headers["postdate-attempt"] for each in receiver.requests} == {"1"}
