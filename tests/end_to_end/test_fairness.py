"""One account's flood does not delay its neighbours."""

from __future__ import annotations

from scheduler.models import Request
from scheduler.store import Store
from scheduler.times import format_iso8601
from tests.support.servers import Deployment, Receiver, now_ms, until

FLOOD = 2_000
SMALL_ROUNDS = 5
SMALL_A_ROUND = 10
# What of the flood is fired between two rounds. In order of time alone, a small one would come
# after all that is left of it; in turns, after what the worker holds of it already.
FLOOD_A_ROUND = 200
MOST_BEFORE_A_SMALL_ONE = 800
# With 512 in flight and 100 ms for each, the flood alone takes over a second, however fast we are:
# time enough for all rounds to begin within it.
CONCURRENCY = 512
DELAY_S = 0.1


async def flood(store: Store, account_id: str, target: str) -> None:
    """Not by HTTP: how they come in is not the question here."""
    request = Request(now_ms(), "GET", target)
    for _ in range(FLOOD // 1000):
        await store.schedules.create_all(account_id, [request] * 1000)


def test_beside_2000_due_at_once_a_small_account_does_not_wait_for_them(receiver: Receiver) -> None:
    target = receiver.answer("/flood", delay_s=DELAY_S)
    # One shard, so that both meet in the same queue.
    with Deployment(shards=1) as deployment:
        deployment.api()
        big, small = deployment.customer(credits=FLOOD), deployment.customer()
        deployment.in_store(lambda store: flood(store, big.account_id, target))
        deployment.worker(concurrency=CONCURRENCY)
        flood_before: dict[str, int] = {}
        for round_ in range(SMALL_ROUNDS):
            receiver.wait_for(round_ * FLOOD_A_ROUND + 1, "/flood")
            due = format_iso8601(now_ms())
            payload = {"targetUrl": receiver.url + "/small", "triggerAt": due}
            ids = small.schedule_batch([payload] * SMALL_A_ROUND)
            flood_before |= dict.fromkeys(ids, len(receiver.at("/flood")))
        small_ones = receiver.wait_for(len(flood_before), "/small")
        until(lambda: big.counts() == (FLOOD, 0), "the end of the flood", deadline_s=60)

        assert {each.schedule_id for each in small_ones} == flood_before.keys()
        arrived = 0
        for each in receiver.requests:
            if each.path == "/flood":
                arrived += 1
            else:
                waited_for = arrived - flood_before[each.schedule_id]
                assert waited_for <= MOST_BEFORE_A_SMALL_ONE
        until(lambda: small.counts() == (len(flood_before), 0), "all of them counted")
        assert len({each.schedule_id for each in receiver.requests}) == len(receiver.requests)
        assert big.credits() == 0
        assert deployment.problems() == []
