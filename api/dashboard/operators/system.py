"""For operators: workers, shards, the store's servers, and the accounts."""

from __future__ import annotations

import asyncio
from typing import Any

from litestar import get

from api.dashboard.answer import Raw
from api.dashboard.attention.needs import Meter, meters_of
from api.dashboard.attention.service import SILENT_MS, service_needs
from api.dashboard.operators.accounts import accounts_values, found_accounts, listed
from api.dashboard.operators.holds import draining
from api.dashboard.render import page
from api.dashboard.shared import Shared, shared_by
from api.dashboard.viewer.csrf import judged_operator
from api.dashboard.viewer.session import asks_for_news, signed_in
from api.service import HttpRequest, service_of
from scheduler.errors import StoreError
from scheduler.store import Store
from scheduler.store.log.overview import OVERDUE_AFTER_MS
from scheduler.store.operators.census import Figures
from scheduler.store.operators.heartbeats import Process
from scheduler.store.operators.system import ShardState

_GOOD_FOR_S = 1.5


@get("/system")
async def system_page(request: HttpRequest) -> Raw:
    judged_operator(await signed_in(request))
    live = await _live(request)
    if asks_for_news(request):
        return page(request, "operators/system_live.html", **live)
    accounts = accounts_values(request, await listed(request))
    return page(request, "operators/system.html", **live | accounts)


async def _live(request: HttpRequest) -> dict[str, Any]:
    """The part that changes by itself, the same for all operators."""
    store = service_of(request).store
    workers, census, shards, meters = await shared_by(request).get(
        "system", _GOOD_FOR_S, lambda: _read(store, shared_by(request))
    )
    try:
        _, look = await found_accounts(request, "")
    except StoreError:
        look = None
    held = await store.hold.look()  # a press shows at once what it did
    now_ms = store.clock.now_ms()
    lost = [each for each in workers if each.is_lost(now_ms)]
    due = census.due.values()
    overdue = [each for each in due if each.overdue and each.oldest_ms > OVERDUE_AFTER_MS]
    return {
        "attention": service_needs(workers, census.due, shards, meters, look, now_ms),
        "workers": workers,
        "alive": [each for each in workers if not each.is_lost(now_ms)],
        # Workers forget a lost one after an hour; without workers it stays.
        "lost_ms": max((each.heard_at_ms for each in lost), default=None),
        "overdue": round(sum(each.overdue for each in overdue)),
        "oldest_ms": max((each.oldest_ms for each in overdue), default=None),
        "due": census.due,
        "shards": shards,
        "meters": meters,
        "held": held,
        "draining": None if held.since_ms is None else draining(workers, held.since_ms, now_ms),
        "silent_ms": SILENT_MS,
        "now_ms": now_ms,
    }


async def _read(
    store: Store, shared: Shared
) -> tuple[list[Process], Figures, list[ShardState], list[Meter]]:
    await store.tick()
    workers, shards = await asyncio.gather(store.workers.all(), store.system.shards())
    census, meters = await store.census.look(), await meters_of(store, shared)
    return workers, census, shards, meters


HANDLERS = [system_page]
