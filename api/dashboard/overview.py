"""The overview: how the account stands, what was executed of late, and what is coming; live."""

from __future__ import annotations

from typing import Any, NamedTuple

from litestar import get

from api.dashboard.answer import Raw, data
from api.dashboard.render import page
from api.dashboard.session import Viewer, signed_in
from api.dashboard.shared import Shared
from api.service import HttpRequest, service_of
from scheduler.models import LogEntry
from scheduler.rollups import lateness_quantile_ms
from scheduler.store import Store
from scheduler.store.log.logs import LogQuery
from scheduler.store.log.overview import LAST_DAY, LAST_HOUR, LAST_MONTH, Period, Pulse, Series

_LATEST = 8


class _Span(NamedTuple):
    """A choice of period: its name in the address, its words, and how long a read of it is good."""

    words: str
    each: str
    period: Period
    good_for_s: float


_SPANS = {
    "1h": _Span("the last hour", "minute", LAST_HOUR, 1.0),
    "24h": _Span("the last 24 hours", "hour", LAST_DAY, 5.0),
    "30d": _Span("the last 30 days", "day", LAST_MONTH, 30.0),
}
_FIRST_SPAN = "1h"


class Glance(NamedTuple):
    """What the tiles show."""

    pulse: Pulse
    hour: Series
    latest: list[LogEntry]

    @property
    def p95_lateness_ms(self) -> int | None:
        """Over what was sent in the last hour, and what should have been by now."""
        sent, overdue = self.hour.lateness, self.pulse.overdue_lateness
        return lateness_quantile_ms([a + b for a, b in zip(sent, overdue, strict=True)], 0.95)

    @property
    def executed(self) -> int:
        return self.hour.completed + self.hour.failed


@get("", include_in_schema=False)
async def overview_page(request: HttpRequest) -> Raw:
    viewer = await signed_in(request)
    name = request.query_params.get("range", _FIRST_SPAN)
    chosen = name if name in _SPANS else _FIRST_SPAN
    glance = await _glance(request, viewer)
    is_new = not (viewer.account.spent or glance.executed or glance.latest)
    return page(
        request,
        viewer,
        "overview.html",
        glance=glance,
        spans=_SPANS,
        chosen=chosen,
        is_new=is_new,
    )


@get("/overview/tiles", include_in_schema=False)
async def tiles(request: HttpRequest) -> Raw:
    viewer = await signed_in(request)
    return page(request, viewer, "tiles.html", glance=await _glance(request, viewer))


@get("/overview/data", include_in_schema=False)
async def chart_data(request: HttpRequest) -> Raw:
    """What the charts draw; times in seconds since the epoch."""
    viewer = await signed_in(request)
    span = _SPANS.get(request.query_params.get("range", ""), _SPANS[_FIRST_SPAN])
    glance = await _glance(request, viewer)
    series = await _series(request, viewer, span)
    return data(_columns(series, glance.pulse, span.period))


def _columns(series: Series, pulse: Pulse, period: Period) -> dict[str, Any]:
    points = series.points
    return {
        "stepS": period.point_ms // 1000,
        "at": [point.at_ms // 1000 for point in points],
        "fired": [point.executed for point in points],
        "failed": [point.failed for point in points],
        "responseMs": [
            None if (ms := point.response_ms(0.5)) is None else round(ms, 1) for point in points
        ],
        "comingAt": [pulse.coming_from_ms // 1000 + 60 * i for i in range(len(pulse.coming))],
        "coming": pulse.coming,
    }


async def _series(request: HttpRequest, viewer: Viewer, span: _Span) -> Series:
    store, account_id = service_of(request).store, viewer.account_id
    return await _shared(request).get(
        (account_id, span.words),
        span.good_for_s,
        lambda: store.overview.series(account_id, span.period),
    )


async def _glance(request: HttpRequest, viewer: Viewer) -> Glance:
    store, account_id = service_of(request).store, viewer.account_id
    return await _shared(request).get((account_id, "glance"), 1.0, lambda: _read(store, account_id))


async def _read(store: Store, account_id: str) -> Glance:
    pulse = await store.overview.pulse(account_id)
    hour = await store.overview.series(account_id, LAST_HOUR)
    # What waits stands at its triggerAt, so up to now the log has what was executed.
    recent = LogQuery(limit=_LATEST, to_ms=pulse.now_ms + 1)
    page = await store.logs.page(account_id, recent)
    return Glance(pulse, hour, page.entries)


def _shared(request: HttpRequest) -> Shared:
    state = request.app.state
    if "dashboard_shared" not in state:
        state["dashboard_shared"] = Shared()
    shared: Shared = state["dashboard_shared"]
    return shared


HANDLERS = [overview_page, tiles, chart_data]
