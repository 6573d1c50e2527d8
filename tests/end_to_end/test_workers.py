"""Several workers share the work, and one that drains leaves nothing undone and nothing doubled."""

from __future__ import annotations

import signal
from collections import Counter

from scheduler.times import format_iso8601
from tests.end_to_end.conftest import said_by_workers
from tests.servers import Deployment, DroppingProxy, Receiver, now_ms, script, until

SCHEDULES = 2000
ACCOUNTS = 16


def test_two_workers_fire_each_of_2000_schedules_exactly_once(
    deployment: Deployment, receiver: Receiver
) -> None:
    for _ in range(2):
        deployment.worker()
    # As many accounts as shards lie in all of them, and so with both workers.
    customers = [deployment.customer(credits=SCHEDULES) for _ in range(ACCOUNTS)]
    due_ms = now_ms() + 1500
    ids: list[str] = []
    for customer in customers:
        ids += customer.schedule_batch(
            [
                {
                    "targetUrl": receiver.url + "/hook",
                    "triggerAt": format_iso8601(due_ms + i % 1000),
                    "targetBody": {"n": i},
                }
                for i in range(SCHEDULES // ACCOUNTS)
            ]
        )
    receiver.wait_for(SCHEDULES)
    each_did = (SCHEDULES // ACCOUNTS, 0)
    for customer in customers:
        until(lambda customer=customer: customer.counts() == each_did, "all of them counted")
        entries = customer.log()
        assert Counter(entry["status"] for entry in entries) == {"completed": each_did[0]}
        assert len({entry["scheduleId"] for entry in entries}) == each_did[0]
        assert customer.credits() == SCHEDULES - each_did[0]
    assert Counter(each.schedule_id for each in receiver.requests) == Counter(ids)
    assert {each.headers["postdate-attempt"] for each in receiver.requests} == {"1"}

    def both_have_fired_all() -> bool:
        fired = said_by_workers(deployment, "fired")
        return sum(fired) == SCHEDULES and min(fired) > 0

    until(both_have_fired_all, "the workers' next heartbeats")


def test_a_worker_that_is_told_to_stop_finishes_what_is_in_flight_and_leaves_the_rest(
    deployment: Deployment, receiver: Receiver
) -> None:
    slow_target = receiver.answer("/slow", held=True)
    customer = deployment.customer()
    stopped = deployment.worker(concurrency=1)
    slow = customer.schedule(slow_target)
    receiver.wait_for(1, "/slow")
    waiting = [customer.schedule(receiver.url + "/quick") for _ in range(5)]
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


def test_what_is_claimed_while_it_drains_is_given_back_unsent_and_fired_by_another(
    deployment: Deployment, receiver: Receiver
) -> None:
    customer = deployment.customer()
    with DroppingProxy(deployment.valkey.socket) as proxy:
        stopped = deployment.worker(redis_url=proxy.url)
        warm = customer.schedule(receiver.url + "/warm")  # from now on the server knows the script
        assert customer.outcome(warm)["status"] == "completed"
        proxy.hold_reply(script("lifecycle/claim"))
        schedule_id = customer.schedule(receiver.url + "/hook")
        until(lambda: proxy.held, "a claim whose answer is kept back")
        stopped.signal(signal.SIGTERM)
        until(lambda: "draining" in stopped.stderr, "the drain")
        proxy.let_go()
        assert stopped.wait() == 0
    assert receiver.at("/hook") == []
    began_ms = now_ms()
    deployment.worker()
    [received] = receiver.wait_for(1, "/hook")
    assert received.at_ms - began_ms < 10_000  # not only when a lease of 15 s had ended
    assert received.headers["postdate-attempt"] == "1"
    assert customer.outcome(schedule_id)["status"] == "completed"
    assert customer.counts() == (2, 0)
