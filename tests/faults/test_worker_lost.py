"""A worker that is killed in the middle of a request."""

from __future__ import annotations

import json
from collections import Counter

from scheduler.times import format_iso8601
from tests.support.servers import Deployment, Receiver, now_ms, until

SHORT_LEASE_MS = 1500
TAKEN_OVER_WITHIN_MS = 10_000
TOOK = "responseTimeMs"
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


def test_a_report_has_the_answer_whichever_worker_sends_it(receiver: Receiver) -> None:
    """The worker that got the answer is killed before the report was accepted. The next one has it
    from the store, and what it could not deliver goes along again, also elsewhere."""
    target = receiver.answer("/hook", status=418, body=b"short and stout", headers=(("A", "1"),))
    silent = receiver.answer("/never", never=True)
    failed = receiver.answer("/failed", never=True)
    asked = {"callbackInclude": "response", "callbackUrl": receiver.url + "/ended"}
    asked["failureCallbackUrl"] = failed
    with Deployment(lease_ms=SHORT_LEASE_MS) as deployment:
        deployment.api()
        customer = deployment.customer()
        answered = customer.schedule(target, **asked)
        lost = customer.schedule(silent, delivery="at-most-once", **asked)
        killed = deployment.worker()
        receiver.wait_for(1, "/never")
        [first] = receiver.wait_for(1, "/failed")
        killed.kill()
        receiver.answer("/failed", status=404)
        deployment.worker()
        receiver.wait_for(3, "/failed")
        reports = {
            each.schedule_id: json.loads(each.body)["data"] for each in receiver.at("/failed")[1:]
        }
        assert first.schedule_id == answered
        assert reports[answered] == json.loads(first.body)["data"]
        assert reports[answered]["responseBody"] == "short and stout"
        assert reports[answered]["responseHeaders"]["a"] == ["1"]
        assert not any(name.startswith("response") for name in reports[lost].keys() - {TOOK})
        elsewhere = receiver.answer("/elsewhere")
        path = f"/schedule/{answered}"
        until(lambda: customer.get(path).json()["callback"]["status"] == "failed", "its failure")
        assert customer.call(f"{path}/callback", callbackUrl=elsewhere).status_code == 202
        [again] = receiver.wait_for(1, "/elsewhere")
        assert again.body == first.body
        assert receiver.at("/ended") == []
        assert deployment.problems() == []
