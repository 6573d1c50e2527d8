"""What one worker of several cannot read: another one fires it, and nothing is lost by it."""

from __future__ import annotations

from base64 import b64encode

from tests.servers import Deployment, Receiver, until

OLD, NEW = (b64encode(letter * 32).decode() for letter in (b"o", b"n"))
ACCOUNTS = 6
EACH = 5


def test_a_worker_without_the_newest_key_costs_nothing_that_another_one_can_read(
    receiver: Receiver,
) -> None:
    """The API was given the new key first, and one of the workers is still without it."""
    with Deployment(secret_key=f"{NEW},{OLD}", lease_ms=1000) as running:
        behind = running.worker(secret_key=OLD)
        running.api()
        customers = [running.customer() for _ in range(ACCOUNTS)]
        ids = [
            customer.schedule(receiver.url + "/hook", delivery="at-most-once")
            for customer in customers
            for _ in range(EACH)
        ]
        until(lambda: "cannot be read" in behind.stderr, "it says so")
        assert receiver.at("/hook") == []
        running.worker(secret_key=f"{OLD},{NEW}")
        received = receiver.wait_for(len(ids), "/hook")
        assert sorted(each.schedule_id for each in received) == sorted(ids)
        assert {each.headers["postdate-attempt"] for each in received} == {"1"}
        for customer in customers:
            until(lambda customer=customer: customer.counts() == (EACH, 0), "all completed")
