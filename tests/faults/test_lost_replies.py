"""A reply of the store gets lost: an API and a worker carry each call out, once. Call by call, see
tests/store/whole/test_lost_replies.py."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.api.errors import error_of
from tests.support.servers import Customer, Deployment, DroppingProxy, Receiver, script

CREDITS = 100
ATTEMPTS_OF_THE_API = 5


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[Deployment, DroppingProxy]]:
    """An API and a worker stand behind the proxy, and have called every script once before."""
    with (
        Deployment(lease_ms=1000) as deployment,
        DroppingProxy(deployment.valkey.socket) as proxy,
        Receiver() as target,
    ):
        deployment.api(redis_url=proxy.url)
        deployment.worker(redis_url=proxy.url)
        warm = deployment.customer()
        warm.outcome(warm.schedule(target.url))
        yield deployment, proxy


@pytest.fixture
def proxy(running: tuple[Deployment, DroppingProxy]) -> DroppingProxy:
    running[1].dropped = 0
    return running[1]


@pytest.fixture
def customer(running: tuple[Deployment, DroppingProxy], proxy: DroppingProxy) -> Iterator[Customer]:
    yield running[0].customer(credits=CREDITS)
    assert proxy.dropped > 0, "nothing got lost"
    assert running[0].problems() == []


def test_a_create_whose_outcome_stays_unknown_says_so_and_happened_at_most_once(
    customer: Customer, proxy: DroppingProxy, receiver: Receiver
) -> None:
    proxy.drop_reply(script("lifecycle/create/create"), times=ATTEMPTS_OF_THE_API)
    answer = customer.post(receiver.url + "/hook", due_in_s=1.0)
    assert answer.status_code == 503
    assert error_of(answer) == {
        "error": "Outcome unknown; repeat with the same Idempotency-Key",
        "reason": "outcome_unknown",
    }
    assert int(answer.headers["retry-after"]) >= 1
    [waiting] = customer.log()
    assert customer.credits() == CREDITS - 1
    assert customer.outcome(waiting["scheduleId"])["status"] == "completed"
    assert len(receiver.requests) == 1


@pytest.mark.parametrize("lost", ["drop_reply", "drop_command"])
def test_an_ack_that_gets_lost_is_recorded_once_and_nothing_fires_again(
    customer: Customer, proxy: DroppingProxy, receiver: Receiver, lost: str
) -> None:
    getattr(proxy, lost)(script("lifecycle/end/end"), times=2)
    schedule_id = customer.schedule(receiver.url + "/hook")
    assert customer.outcome(schedule_id)["status"] == "completed"
    # It goes on, and what it does next comes after what it still had to record.
    following = customer.schedule(receiver.url + "/following")
    assert customer.outcome(following)["status"] == "completed"
    assert customer.counts() == (2, 0)
    assert len(customer.log()) == 2
    assert [each.path for each in receiver.requests] == ["/hook", "/following"]
    assert customer.credits() == CREDITS - 2
