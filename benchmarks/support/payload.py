"""The schedules that the benchmarks make: about 190 bytes of request each."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from scheduler.models import Account, Outcome, Plan, Request, Status
from scheduler.store import Store, keys
from scheduler.store.lifecycle.end.end_rows import Ack

HEADERS = {"Authorization": "Bearer abcdef0123456789", "X-Order": "ord_8412"}
BODY = b'{"order":"ord_8412","action":"remind","attempt":1,"text":"Your trial ends tomorrow"}'
_AT_ONCE, _CLAIMED_AT_ONCE = 2000, 128
_FAILED = Outcome(Status.FAILED, 503, 42, "Service Unavailable")


def request(url: str, trigger_at_ms: int, lane: str | None = None) -> Request:
    return Request(trigger_at_ms, "POST", url, HEADERS, BODY, lane=lane)


async def new_account(store: Store, name: str) -> Account:
    return await store.accounts.create(name, credits=10**9, plan=Plan.UNLIMITED)


async def schedule_all(store: Store, account_id: str, requests: Iterable[Request]) -> list[str]:
    """Stores them all, a few thousand at a time; returns their ids in order."""
    waiting, created = list(requests), []
    for start in range(0, len(waiting), _AT_ONCE):
        batch = waiting[start : start + _AT_ONCE]
        created += await asyncio.gather(*(store.schedules.create(account_id, r) for r in batch))
    return created


async def fail_all(store: Store, account_id: str, url: str, count: int) -> None:
    """Makes so many dead letters of an account. All else that is due in its shard fails, too."""
    due_ms = store.clock.now_ms() - 1
    await schedule_all(store, account_id, [request(url, due_ms)] * count)
    shard, _ = keys.parts(account_id)
    while True:
        batch = await store.claims.claim(shard, lease_ms=15_000, most=_CLAIMED_AT_ONCE)
        if not batch.invocations:
            break
        await store.ends.ack(shard, [Ack(each, _FAILED, 3) for each in batch.invocations])


async def executed(store: Store, account_id: str) -> None:
    """Returns once none of an account's schedules waits or is held; asks as cheaply as can be."""
    while await store.server.read("ZCARD", keys.account(account_id) + "waiting"):
        await asyncio.sleep(0.02)
