"""A reply of the store gets lost: a worker has each outcome recorded, once. For the API see
test_cuts.py; call by call, tests/store/whole/test_lost_replies.py."""

from __future__ import annotations

import pytest

from tests.support.servers import Deployment, DroppingProxy, Receiver, script

CREDITS = 100


@pytest.mark.parametrize("lost", ["drop_reply", "drop_command"])
def test_an_ack_that_gets_lost_is_recorded_once_and_nothing_fires_again(
    receiver: Receiver, lost: str
) -> None:
    with Deployment(lease_ms=1000) as deployment, DroppingProxy(deployment.valkey.socket) as proxy:
        deployment.api()
        deployment.worker(redis_url=proxy.url)
        customer = deployment.customer(credits=CREDITS)
        # Each script was called before. What the worker does last comes after what it still had to
        # record.
        for path in ("/before", "/hook", "/following"):
            if path == "/hook":
                getattr(proxy, lost)(script("lifecycle/end/end"), times=2)
            ended = customer.outcome(customer.schedule(receiver.url + path))
            assert ended["status"] == "completed"
        assert proxy.dropped == 2
        assert customer.counts() == (3, 0)
        assert len(customer.log()) == 3
        assert [each.path for each in receiver.requests] == ["/before", "/hook", "/following"]
        assert customer.credits() == CREDITS - 3
        assert deployment.problems() == []
