"""The schedules that the benchmarks make: about 190 bytes of request each."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from scheduler.models import Account, Plan, Request
from scheduler.store import Store, keys

HEADERS = {"Authorization": "Bearer abcdef0123456789", "X-Order": "ord_8412"}
BODY = b'{"order":"ord_8412","action":"remind","attempt":1,"text":"Your trial ends tomorrow"}'
_AT_ONCE = 2000


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


async def executed(store: Store, account_id: str) -> None:
    """Returns once none of an account's schedules waits or is held; asks as cheaply as can be."""
    while await store.server.read("ZCARD", keys.account(account_id) + "waiting"):
        await asyncio.sleep(0.02)
