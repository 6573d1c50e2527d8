"""The Requests page: the timeline, the filters, and a list that is read on from any place."""

from __future__ import annotations

from typing import Any, NamedTuple

from litestar import get

from api.dashboard.answer import Raw, html, redirect
from api.dashboard.render import page
from api.dashboard.requests.filters import ADDRESS, Filter, read_filter
from api.dashboard.requests.listing import Listing, Rows, coming_rows, listing, searched
from api.dashboard.session import Viewer, asks_for_news, signed_in, zone_of
from api.dashboard.shared import shared_by
from api.dashboard.timeline import Picture, picture_of
from api.dashboard.windows import WINDOWS
from api.service import HttpRequest, service_of
from scheduler.errors import InvalidRequest
from scheduler.ids import is_schedule_id
from scheduler.models import LogStatus, Usage

_HEIGHT = 120
_COUNTS_GOOD_FOR_S = 4.0
_PERIODS = ("15m", "1h", "today", "yesterday", "7d", "tomorrow")


class Shown(NamedTuple):
    """A list as its page shows it."""

    wanted: Filter
    faults: dict[str, str]
    listing: Listing
    picture: Picture
    counts: dict[str, int]


@get("/requests")
async def requests_page(request: HttpRequest) -> Raw:
    """The list; of itself it asks for what changes only. A search for an id leads to it."""
    viewer = await signed_in(request)
    wanted_id = request.query_params.get("q", "").strip().replace("inv_", "sch_", 1)
    if is_schedule_id(wanted_id):
        return redirect(request, f"{ADDRESS}/{wanted_id}")
    shown = await read_page(request, viewer)
    refused_ms = shown.listing.refused_ms
    if refused_ms:
        return list_page(request, viewer, shown, status=429).with_retry_after(refused_ms)
    return list_page(request, viewer, shown)


@get("/requests/closed")
async def closed_panel(request: HttpRequest) -> Raw:
    """What the side panel has when none is open."""
    await signed_in(request)
    return html("")


@get("/requests/more")
async def more(request: HttpRequest) -> Raw:
    """A search goes on from where it stopped, towards the past (`side=past`) or the future."""
    viewer = await signed_in(request)
    store, zone = service_of(request).store, zone_of(request)
    now_ms = store.clock.now_ms()
    wanted, _ = read_filter(request.query_params, zone, now_ms)
    side = request.query_params.get("side", "past")
    if request.query_params.get("paused"):
        rows = Rows([], next=wanted.cursor, unfinished=True)
    elif side == "coming":
        rows = await coming_rows(store, viewer.account_id, wanted, now_ms, wanted.cursor)
    else:
        rows = await searched(store, viewer.account_id, wanted.query(now_ms))
    answer = page(
        request,
        viewer,
        "requests/more.html",
        status=429 if rows.refused_ms else 200,
        wanted=wanted,
        rows=rows,
        side=side,
        paused=bool(request.query_params.get("paused")),
        now_ms=store.clock.now_ms(),
    )
    return answer.with_retry_after(rows.refused_ms) if rows.refused_ms else answer


async def read_page(request: HttpRequest, viewer: Viewer) -> Shown:
    """What the address asks for. A bad cursor is a fault among others."""
    store, zone = service_of(request).store, zone_of(request)
    now_ms = store.clock.now_ms()
    wanted, faults = read_filter(request.query_params, zone, now_ms)
    picture = await picture_of(request, viewer, wanted.stretch(now_ms, zone))
    found = Listing(Rows([]))
    try:
        if not faults:
            found = await listing(store, viewer.account_id, wanted, now_ms)
    except InvalidRequest:
        faults["cursor"] = "There is no such page of the list; begin at the first one."
    return Shown(wanted, faults, found, picture, await _counts(request, viewer, wanted, picture))


def list_page(request: HttpRequest, viewer: Viewer, shown: Shown, **panel: Any) -> Raw:
    """The whole page, with what is in its side panel; or, for news, what changes of it."""
    zone = zone_of(request)
    return page(
        request,
        viewer,
        "requests/live.html" if asks_for_news(request) else "requests/list.html",
        status=panel.pop("status", 400 if shown.faults else 200),
        wanted=shown.wanted,
        faults=shown.faults,
        listing=shown.listing,
        picture=shown.picture,
        pulse=shown.picture.pulse,
        activity=shown.picture.activity(zone, _HEIGHT),
        counts=shown.counts,
        statuses=list(LogStatus),
        periods=_PERIODS,
        windows=WINDOWS,
        **({"entry": None, "now_ms": service_of(request).store.clock.now_ms()} | panel),
    )


async def _counts(
    request: HttpRequest, viewer: Viewer, wanted: Filter, picture: Picture
) -> dict[str, int]:
    """How many there are of each status, where that costs little: nowhere in a search, and of those
    that were cancelled never."""
    if wanted.is_search:
        return {}
    if wanted.when or wanted.has_times:
        series = picture.series
        waiting, completed, failed = sum(picture.due), series.completed, series.failed
    else:
        usage = await _usage(request, viewer)
        waiting, completed, failed = picture.pulse.waiting, usage.completed, usage.failed
    return {"scheduled": waiting, "completed": completed, "failed": failed}


async def _usage(request: HttpRequest, viewer: Viewer) -> Usage:
    store, account_id = service_of(request).store, viewer.account_id
    read = lambda: store.stats.usage(account_id, 0, store.clock.now_ms())  # noqa: E731
    return await shared_by(request).get((account_id, "usage"), _COUNTS_GOOD_FOR_S, read)


HANDLERS = [requests_page, closed_panel, more]
