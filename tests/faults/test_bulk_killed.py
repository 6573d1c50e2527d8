"""An API process that is killed in the middle of a bulk action."""

from __future__ import annotations

from scheduler.models import LogStatus
from scheduler.store import Store
from scheduler.store.bulk.records import Asked, Bulk, Kind
from tests.support.servers import Deployment, Receiver, until

COUNT = 1500


def test_another_process_goes_on_and_each_runs_again_once(receiver: Receiver) -> None:
    bad = receiver.answer("/hook", status=503)
    with Deployment() as deployment:
        killed = deployment.api()
        customer = deployment.customer(credits=2 * COUNT)
        account_id = customer.account_id
        deployment.worker()
        due = {"targetUrl": bad, "delay": "0s"}
        for _ in range(COUNT // 500):
            customer.schedule_batch([due] * 500)
        until(lambda: customer.counts() == (0, COUNT), "all to fail")
        receiver.answer("/hook")

        async def add(store: Store) -> None:
            """All that failed are to run again."""
            failed, now_ms = {"statuses": [LogStatus.FAILED]}, store.clock.now_ms()
            asked = Asked(Kind.AGAIN, "a test", now_ms, None, failed, until_ms=now_ms, pairs={})
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
        done = deployment.in_store(one).progress
        assert (done.done, done.refused, done.ended) == (COUNT, {}, (COUNT, 0, 0))
        sent = {each.schedule_id for each in receiver.at("/hook")}
        assert len(sent) == 2 * COUNT, "each once, and once again"
        # The customer's connection was to the process that is gone.
        assert deployment.in_store(lambda store: store.accounts.get(account_id)).credits == 0
        assert deployment.problems() == []
