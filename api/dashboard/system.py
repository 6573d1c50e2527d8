"""For operators: workers, shards, the store's servers, and who has an account."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from litestar import get, post

from api.dashboard.answer import Raw
from api.dashboard.csrf import ONCE, judged_operator, written
from api.dashboard.holds import draining, lost
from api.dashboard.overview import level
from api.dashboard.render import page
from api.dashboard.session import ROOT, asks_for_news, redirect_saying, signed_in
from api.dashboard.shared import Shared, shared_by
from api.service import HttpRequest, service_of
from scheduler.errors import NotFound
from scheduler.events import Kind
from scheduler.ids import parse_sharded
from scheduler.models import Account
from scheduler.rollups import DAY_MS
from scheduler.store import Store
from scheduler.store.log.overview import OVERDUE_AFTER_MS
from scheduler.store.operators.census import Figures
from scheduler.store.operators.filling import Sample, full_in_ms
from scheduler.store.operators.heartbeats import Process
from scheduler.store.operators.restore import Held
from scheduler.store.operators.system import ServerStatus, ShardState

_MOST_ACCOUNTS = 100
# A search by a part looks at so many; a whole name or id is found among any number.
_MOST_SEARCHED = 5000
_ACCOUNTS_GOOD_FOR_S = 10.0
_GOOD_FOR_S = 1.5
_HISTORY_GOOD_FOR_S = 60.0
_SILENT_MS = 5000
_MOST_CREDITS = 10**12
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
    return await _page(request)


@post("/system/grant")
async def grant(request: HttpRequest) -> Raw:
    """Gives an account credits; a form that is sent twice gives them once."""
    viewer, form = await written(request)
    judged_operator(viewer)
    account_id, once, credits = (form.get(name, "") for name in ("account", "once", "credits"))
    known = parse_sharded(account_id, "acc") is not None and ONCE.fullmatch(once)
    whole = credits.isascii() and credits.isdigit() and len(credits) <= 13
    if not known or not whole or not 1 <= int(credits) <= _MOST_CREDITS:
        return await _page(request, 400, "Credits are granted in whole numbers from 1 on.")
    store, about = service_of(request).store, f"{int(credits):,} credits"
    async with store.events.act(
        Kind.GRANT, who=viewer.account.name, account_id=account_id, about=about
    ) as noted:
        account = await store.accounts.grant(account_id, int(credits), once)
    words = f"{int(credits):,} credits granted to {account.name}: {account.credits:,} are left."
    return await redirect_saying(request, viewer, words + lost(noted), f"{ROOT}/system")


async def _page(request: HttpRequest, status: int = 200, fault: str | None = None) -> Raw:
    store = service_of(request).store
    live = await _live(request)
    if asks_for_news(request):
        return page(request, "system_live.html", **live)
    wanted = request.query_params.get("q", "").strip()
    accounts, count = await found_accounts(request, wanted)
    since_ms, activity = await store.overview.activity([each.account_id for each in accounts])
    return page(
        request,
        "system.html",
        status=status,
        fault=fault,
        wanted=wanted,
        accounts=accounts,
        account_count=count,
        activity=activity,
        since_ms=since_ms,
        **live,
    )


async def _live(request: HttpRequest) -> dict[str, Any]:
    """The part that changes by itself, the same for all operators."""
    store = service_of(request).store
    workers, census, shards, meters, held = await shared_by(request).get(
        "system", _GOOD_FOR_S, lambda: _read(store, shared_by(request))
    )
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
) -> tuple[list[Process], Figures, list[ShardState], list[Meter], Held]:
    await store.tick()
    workers, shards = await asyncio.gather(store.workers.all(), store.system.shards())
    census, servers = await store.census.look(), await store.system.servers()
    history = await shared.get("filling", _HISTORY_GOOD_FOR_S, store.filling.history)
    now_ms = store.clock.now_ms()
    meters = [meter_of(each, history.get(each.name, []), now_ms) for each in servers]
    return workers, census, shards, meters, await store.hold.look()


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


async def found_accounts(request: HttpRequest, wanted: str) -> tuple[list[Account], int]:
    """Those with a part in their name, id or address; and how many accounts there are in all."""
    store = service_of(request).store
    if not wanted:
        return await store.accounts.some(_MOST_ACCOUNTS)
    every, count = await shared_by(request).get(
        "accounts", _ACCOUNTS_GOOD_FOR_S, lambda: store.accounts.some(_MOST_SEARCHED)
    )
    part = wanted.lower()
    found = [a for a in every if part in f"{a.name} {a.account_id} {a.email}".lower()]
    if not found:
        with contextlib.suppress(NotFound):
            found = [await store.accounts.find(wanted)]
    return found[:_MOST_ACCOUNTS], count


HANDLERS = [system_page, grant]
