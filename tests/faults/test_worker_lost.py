"""A worker that is killed, or frozen, in the middle of a request."""

from __future__ import annotations

import signal

import pytest

from scheduler.times import format_iso8601
from tests.servers import Deployment, DroppingProxy, Receiver, now_ms, script, until

SHORT_LEASE_MS = 1500


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"lease_ms": SHORT_LEASE_MS}, id="short lease"),
        pytest.param({}, id="default lease"),
    ],
)
def test_what_a_killed_worker_held_is_fired_by_another_within_25_s_and_logged_once(
    receiver: Receiver, settings: dict[str, int]
) -> None:
    target = receiver.answer("/hook", never=True)
    with Deployment(**settings) as deployment:
        deployment.api()
        killed = deployment.worker()
        customer = deployment.customer()
        schedule_id = customer.schedule(target)
        receiver.wait_for(1, "/hook")
        deployment.worker()
        killed.kill()
        killed_ms = now_ms()
        receiver.answer("/hook")
        first, second = receiver.wait_for(2, "/hook")
        assert second.at_ms - killed_ms < 25_000
        assert first.schedule_id == second.schedule_id == schedule_id
        attempts = [each.headers["postdate-attempt"] for each in (first, second)]
        assert attempts == ["1", "2"]
        entry = customer.outcome(schedule_id)
        assert (entry["status"], entry["statusCode"]) == ("completed", 200)
        assert customer.counts() == (1, 0)
        assert len(receiver.requests) == 2
        assert deployment.problems() == []


def test_at_most_once_gives_up_instead_of_sending_again(receiver: Receiver) -> None:
    target = receiver.answer("/hook", never=True)
    with Deployment(lease_ms=SHORT_LEASE_MS) as deployment:
        deployment.api()
        killed = deployment.worker()
        customer = deployment.customer(credits=3)
        schedule_id = customer.schedule(target, delivery="at-most-once")
        receiver.wait_for(1, "/hook")
        killed.kill()
        deployment.worker()
        entry = customer.outcome(schedule_id)
        assert (entry["status"], entry["statusCode"], entry["errorMessage"]) == (
            "failed",
            0,
            "Worker lost; the request may have been sent",
        )
        assert (customer.counts(), customer.credits()) == ((0, 1), 2)
        assert len(receiver.requests) == 1
        assert deployment.problems() == []


def test_what_expires_before_the_takeover_is_not_said_to_be_unsent(receiver: Receiver) -> None:
    target = receiver.answer("/hook", never=True)
    with Deployment(lease_ms=SHORT_LEASE_MS) as deployment:
        deployment.api()
        killed = deployment.worker()
        customer = deployment.customer()
        due_ms = now_ms()
        schedule_id = customer.schedule(
            target, triggerAt=format_iso8601(due_ms), expiresAt=format_iso8601(due_ms + 1000)
        )
        receiver.wait_for(1, "/hook")
        killed.kill()
        until(lambda: now_ms() > due_ms + 1000, "it to expire")
        deployment.worker()
        entry = customer.outcome(schedule_id)
        assert entry["errorMessage"] == "Worker lost; the request may have been sent"
        assert (entry["attempt"], len(receiver.requests)) == (1, 1)


def test_what_waited_while_there_was_no_worker_fires_once_there_is_one(
    receiver: Receiver,
) -> None:
    with Deployment() as deployment:
        deployment.api()
        customer = deployment.customer()
        ids = [customer.schedule(receiver.url + "/hook") for _ in range(20)]
        assert len(customer.log(status="scheduled")) == 20
        deployment.worker()
        received = receiver.wait_for(20, "/hook")
        assert sorted(each.schedule_id for each in received) == sorted(ids)
        until(lambda: customer.counts() == (20, 0), "all of them counted")
        assert deployment.problems() == []


def test_a_frozen_worker_that_wakes_after_its_lease_records_nothing(receiver: Receiver) -> None:
    target = receiver.answer("/hook", status=404, delay_s=1.0)
    with Deployment(lease_ms=SHORT_LEASE_MS) as deployment:
        deployment.api()
        frozen = deployment.worker()
        customer = deployment.customer()
        schedule_id = customer.schedule(target)
        receiver.wait_for(1, "/hook")
        frozen.signal(signal.SIGSTOP)
        try:
            receiver.answer("/hook", status=200)
            deployment.worker()
            assert customer.outcome(schedule_id)["statusCode"] == 200
        finally:
            frozen.signal(signal.SIGCONT)
        # Once it has stopped, it has recorded the outcome of its own request.
        assert frozen.stop() == 0
        assert customer.outcome(schedule_id)["statusCode"] == 200
        assert customer.counts() == (1, 0)
        assert len(receiver.requests) == 2
        assert deployment.problems() == []


def test_an_attempt_whose_worker_dies_before_recording_it_uses_up_no_retry(
    receiver: Receiver,
) -> None:
    """It was answered, and its worker killed between that and the record."""
    target = receiver.answer("/hook", status=503)
    with Deployment(lease_ms=SHORT_LEASE_MS) as deployment:
        deployment.api()
        customer = deployment.customer()
        with DroppingProxy(deployment.valkey.socket) as proxy:
            killed = deployment.worker(redis_url=proxy.url)
            # So that the script is known by its hash.
            warm = customer.schedule(target, retries=1, retryDelays=["1d"])
            until(lambda: customer.log(status="retrying"), "the first attempt recorded")
            customer.cancel(warm)
            proxy.drop_command(script("lifecycle/end"), times=1000)
            schedule_id = customer.schedule(target, retries=1, retryDelays=["1s"])
            until(lambda: proxy.dropped, "a record that does not arrive")
            killed.kill()
        deployment.worker()
        entry = customer.outcome(schedule_id)
        assert (entry["status"], entry["statusCode"], entry["attempt"]) == ("failed", 503, 3)
        sent = [each for each in receiver.at("/hook") if each.schedule_id == schedule_id]
        assert [each.headers["postdate-attempt"] for each in sent] == ["1", "2", "3"]
        retried = [e["attempt"] for e in customer.log(status="retrying")]
        assert sorted(retried) == [1, 2]
        assert customer.counts() == (0, 2)
        assert deployment.problems() == []
