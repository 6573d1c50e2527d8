"""A worker that drains leaves nothing undone and nothing doubled."""

from __future__ import annotations

import signal
from collections import Counter

import pytest

from tests.support.servers import Deployment, Receiver, until


@pytest.mark.parametrize(
    ("ceiling", "delivery", "held"),
    [("concurrency", "at-least-once", 1), ("max_connections_per_origin", "at-most-once", 6)],
)
def test_a_drain_finishes_what_is_in_flight_and_leaves_the_rest_to_another_as_the_first_attempt(
    deployment: Deployment, receiver: Receiver, ceiling: str, delivery: str, held: int
) -> None:
    slow_target = receiver.answer("/slow", held=True)
    customer = deployment.customer()
    stopped = deployment.worker(**{ceiling: 1})
    slow = customer.schedule(slow_target)
    receiver.wait_for(1, "/slow")
    waiting = [customer.schedule(receiver.url + "/quick", delivery=delivery) for _ in range(5)]

    def in_flight() -> list[int]:
        workers = deployment.in_store(lambda store: store.workers.all())
        return [each.says["inFlight"] for each in workers]

    until(lambda: in_flight() == [held], "all that it may hold")
    assert receiver.at("/quick") == []
    stopped.signal(signal.SIGTERM)
    until(lambda: "draining" in stopped.stderr, "the drain")
    deployment.worker()
    receiver.wait_for(5, "/quick")
    assert customer.entries_of(slow)[0]["status"] == "scheduled"
    receiver.let_go()
    assert stopped.wait() == 0
    for schedule_id in (slow, *waiting):
        assert customer.outcome(schedule_id)["status"] == "completed"
    assert Counter(each.schedule_id for each in receiver.requests) == Counter([slow, *waiting])
    assert {each.headers["postdate-attempt"] for each in receiver.requests} == {"1"}
    assert customer.counts() == (6, 0)
