"""Credits: the balance, recent spending, the ledger's movements by day, and the bytes stored."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from litestar import get

from api.dashboard.answer import Raw
from api.dashboard.charts import DAY_MS, Axis, Chart, Layer, stacked
from api.dashboard.overview import level
from api.dashboard.render import page
from api.dashboard.session import signed_in
from api.dashboard.zones import UTC
from api.service import HttpRequest, service_of
from scheduler.store.accounts.accounts import Movements

_HEIGHT = 130
_DAYS_DRAWN = 30
# From which part of what may be stored on it is a warning, and an alarm.
_STORED_SHARES = (0.8, 0.95)


@get("/credits")
async def credits_page(request: HttpRequest) -> Raw:
    viewer = await signed_in(request)
    service = service_of(request)
    days, used = await asyncio.gather(
        service.store.accounts.movements(viewer.account_id),
        service.store.accounts.stored_bytes(viewer.account_id),
    )
    now_ms = service.store.clock.now_ms()
    most = service.settings.stored_bytes.get(viewer.account.plan)
    percent = min(100 * used / most, 100) if most else 0
    return page(
        request,
        "credits.html",
        account=viewer.account,
        days=days,
        stored_bytes=used,
        most_bytes=most,
        percent=round(percent, 1),
        stored_level=level(percent / 100, _STORED_SHARES),
        spending=spending(days, now_ms),
        drawn=drawn(days, now_ms),
        kept_days=service.settings.log_retention_days,
    )


def spending(days: Sequence[Movements], now_ms: int) -> list[int]:
    """Of today, this week and this month, less what came back; a day begins when it does in UTC,
    a week on Monday."""
    today_ms = now_ms // DAY_MS * DAY_MS
    today = UTC.local(now_ms)
    starts = (today_ms, today_ms - today.weekday() * DAY_MS, today_ms - (today.day - 1) * DAY_MS)
    return [sum(d.spent - d.refunded for d in days if d.day_ms >= start) for start in starts]


def drawn(days: Sequence[Movements], now_ms: int) -> Chart:
    axis = Axis(now_ms // DAY_MS * DAY_MS - (_DAYS_DRAWN - 1) * DAY_MS, DAY_MS, _DAYS_DRAWN, UTC)
    spent = {each.day_ms: each.spent for each in days}
    values = [spent.get(axis.from_ms + i * DAY_MS, 0) for i in range(axis.columns)]
    kinds = [Layer("completed", "spent", values)]
    return stacked("spent", "Spent by day", _HEIGHT, axis, kinds, axis.from_ms - 1)


HANDLERS = [credits_page]
