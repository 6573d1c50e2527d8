"""The picture of a filtered list: from the sums of an account where they know what the filter asks
for, else from the requests that a bounded search finds."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import NamedTuple

from api.dashboard.charts import FIRST, MINUTE_MS, fitted, stretch_of
from api.dashboard.requests.filters import Filter
from api.dashboard.shared import shared_by
from api.dashboard.timeline import KINDS, Picture
from api.dashboard.zones import Zone
from api.service import HttpRequest, service_of
from scheduler.errors import TooManyScans
from scheduler.models import LogEntry, LogStatus
from scheduler.rollups import LATENESSES, RESPONSES
from scheduler.store import Store
from scheduler.store.log.logs import LogQuery
from scheduler.store.log.overview import ChartRange, Point, Series

MOST_FOUND = 2000
_AT_ONCE = 200
# Where the list is still looked for, this searches nothing.
_SEARCH_S = 0.2
# Its page is not live, but is turned and loaded again. Of a status the page is live.
_GOOD_FOR_S, _STATUS_GOOD_FOR_S = 10.0, 30.0
_COUNTED = {
    LogStatus.COMPLETED: "completed",
    LogStatus.FAILED: "failed",
    LogStatus.SCHEDULED: "waiting",
}


class Found(NamedTuple):
    """What a search came upon; `is_all` if there is no more."""

    entries: list[LogEntry]
    is_all: bool


async def found_by(
    request: HttpRequest, account_id: str, wanted: Filter, now_ms: int, listed: Found | None
) -> Found | None:
    """What the picture is made of; None if of sums. `listed`: no search finds more than the list
    has."""
    if not wanted.is_search and (wanted.status is None or wanted.status in _COUNTED):
        return None
    if listed is not None:
        return listed
    store, first = service_of(request).store, wanted._replace(cursor=None, back=False)
    return await shared_by(request).get(
        (account_id, "found", *first.pairs().items()),
        _GOOD_FOR_S if wanted.is_search else _STATUS_GOOD_FOR_S,
        lambda: _found(store, account_id, first, now_ms),
    )


def narrowed(
    picture: Picture, wanted: Filter, found: Found | None, now_ms: int, zone: Zone
) -> Picture:
    """The picture as the list is filtered."""
    if found is not None:
        return drawn(picture, found.entries, _stretch(wanted, found.entries, now_ms, zone))
    return picture._replace(kinds=(_COUNTED[wanted.status],)) if wanted.status else picture


async def _found(store: Store, account_id: str, wanted: Filter, now_ms: int) -> Found:
    """The nearest to this moment, where the filter names no other."""
    query = wanted.query(now_ms)
    if not wanted.is_around_now(now_ms):
        return await _searched(store, account_id, query, MOST_FOUND)
    coming = query._replace(from_ms=now_ms, descending=False)
    past = query._replace(to_ms=now_ms)
    # As in the list: what ends meanwhile moves to the past, which is read last.
    after = await _searched(store, account_id, coming, MOST_FOUND // 2)
    before = await _searched(store, account_id, past, MOST_FOUND - len(after.entries))
    return Found(before.entries + after.entries, before.is_all and after.is_all)


async def _searched(store: Store, account_id: str, query: LogQuery, most: int) -> Found:
    """So many, or as many as the time and the account's limit on searches allow."""
    entries, loop = list[LogEntry](), asyncio.get_running_loop()
    until_s = loop.time() + _SEARCH_S
    while len(entries) < most and loop.time() < until_s:
        left = min(_AT_ONCE, most - len(entries))
        try:
            part = await store.logs.page(account_id, query._replace(limit=left))
        except TooManyScans:
            break
        entries += part.entries
        if part.next_cursor is None:
            return Found(entries, is_all=True)
        query = query._replace(cursor=part.next_cursor)
    return Found(entries, is_all=False)


def _stretch(wanted: Filter, entries: list[LogEntry], now_ms: int, zone: Zone) -> ChartRange:
    """The period of the filter; without one, that of all entries."""
    nearby = stretch_of(FIRST, now_ms, zone)
    moments = [each.at_ms for each in entries] or [now_ms]
    first_ms, last_ms = min(moments), max(moments)
    if wanted.when or wanted.has_times:
        return wanted.stretch(now_ms, zone)
    if nearby.from_ms <= first_ms and last_ms < nearby.to_ms:
        return nearby
    return fitted(first_ms, last_ms + MINUTE_MS)


def drawn(picture: Picture, entries: list[LogEntry], stretch: ChartRange) -> Picture:
    """A picture of these entries alone."""
    counts = Counter(
        ((each.at_ms - stretch.from_ms) // stretch.step_ms, _COUNTED.get(each.status, "other"))
        for each in entries
    )

    def column(kind: str) -> list[int]:
        return [counts[place, kind] for place in range(stretch.points)]

    no_histograms = ([0] * len(LATENESSES), [0] * len(RESPONSES))
    points = [
        Point(stretch.from_ms + n * stretch.step_ms, done, failed, *no_histograms)
        for n, (done, failed) in enumerate(zip(column("completed"), column("failed"), strict=True))
    ]
    present = {kind for _, kind in counts}
    kinds = tuple(kind for kind in (*KINDS, "other") if kind in present) or KINDS
    return picture._replace(
        stretch=stretch,
        series=Series(points),
        due=column("waiting"),
        others=column("other"),
        kinds=kinds,
        is_of_sums=False,
    )
