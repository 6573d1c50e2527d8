"""For operators: workers, shards, the store's servers, and the accounts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from litestar import get

from api.dashboard.answer import Raw
from api.dashboard.operators.accounts import accounts_values, listed
from api.dashboard.operators.holds import draining
from api.dashboard.overview import level
from api.dashboard.render import page
from api.dashboard.shared import Shared, shared_by
from api.dashboard.viewer.csrf import judged_operator
from api.dashboard.viewer.session import asks_for_news, signed_in
from api.service import HttpRequest, service_of
from scheduler.rollups import DAY_MS
from scheduler.store import Store
from scheduler.store.log.overview import OVERDUE_AFTER_MS
from scheduler.store.operators.census import Figures
from scheduler.store.operators.filling import Sample, full_in_ms
from scheduler.store.operators.heartbeats import Process
from scheduler.store.operators.system import ServerStatus, ShardState

_GOOD_FOR_S = 1.5
_HISTORY_GOOD_FOR_S = 60.0
_SILENT_MS = 5000
# From where on a server's memory is a warning, and an alarm.
_FULL_SHARES = (0.75, 0.9)


class Meter(NamedTuple):
    """The memory of a server: how full it is, and for how long its room lasts at the rate at which
    it fills; None if it does not. `level`: '', 'warning' or 'alarm'."""

    server: ServerStatus
    percent: float
    full_in_ms: float | None
    level: str


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
    held = await store.hold.look()  # a press shows at once what it did
    now_ms = store.clock.now_ms()
    lost = [each for each in workers if each.is_lost(now_ms)]
    due = census.due.values()
    overdue = [each for each in due if each.overdue and each.oldest_ms > OVERDUE_AFTER_MS]
    return {
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
        "silent_ms": _SILENT_MS,
        "now_ms": now_ms,
    }


async def _read(
    store: Store, shared: Shared
) -> tuple[list[Process], Figures, list[ShardState], list[Meter]]:
    await store.tick()
    workers, shards = await asyncio.gather(store.workers.all(), store.system.shards())
    census, servers = await store.census.look(), await store.system.servers()
    history = await shared.get("filling", _HISTORY_GOOD_FOR_S, store.filling.history)
    now_ms = store.clock.now_ms()
    meters = [meter_of(each, history.get(each.name, []), now_ms) for each in servers]
    return workers, census, shards, meters


def meter_of(server: ServerStatus, history: Sequence[Sample], now_ms: int) -> Meter:
    if not server.most_bytes:
        return Meter(server, 0.0, None, "")
    percent = min(100.0, 100 * server.used_bytes / server.most_bytes)
    left_ms = full_in_ms(history, Sample(now_ms, server.used_bytes), server.most_bytes)
    shades = [level(percent / 100, _FULL_SHARES)]
    if left_ms is not None:
        shades.append("alarm" if left_ms < DAY_MS else "warning" if left_ms < 7 * DAY_MS else "")
    # "alarm" comes before "warning".
    worst = min((each for each in shades if each), default="")
    return Meter(server, round(percent, 1), left_ms, worst)


HANDLERS = [system_page]
