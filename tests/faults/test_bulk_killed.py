"""An API process that is killed in the middle of a bulk action."""

from __future__ import annotations

from typing import Any

from scheduler.lane_settings import LaneSettings
from scheduler.models import LogStatus
from scheduler.store import Store
from scheduler.store.bulk.records import Asked, Bulk, Kind, Progress
from tests.support.servers import Customer, Deployment, Receiver, until

COUNT = 1500


def ended_by_another(deployment: Deployment, account_id: str, kind: Kind, **query: Any) -> Progress:
    """What came of an action on all that the query finds. The first process is killed within it."""
    [killed] = deployment.apis

    async def add(store: Store) -> None:
        now_ms = store.clock.now_ms()
        asked = Asked(kind, "a test", now_ms, None, query, until_ms=now_ms, pairs={})
        assert await store.bulks.add(account_id, "the-only-one-now", asked)

    async def one(store: Store) -> Bulk:
        [found] = await store.bulks.all(account_id)
        return found

    deployment.in_store(add)
    until(lambda: deployment.in_store(one).progress.done >= 200, "the action to begin")
    killed.kill()
    assert deployment.in_store(one).progress.done < COUNT, "it was killed in the middle"
    deployment.api()
    until(lambda: not deployment.in_store(one).is_due, "another process", deadline_s=60)
    return deployment.in_store(one).progress


def schedule_all(customer: Customer, url: str, **more: Any) -> None:
    due = {"targetUrl": url, "delay": "0s"} | more
    for _ in range(COUNT // 500):
        customer.schedule_batch([due] * 500)


def test_another_process_goes_on_and_each_runs_again_once(receiver: Receiver) -> None:
    bad = receiver.answer("/hook", status=503)
    with Deployment() as deployment:
        deployment.api()
        customer = deployment.customer(credits=2 * COUNT)
        account_id = customer.account_id
        deployment.worker()
        schedule_all(customer, bad)
        until(lambda: customer.counts() == (0, COUNT), "all to fail")
        receiver.answer("/hook")
        done = ended_by_another(deployment, account_id, Kind.AGAIN, statuses=[LogStatus.FAILED])
        assert (done.done, done.refused, done.ended) == (COUNT, {}, (COUNT, 0, 0))
        sent = {each.schedule_id for each in receiver.at("/hook")}
        assert len(sent) == 2 * COUNT, "each once, and once again"
        # The customer's connection was to the process that is gone.
        assert deployment.in_store(lambda store: store.accounts.get(account_id)).credits == 0
        assert deployment.problems() == []


def test_another_process_goes_on_and_each_leaves_its_lane_and_is_sent_once(
    receiver: Receiver,
) -> None:
    url = receiver.answer("/laned")
    with Deployment() as deployment:
        deployment.api()
        customer = deployment.customer(credits=COUNT)
        account_id, slow = customer.account_id, LaneSettings(rate=1, per_ms=86_400_000)
        deployment.in_store(lambda store: store.lanes.put(account_id, "slow", slow))
        schedule_all(customer, url, lane="slow")
        query = {"statuses": [LogStatus.SCHEDULED], "lane": "slow"}
        done = ended_by_another(deployment, account_id, Kind.LANE, **query)
        assert (done.done, done.refused) == (COUNT, {})
        deployment.worker()
        until(lambda: len(receiver.at("/laned")) == COUNT, "all to be sent", deadline_s=60)
        assert len({each.schedule_id for each in receiver.at("/laned")}) == COUNT
        assert deployment.problems() == []
