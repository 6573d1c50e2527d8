"""Several workers share the work, and one that drains leaves nothing undone and nothing doubled."""

from __future__ import annotations

import signal
from collections import Counter

import pytest

from scheduler.times import format_iso8601
from tests.end_to_end.conftest import said_by_workers
from tests.servers import Deployment, Receiver, now_ms, until

SCHEDULES = 800
ACCOUNTS = 16


def test_two_workers_fire_each_schedule_exactly_once(
    deployment: Deployment, receiver: Receiver
) -> None:
    for _ in range(2):
        deployment.worker()
    # As many accounts as shards lie in all of them, and so with both workers.
    customers = [deployment.customer(credits=SCHEDULES) for _ in range(ACCOUNTS)]
    each_did = SCHEDULES // ACCOUNTS
    due_ms = now_ms() + 500
    ids: list[str] = []
    for customer in customers:
        ids += customer.schedule_batch(
            [
                {"targetUrl": receiver.url, "triggerAt": format_iso8601(due_ms + i * 10)}
                for i in range(each_did)
            ]
        )
    receiver.wait_for(SCHEDULES)
    for customer in customers:
        until(lambda customer=customer: customer.counts() == (each_did, 0), "all counted")
        entries = customer.log()
        assert {entry["status"] for entry in entries} == {"completed"}
        assert len({entry["scheduleId"] for entry in entries}) == len(entries) == each_did
        assert customer.credits() == SCHEDULES - each_did
    assert Counter(each.schedule_id for each in receiver.requests) == Counter(ids)
    assert {each.headers["postdate-attempt"] for each in receiver.requests} == {"1"}

    def both_have_fired_all() -> bool:
        fired = said_by_workers(deployment, "fired")
        return sum(fired) == SCHEDULES and min(fired) > 0

    until(both_have_fired_all, "the workers' next heartbeats")


@pytest.mark.parametrize(
    ("ceiling", "delivery", "held"),
    [
        ("concurrency", "at-least-once", 1),
        ("max_connections_per_origin", "at-most-once", 6),
    ],
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
    until(lambda: said_by_workers(deployment, "inFlight") == [held], "all that it may hold")
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
