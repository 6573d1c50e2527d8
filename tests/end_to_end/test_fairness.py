"""One account's flood does not delay its neighbours."""

from __future__ import annotations

import asyncio
import statistics

from scheduler.models import Request
from scheduler.store import Store
from scheduler.times import format_iso8601
from tests.servers import Deployment, Receiver, now_ms, until

FLOOD = 20_000
SMALL_PER_S = 50
SMALL_FOR_S = 3
# With 512 in flight and 100 ms for each, the flood alone takes four seconds, however fast we are.
CONCURRENCY = 512
DELAY_S = 0.1


def test_beside_20000_due_at_once_a_small_account_stays_on_time(receiver: Receiver) -> None:
    target = receiver.answer("/flood", delay_s=DELAY_S)
    # One shard, so that both meet in the same queue.
    with Deployment(shards=1) as deployment:
        deployment.api()
        big, small = deployment.customer(credits=FLOOD), deployment.customer()

        async def flood(store: Store) -> None:
            # Not by HTTP: how they come in is not the question here.
            request = Request(now_ms(), "GET", target)
            await asyncio.gather(
                *(store.schedules.create(big.account_id, request) for _ in range(FLOOD))
            )

        deployment.in_store(flood)
        # The flood begins once there is a worker, and the small ones a moment later.
        first_ms = now_ms() + 2000
        due_ms = [first_ms + i * 1000 // SMALL_PER_S for i in range(SMALL_PER_S * SMALL_FOR_S)]
        ids = small.schedule_all(
            {"targetUrl": receiver.url + "/small", "triggerAt": format_iso8601(ms)} for ms in due_ms
        )
        due_of = dict(zip(ids, due_ms, strict=True))
        deployment.worker(concurrency=CONCURRENCY)
        small_ones = receiver.wait_for(len(ids), "/small")
        until(lambda: big.counts() == (FLOOD, 0), "the end of the flood", deadline_s=60)

        late_ms = [each.at_ms - due_of[each.schedule_id] for each in small_ones]
        assert min(late_ms) >= 0
        assert receiver.at("/flood")[-1].at_ms > first_ms + 1000, "they did not meet"
        assert statistics.quantiles(late_ms, n=20)[-1] < 500
        assert small.counts() == (len(ids), 0)
        assert len({each.schedule_id for each in receiver.requests}) == len(receiver.requests)
        assert big.credits() == 0
        assert deployment.problems() == []
