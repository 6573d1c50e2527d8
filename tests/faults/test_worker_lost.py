"""A worker that is killed in the middle of a request."""

from __future__ import annotations

from collections import Counter

from scheduler.times import format_iso8601
from tests.support.servers import Deployment, Receiver, now_ms

SHORT_LEASE_MS = 1500
TAKEN_OVER_WITHIN_MS = 10_000
LOST = "Worker lost; the request may have been sent"


def test_what_a_killed_worker_held_is_taken_over_and_each_ends_once(receiver: Receiver) -> None:
    """By default 15 s after it was claimed; and what waited until there was a worker goes out."""
    target = receiver.answer("/hook", never=True)
    with Deployment(lease_ms=SHORT_LEASE_MS) as deployment:
        deployment.api()
        customer = deployment.customer(credits=3)
        expiring = {"expiresAt": format_iso8601(now_ms() + SHORT_LEASE_MS)}
        again, once, expired = ids = [
            customer.schedule(target, **fields)
            for fields in ({}, {"delivery": "at-most-once"}, expiring)
        ]
        killed = deployment.worker()
        receiver.wait_for(3, "/hook")
        deployment.worker()
        killed.kill()
        killed_ms = now_ms()
        receiver.answer("/hook")
        sent = receiver.wait_for(4, "/hook")
        assert sent[3].at_ms - killed_ms < SHORT_LEASE_MS + TAKEN_OVER_WITHIN_MS
        outcomes = {each: customer.outcome(each) for each in ids}
        assert {
            each: (entry["status"], entry["statusCode"], entry["errorMessage"], entry["attempt"])
            for each, entry in outcomes.items()
        } == {
            again: ("completed", 200, "", 2),
            once: ("failed", 0, LOST, 1),
            expired: ("failed", 0, LOST, 1),
        }
        sent = receiver.at("/hook")
        assert Counter(each.schedule_id for each in sent) == {again: 2, once: 1, expired: 1}
        attempts = [each.headers["postdate-attempt"] for each in sent if each.schedule_id == again]
        assert attempts == ["1", "2"]
        assert (customer.counts(), customer.credits()) == ((1, 2), 0)
        assert deployment.problems() == []
