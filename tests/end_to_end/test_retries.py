"""Attempts that fail and are made again, as the target and the customer see them."""

from __future__ import annotations

from scheduler.times import parse_iso8601
from tests.servers import Deployment, Receiver, until


def test_an_attempt_that_fails_is_made_again_under_the_same_invocation(
    deployment: Deployment, receiver: Receiver
) -> None:
    deployment.worker()
    customer = deployment.customer(credits=5)
    target = receiver.answer("/hook", status=503)
    schedule_id = customer.schedule(target, targetBody={"n": 1}, retries=1, retryDelays=["1s"])
    [attempt] = until(lambda: customer.log(status="retrying"), "the first attempt")
    between = customer.get(f"/schedule/{schedule_id}").json()
    receiver.answer("/hook", status=200)
    assert (between["status"], between["statusCode"]) == ("scheduled", 503)
    assert between["errorMessage"] == "Service Unavailable"
    assert (attempt["attempt"], attempt["statusCode"]) == (1, 503)
    assert attempt["nextAttemptAt"] == between["nextAttemptAt"]
    first, second = receiver.wait_for(2, "/hook")
    assert second.at_ms >= parse_iso8601(between["nextAttemptAt"])
    assert second.at_ms - first.at_ms >= 990
    assert first.body == second.body != b""
    names = ("postdate-schedule-id", "postdate-invocation-id", "postdate-trigger-at")
    assert [first.headers[name] for name in names] == [second.headers[name] for name in names]
    assert [each.headers["postdate-attempt"] for each in (first, second)] == ["1", "2"]
    done = customer.outcome(schedule_id)
    assert (done["status"], done["attempt"], done["nextAttemptAt"]) == ("completed", 2, None)
    assert customer.entries_of(schedule_id)[1] == attempt
    assert (customer.counts(), customer.credits()) == ((1, 0), 4)
