"""A reply of the store gets lost: an API and a worker carry each call out, once. Call by call, see
tests/scheduler/test_lost_replies.py."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from scheduler.times import format_iso8601
from tests.servers import Customer, Deployment, DroppingProxy, Receiver, now_ms, script, until

CREDITS = 100
ATTEMPTS_OF_THE_API = 5


@pytest.fixture(scope="module")
def deployment() -> Iterator[Deployment]:
    with Deployment(lease_ms=1000) as running:
        yield running


@pytest.fixture(scope="module")
def _between(deployment: Deployment) -> Iterator[DroppingProxy]:
    """An API and a worker stand behind it, and have called every script once before."""
    with DroppingProxy(deployment.valkey.socket) as between, Receiver() as target:
        deployment.api(redis_url=between.url)
        deployment.worker(redis_url=between.url)
        warm = deployment.customer()
        warm.outcome(warm.schedule(target.url))
        yield between


@pytest.fixture
def proxy(_between: DroppingProxy) -> DroppingProxy:
    _between.forget_rules()
    _between.dropped = 0
    return _between


@pytest.fixture
def customer(deployment: Deployment, proxy: DroppingProxy) -> Iterator[Customer]:
    yield deployment.customer(credits=CREDITS)
    assert proxy.dropped > 0, "nothing got lost"
    assert deployment.problems() == []


def test_a_create_whose_outcome_stays_unknown_says_so_and_happened_at_most_once(
    customer: Customer, proxy: DroppingProxy, receiver: Receiver
) -> None:
    proxy.drop_reply(script("lifecycle/create"), times=ATTEMPTS_OF_THE_API)
    answer = customer.post(receiver.url + "/hook", due_in_s=1.0)
    assert answer.status_code == 503
    assert answer.json() == {"error": "Outcome unknown; repeat with the same Idempotency-Key"}
    assert int(answer.headers["retry-after"]) >= 1
    [waiting] = customer.log()
    assert customer.credits() == CREDITS - 1
    assert customer.outcome(waiting["scheduleId"])["status"] == "completed"
    assert len(receiver.requests) == 1


@pytest.mark.parametrize("lost", ["drop_reply", "drop_command"])
def test_an_ack_that_gets_lost_is_recorded_once_and_nothing_fires_again(
    customer: Customer, proxy: DroppingProxy, receiver: Receiver, lost: str
) -> None:
    getattr(proxy, lost)(script("lifecycle/end"), times=2)
    schedule_id = customer.schedule(receiver.url + "/hook")
    assert customer.outcome(schedule_id)["status"] == "completed"
    # It goes on, and what it does next comes after what it still had to record.
    following = customer.schedule(receiver.url + "/following")
    assert customer.outcome(following)["status"] == "completed"
    assert customer.counts() == (2, 0)
    assert len(customer.log()) == 2
    assert [each.path for each in receiver.requests] == ["/hook", "/following"]
    assert customer.credits() == CREDITS - 2


def test_a_claim_whose_reply_is_lost_is_made_again_when_its_lease_has_ended(
    customer: Customer, proxy: DroppingProxy, receiver: Receiver
) -> None:
    proxy.drop_reply(script("lifecycle/claim"))
    schedule_id = customer.schedule(receiver.url + "/hook")
    assert customer.outcome(schedule_id)["status"] == "completed"
    [received] = receiver.requests
    assert received.headers["postdate-attempt"] == "2"
    assert customer.counts() == (1, 0)


def test_under_load_many_lost_replies_still_do_everything_once(
    customer: Customer, proxy: DroppingProxy, receiver: Receiver
) -> None:
    for nth in (1, 3, 6):
        for name in ("accounts/admit", "lifecycle/create", "lifecycle/end", "operators/heartbeat"):
            proxy.drop_reply(script(name), nth=nth)
    due_ms = now_ms() + 500
    ids = customer.schedule_all(
        {"targetUrl": receiver.url + "/hook", "triggerAt": format_iso8601(due_ms + i * 10)}
        for i in range(CREDITS)
    )
    until(lambda: customer.counts() == (CREDITS, 0), "all of them counted")
    assert proxy.dropped >= 9
    assert Counter(each.schedule_id for each in receiver.requests) == Counter(ids)
    assert len(customer.log(status="completed")) == len(customer.log()) == CREDITS
    assert customer.credits() == 0


def test_an_attempt_whose_records_reply_is_lost_is_recorded_once_and_made_again(
    customer: Customer, proxy: DroppingProxy, receiver: Receiver
) -> None:
    target = receiver.answer("/hook", status=503)
    retries = {"retries": 2, "retryDelays": ["1s"]}
    warm = customer.schedule(target, **retries)
    until(lambda: customer.log(status="retrying"), "the first attempt recorded")
    customer.cancel(warm)
    proxy.drop_reply(script("lifecycle/end"), times=2)
    schedule_id = customer.schedule(target, **retries)
    entry = customer.outcome(schedule_id)
    assert (entry["status"], entry["attempt"]) == ("failed", 3)
    statuses = Counter(each["status"] for each in customer.entries_of(schedule_id))
    assert statuses == {"retrying": 2, "failed": 1}
    sent = [each for each in receiver.at("/hook") if each.schedule_id == schedule_id]
    assert [each.headers["postdate-attempt"] for each in sent] == ["1", "2", "3"]
