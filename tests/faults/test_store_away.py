"""The store is killed, or does not answer, and comes back: nothing needs to be started again."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from scheduler.store import Store, keys
from scheduler.store.lifecycle.claim import Batch
from scheduler.times import format_iso8601
from tests.servers import Customer, Deployment, Receiver, ValkeyProcess, now_ms, until, until_async

SHORT_LEASE_MS = 1000

# A store that is gone is known at once; one that is silent only once its reply was waited for, and
# a call that came while another waited has both waits.
REFUSED_WITHIN_S = 11.0


def refused(customer: Customer) -> None:
    """What can be asked of the API while the store is away; all at once, as each may take long."""
    calls: list[Callable[[], httpx.Response]] = [
        lambda: customer.post("https://example.com/hook"),
        lambda: customer.get("/stats"),
        lambda: customer.get("/stats/remaining-credits"),
        lambda: customer.get("/readyz"),
    ]
    with ThreadPoolExecutor(len(calls)) as pool:
        answers = list(pool.map(lambda call: call(), calls))
    for answer in answers:
        assert answer.status_code == 503
        assert list(answer.json()) == ["error"]
        assert int(answer.headers["retry-after"]) >= 1
        assert answer.elapsed.total_seconds() < REFUSED_WITHIN_S
    assert customer.get("/healthz").status_code == 200


@pytest.mark.parametrize(
    ("leaves", "returns"), [("kill", "start"), ("pause", "resume")], ids=["killed", "paused"]
)
def test_while_the_store_is_away_the_api_says_503_and_afterwards_all_goes_on(
    own_valkey: ValkeyProcess, receiver: Receiver, leaves: str, returns: str
) -> None:
    slow_target = receiver.answer("/slow", held=True)
    with Deployment(own_valkey, module="tests.faults.impatient") as deployment:
        api, worker = deployment.api(), deployment.worker()
        pids = api.pid, worker.pid
        customer = deployment.customer()
        ids = [customer.schedule(slow_target)]
        ids += [customer.schedule(receiver.url + "/waits", due_in_s=s) for s in (0.7, 1.0)]
        all_due_ms = now_ms() + 1000
        receiver.wait_for(1, "/slow")

        getattr(own_valkey, leaves)()
        refused(customer)
        receiver.let_go()
        until(lambda: now_ms() > all_due_ms, "all of them to be due")
        until(lambda: "lost touch with the store" in worker.stderr, "a worker that knows")
        getattr(own_valkey, returns)()

        def accepted() -> str | None:
            answer = customer.post(receiver.url + "/hook")
            assert answer.status_code in (201, 503)
            return answer.json().get("scheduleId")

        ids.append(until(accepted, "accepted again"))
        for schedule_id in ids:
            assert customer.outcome(schedule_id)["status"] == "completed"
        assert Counter(each.schedule_id for each in receiver.requests) == Counter(ids)
        assert customer.counts() == (len(ids), 0)
        assert customer.credits() == 10_000 - len(ids)
        assert customer.get("/readyz").status_code == 200
        assert (api.pid, worker.pid) == pids
        # An outage is logged once, not at every attempt.
        assert worker.stderr.count("lost touch with the store") == 1
        assert len(worker.stderr.splitlines()) < 20
        assert worker.stop() == 0
        assert deployment.problems() == []


def test_an_api_and_a_worker_that_are_started_before_the_store_wait_for_it(
    own_valkey: ValkeyProcess, receiver: Receiver
) -> None:
    with Deployment(own_valkey) as deployment:
        customer = deployment.customer(deployment.api())
        own_valkey.stop()
        api, worker = deployment.spawn("api"), deployment.spawn("worker")
        until(lambda: "cannot be reached" in worker.stderr, "a worker that waits")
        with Customer(api.base_url, customer.key) as early:
            until(lambda: is_alive(early), "an API that is alive")
            assert early.get("/readyz").status_code == 503
            assert early.post(receiver.url).status_code == 503
            own_valkey.start()
            until(lambda: early.get("/readyz").status_code == 200, "an API that is ready")
            schedule_id = early.schedule(receiver.url + "/hook")
            assert early.outcome(schedule_id)["status"] == "completed"
        assert (worker.stop(), api.stop()) == (0, 0)
        assert deployment.problems() == []


def is_alive(customer: Customer) -> bool:
    try:
        return customer.get("/healthz").status_code == 200
    except httpx.ConnectError:
        return False


def test_a_store_killed_in_mid_flight_loses_nothing_and_no_schedule_is_fired_by_two(
    own_valkey: ValkeyProcess, receiver: Receiver
) -> None:
    """The outage outlasts the leases, so that every held schedule looks abandoned after it."""
    slow_target = receiver.answer("/slow", delay_s=SHORT_LEASE_MS / 1000 * 3)
    with Deployment(own_valkey, lease_ms=SHORT_LEASE_MS) as deployment:
        deployment.api()
        for _ in range(2):
            deployment.worker()
        customers = [deployment.customer() for _ in range(4)]
        ids: list[str] = []
        for customer in customers:
            ids += [customer.schedule(slow_target) for _ in range(5)]
            due_ms = now_ms() + 1000
            quick = [
                {"targetUrl": receiver.url + "/quick", "triggerAt": format_iso8601(due_ms + i * 10)}
                for i in range(100)
            ]
            ids += customer.schedule_batch(quick)
        receiver.wait_for(60, "/quick")
        own_valkey.kill()
        killed_ms = now_ms()
        receiver.wait_for(20, "/slow")
        leases_end_ms = killed_ms + SHORT_LEASE_MS * 1.5
        until(lambda: now_ms() > leases_end_ms, "the leases' end while the store is away")
        own_valkey.start()

        for customer in customers:
            until(lambda customer=customer: customer.counts() == (105, 0), "all of them counted")
        assert Counter(each.schedule_id for each in receiver.requests) == Counter(ids)
        for customer in customers:
            assert len(customer.log()) == 105
            assert customer.credits() == 10_000 - 105
        assert deployment.problems() == []


def test_a_claim_that_waited_in_a_hanging_store_takes_nothing_over(
    own_valkey: ValkeyProcess, receiver: Receiver
) -> None:
    """Asked before the store hung and carried out after it: by then every lease has ended, and
    none could be prolonged."""
    target = receiver.answer("/slow", delay_s=SHORT_LEASE_MS / 1000 * 2.5)
    with Deployment(own_valkey, lease_ms=SHORT_LEASE_MS) as deployment:
        deployment.api()
        worker = deployment.worker()
        customer = deployment.customer()
        shard = keys.parts(customer.account_id).shard
        schedule_id = customer.schedule(target, delivery="at-most-once")
        receiver.wait_for(1, "/slow")

        async def claim_as_the_store_hangs(store: Store) -> Batch:
            """As another worker does."""
            own_valkey.pause()
            asked_at_ms = store.clock.now_ms()
            asked = {"lease_ms": SHORT_LEASE_MS, "take_over_by_ms": asked_at_ms}
            claim = asyncio.create_task(store.claims.claim(shard, most=10, **asked))
            lease_ends_ms = asked_at_ms + SHORT_LEASE_MS * 1.25
            try:
                await until_async(lambda: now_ms() > lease_ends_ms, "the lease's end")
            finally:
                own_valkey.resume()
            return await claim

        assert deployment.in_store(claim_as_the_store_hangs).invocations == []
        entry = customer.outcome(schedule_id)
        assert (entry["status"], entry["errorMessage"]) == ("completed", ""), worker.stderr
        assert len(receiver.requests) == 1
        assert "lease was lost" not in worker.stderr
        assert deployment.problems() == []
