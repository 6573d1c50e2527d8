"""The picture of an account's requests: executed and waiting, their lateness and response times."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from api.dashboard.causes import Cause, as_held, causes_of, folded, ongoing
from api.dashboard.charts import MINUTE_MS, Axis, Chart, Layer
from api.dashboard.formats import duration, lateness, number
from api.dashboard.shared import shared_by
from api.dashboard.viewer.session import Viewer
from api.dashboard.zones import Zone
from api.service import HttpRequest, service_of
from scheduler.errors import StoreError
from scheduler.events import Event
from scheduler.rollups import lateness_quantile_ms
from scheduler.store.log.overview import AccountSnapshot, ChartRange, Series

# The same for all accounts.
_EVENTS_GOOD_FOR_S = 2.0
_HOLD_GOOD_FOR_S = 1.0
# From the bottom of a column to its top.
KINDS = ("failed", "completed", "waiting")


class Picture(NamedTuple):
    """`kinds` are those that it shows. One that is not of an account's sums but of some entries
    has `others`, with any other status, and no lateness."""

    stretch: ChartRange
    series: Series
    due: list[int]
    pulse: AccountSnapshot
    causes: Sequence[Cause] = ()
    kinds: tuple[str, ...] = KINDS
    others: Sequence[int] = ()
    is_of_sums: bool = True

    @property
    def is_now(self) -> bool:
        return self.stretch.from_ms <= self.pulse.now_ms < self.stretch.to_ms

    @property
    def is_empty(self) -> bool:
        return not self.series.executed and not any(self.due)

    def lateness_ms(self, share: float) -> int | None:
        """Over requests sent in this stretch; and, if it is now, overdue ones."""
        histogram = self.series.lateness
        if self.is_now:
            histogram = self._with_overdue(histogram)
        return lateness_quantile_ms(histogram, share)

    @property
    def layers(self) -> list[Layer]:
        points = self.series.points
        values = {
            "failed": [point.failed for point in points],
            "completed": [point.completed for point in points],
            "waiting": self.due,
            "other": self.others,
        }
        return [Layer(kind, kind, values[kind]) for kind in self.kinds]

    def activity(self, zone: Zone, height: int, lane: str = "") -> Chart:
        """`lane`: all of these requests are in it, so that its pauses are causes too."""
        now_ms, axis = self.pulse.now_ms, Axis(*self.stretch, zone)
        causes = folded(self.causes, axis, now_ms, lane)
        now = now_ms if self.is_now else None
        layers = self.layers
        return Chart("activity", "Requests", height, axis, layers, number, True, now, causes)

    def lateness(self, zone: Zone, height: int) -> Chart:
        """Overdue requests count at this moment, as late as they are by now."""
        found: tuple[list[float | None], list[float | None]] = ([], [])
        for point in self.series.points:
            histogram = point.lateness
            if point.at_ms <= self.pulse.now_ms < point.at_ms + self.stretch.step_ms:
                histogram = self._with_overdue(histogram)
            for values, share in zip(found, (0.5, 0.99), strict=True):
                values.append(lateness_quantile_ms(histogram, share))
        layers = [Layer("low", "p50", found[0]), Layer("high", "p99", found[1])]
        return Chart("lateness", "Lateness", height, self._past(zone), layers, lateness, False)

    def response(self, zone: Zone, height: int) -> Chart:
        shares, points = {"p50": 0.5, "p95": 0.95}, self.series.points
        layers = [
            Layer(kind, label, [each.response_ms(share) for each in points])
            for kind, (label, share) in zip(("low", "high"), shares.items(), strict=True)
        ]
        axis = self._past(zone)
        return Chart("response", "Response time", height, axis, layers, duration, False)

    def _with_overdue(self, histogram: Sequence[int]) -> list[int]:
        return [a + b for a, b in zip(histogram, self.pulse.overdue_lateness, strict=True)]

    def _past(self, zone: Zone) -> Axis:
        """Up to now: for the future there is no lateness, and no half of a chart stays empty."""
        axis = Axis(*self.stretch, zone)
        if not self.is_now:
            return axis
        return axis._replace(columns=int(self.pulse.now_ms - axis.from_ms) // axis.step_ms + 1)


async def picture_of(request: HttpRequest, viewer: Viewer, stretch: ChartRange) -> Picture:
    store, account_id = service_of(request).store, viewer.account_id
    good_for_s = 1.0 if stretch.step_ms <= MINUTE_MS else 4.0
    shared = shared_by(request)

    async def read() -> tuple[Series, list[int]]:
        series = await store.overview.past(account_id, stretch)
        return series, await store.overview.forecast(account_id, stretch)

    (series, due), pulse, causes = await asyncio.gather(
        shared.get((account_id, stretch), good_for_s, read),
        shared.get((account_id, "pulse"), 1.0, lambda: store.overview.pulse(account_id)),
        causes_by(request, account_id),
    )
    return Picture(stretch, series, due, pulse, causes)


async def causes_by(request: HttpRequest, account_id: str) -> list[Cause]:
    """Why requests of an account may have been late, the earliest first; as much as can be read: a
    page is not refused because the events lie on a server that is away."""
    events, shared = service_of(request).store.events, shared_by(request)
    reads = (
        shared.get("events", _EVENTS_GOOD_FOR_S, events.newest),
        shared.get((account_id, "events"), 1.0, lambda: events.newest(account_id)),
    )
    found = await asyncio.gather(*reads, return_exceptions=True)
    known: list[Event] = []
    for some in found:
        if isinstance(some, list):
            known += some
        elif not isinstance(some, StoreError):
            raise some
    causes = ongoing(causes_of(known), service_of(request).store.clock.now_ms())
    look = service_of(request).store.hold.look
    try:
        held = await shared_by(request).get("hold", _HOLD_GOOD_FOR_S, look)
    except StoreError:
        return causes
    return as_held(causes, held)
