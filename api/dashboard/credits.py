"""Credits: the balance, what was spent of late, and the ledger's movements by day."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from litestar import get

from api.dashboard.answer import Raw
from api.dashboard.charts import DAY_MS, Axis, Chart, Kind, stacked
from api.dashboard.render import page
from api.dashboard.session import signed_in
from api.dashboard.zones import UTC
from api.service import HttpRequest, service_of
from scheduler.store.accounts.ledger import Movements

_HEIGHT = 130
_DAYS_DRAWN = 30


class Spending(NamedTuple):
    """Less what came back; a day begins when it does in UTC, a week on Monday."""

    today: int
    week: int
    month: int


@get("/credits", include_in_schema=False)
async def credits_page(request: HttpRequest) -> Raw:
    viewer = await signed_in(request)
    service = service_of(request)
    days = await service.store.ledger.movements(viewer.account_id)
    now_ms = service.store.clock.now_ms()
    return page(
        request,
        viewer,
        "credits.html",
        account=viewer.account,
        days=days,
        spending=spending(days, now_ms),
        drawn=drawn(days, now_ms),
        kept_days=service.settings.log_retention_days,
    )


def spending(days: Sequence[Movements], now_ms: int) -> Spending:
    today_ms = now_ms // DAY_MS * DAY_MS
    today = UTC.local(now_ms)
    starts = (today_ms, today_ms - today.weekday() * DAY_MS, today_ms - (today.day - 1) * DAY_MS)
    return Spending(
        *(sum(d.spent - d.refunded for d in days if d.day_ms >= start) for start in starts)
    )


def drawn(days: Sequence[Movements], now_ms: int) -> Chart:
    """What was spent on each of the last days."""
    axis = Axis(now_ms // DAY_MS * DAY_MS - (_DAYS_DRAWN - 1) * DAY_MS, DAY_MS, _DAYS_DRAWN, UTC)
    spent = {each.day_ms: each.spent for each in days}
    values = [spent.get(axis.from_ms + i * DAY_MS, 0) for i in range(axis.columns)]
    kinds = [Kind("completed", "spent", values)]
    return stacked("spent", "Spent by day", _HEIGHT, axis, kinds, axis.from_ms - 1)


HANDLERS = [credits_page]
