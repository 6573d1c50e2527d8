"""The overview: how the account stands, what was executed, what is coming, and what fails; live."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from litestar import get

from api.dashboard.answer import Raw
from api.dashboard.failures import Failures, failures_of
from api.dashboard.render import page
from api.dashboard.session import Viewer, asks_for_news, signed_in, zone_of
from api.dashboard.shared import shared_by
from api.dashboard.timeline import Picture, picture_of
from api.dashboard.windows import FIRST, WINDOWS, stretch_of
from api.service import HttpRequest, service_of
from scheduler.models import LogEntry
from scheduler.rollups import HOUR_MS
from scheduler.store import Store
from scheduler.store.log.logs import LogQuery

_LATEST = 8
_CHOICES = ("1h", "24h", "7d", "30d")
_HEIGHT, _LOW_HEIGHT = 190, 130

# From where on a figure is a warning, and an alarm.
FAILED_SHARES = (0.01, 0.05)
LATENESS_MS = (100, 1000)


class Glance(NamedTuple):
    """What the tiles show: of the last hour, whatever the charts do."""

    hour: Picture
    latest: list[LogEntry]

    @property
    def failed_level(self) -> str:
        series = self.hour.series
        return level(series.failed / series.executed if series.executed else 0, FAILED_SHARES)

    @property
    def lateness_level(self) -> str:
        # A bucket's bound may be on the edge: only what is beyond it is bad.
        return level((self.hour.lateness_ms(0.99) or 0) - 1, LATENESS_MS)


def level(value: float, bounds: tuple[float, float]) -> str:
    """'' where a figure is as it should be, else 'warning' or 'alarm'."""
    warning, alarm = bounds
    return "alarm" if value >= alarm else "warning" if value >= warning else ""


@get("")
async def overview_page(request: HttpRequest) -> Raw:
    """The whole page; of itself it asks for what changes only."""
    viewer = await signed_in(request)
    name = request.query_params.get("range", FIRST)
    chosen = name if name in _CHOICES else FIRST
    glance, picture, failures = await asyncio.gather(
        _glance(request, viewer), _picture(request, viewer, chosen), _failures(request, viewer)
    )
    is_new = not (viewer.account.spent or glance.hour.series.executed or glance.latest)
    zone = zone_of(request)
    return page(
        request,
        viewer,
        "overview_live.html" if asks_for_news(request) else "overview.html",
        glance=glance,
        pulse=glance.hour.pulse,
        now_ms=glance.hour.pulse.now_ms,
        picture=picture,
        charts=[picture.lateness(zone, _LOW_HEIGHT), picture.response(zone, _LOW_HEIGHT)],
        activity=picture.activity(zone, _HEIGHT),
        failures=failures,
        windows=WINDOWS,
        choices=_CHOICES,
        chosen=chosen,
        is_new=is_new,
    )


async def _picture(request: HttpRequest, viewer: Viewer, chosen: str) -> Picture:
    now_ms = service_of(request).store.clock.now_ms()
    return await picture_of(request, viewer, stretch_of(chosen, now_ms, zone_of(request)))


async def _failures(request: HttpRequest, viewer: Viewer) -> Failures:
    now_ms = service_of(request).store.clock.now_ms()
    return await failures_of(request, viewer, now_ms - 24 * HOUR_MS, now_ms + 60_000)


async def _glance(request: HttpRequest, viewer: Viewer) -> Glance:
    store, account_id = service_of(request).store, viewer.account_id
    hour = stretch_of("1h", store.clock.now_ms(), zone_of(request))
    latest = shared_by(request).get(
        (account_id, "latest"), 1.0, lambda: _read_latest(store, account_id)
    )
    return Glance(*await asyncio.gather(picture_of(request, viewer, hour), latest))


async def _read_latest(store: Store, account_id: str) -> list[LogEntry]:
    # What waits stands at its triggerAt, so up to now the log has what was executed.
    recent = LogQuery(limit=_LATEST, to_ms=store.clock.now_ms() + 1)
    return (await store.logs.page(account_id, recent)).entries


HANDLERS = [overview_page]
