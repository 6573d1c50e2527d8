"""The Requests page: the timeline, the filters, and a list that is read on from any place."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from heapq import nlargest
from types import MappingProxyType
from typing import Any, NamedTuple

from litestar import get

from api.dashboard.answer import Raw, html, redirect
from api.dashboard.charts import WINDOWS
from api.dashboard.render import page
from api.dashboard.requests.bulk_strip import bulks_of, in_a_line, replays_of
from api.dashboard.requests.filters import (
    ADDRESS,
    PER_PAGE,
    Filter,
    read_filter,
    read_typed,
    schedule_named,
)
from api.dashboard.requests.picture import Found, found_by, narrowed
from api.dashboard.shared import shared_by
from api.dashboard.timeline import Picture, picture_of
from api.dashboard.viewer.session import Viewer, asks_for_news, signed_in, zone_of
from api.service import HttpRequest, service_of
from scheduler.callbacks import CallbackStatus
from scheduler.errors import InvalidRequest, TooManyScans
from scheduler.lane_settings import HeldBy
from scheduler.models import LogEntry
from scheduler.store import Store
from scheduler.store.lifecycle.callback.callbacks import CallbackCounts
from scheduler.store.log.logs import LogQuery

# The picture is a strip: the list comes first.
_HEIGHT = 72
_COUNTS_GOOD_FOR_S = 4.0
_PERIODS = ("15m", "1h", "today", "yesterday", "7d", "tomorrow")
# A list around this moment shows so many coming schedules.
_COMING = 8
# How long one step of a search may take. It is made of reads that are bounded each.
_STEP_S = 0.4
# How many at a time are read to find the latest.
_SORTED_AT_ONCE = 200
# Our idea of the store's clock may be behind it by as long as a reply takes.
_CLOCK_TOLERANCE_MS = 100


class Rows(NamedTuple):
    """`next` and `before` are the cursors of the pages beside this one. `unfinished`: a search has
    come as far as `reached_ms`, and may go on after `wait_ms`. `replays` of those that failed;
    `held`: what keeps due ones from starting; `callbacks`: how those of ended ones stand."""

    entries: Sequence[LogEntry]
    next: str | None = None
    before: str | None = None
    unfinished: bool = False
    reached_ms: int | None = None
    wait_ms: int = 0
    replays: Mapping[str, str | None] = MappingProxyType({})
    held: Mapping[str, HeldBy] = MappingProxyType({})
    callbacks: Mapping[str, CallbackStatus] = MappingProxyType({})

    @property
    def refused_ms(self) -> int:
        """How long to wait, if nothing was looked through."""
        return 0 if self.entries or self.reached_ms is not None else self.wait_ms


class Listing(NamedTuple):
    """The latest first. `coming` is None where the list is not around this moment. With
    `sorted_since_ms` it is sorted by lateness, of only the requests that ended since then;
    `is_cut`: it is sorted, and there are or may be others."""

    rows: Rows
    coming: Rows | None = None
    sorted_since_ms: int | None = None
    is_cut: bool = False

    @property
    def _sides(self) -> list[Rows]:
        return [self.rows] if self.coming is None else [self.rows, self.coming]

    @property
    def is_empty(self) -> bool:
        return not any(each.entries for each in self._sides)

    @property
    def is_unfinished(self) -> bool:
        return any(each.unfinished for each in self._sides)

    @property
    def whole(self) -> Found | None:
        """All that it has, if that is all, or all so far; None where there are more pages."""
        if self.is_cut:
            return None
        if self.is_unfinished or all(each.next is None for each in self._sides):
            entries = [entry for each in self._sides for entry in each.entries]
            return Found(entries, is_all=not self.is_unfinished)
        return None

    @property
    def refused_ms(self) -> int:
        waits_ms = [each.refused_ms for each in self._sides]
        return max(waits_ms) if all(waits_ms) else 0


@get("/requests")
async def requests_page(request: HttpRequest) -> Raw:
    """The list, or the parts of it that changed. Text from its box redirects to the address of
    the same filters, and an id to its request."""
    viewer = await signed_in(request)
    asked = dict(request.query_params)
    typed, unread = asked.pop("find", "").strip(), dict[str, str]()
    if schedule_id := schedule_named(typed or asked.get("q", "").strip()):
        return redirect(request, f"{ADDRESS}/{schedule_id}")
    if typed:
        now_ms = service_of(request).store.clock.now_ms()
        wanted, unread = read_typed(typed, asked, zone_of(request), now_ms)
        if not unread:
            return redirect(request, wanted.address())
    shown = await read_page(request, viewer) | {"typed": typed, "unread": unread}
    refused_ms = shown["listing"].refused_ms
    status = 429 if refused_ms else 400 if shown["faults"] or unread else 200
    return list_page(request, shown, status=status).with_retry_after(refused_ms)


@get("/requests/closed")
async def closed_panel(request: HttpRequest) -> Raw:
    await signed_in(request)
    return html("")


@get("/requests/more")
async def more(request: HttpRequest) -> Raw:
    """A search goes on from where it stopped, towards the past (`side=past`) or the future."""
    viewer = await signed_in(request)
    store = service_of(request).store
    now_ms = store.clock.now_ms()
    wanted, _ = read_filter(request.query_params, zone_of(request), now_ms)
    side = request.query_params.get("side", "past")
    paused, since_ms = bool(request.query_params.get("paused")), None
    if paused:
        rows = Rows([], next=wanted.cursor, unfinished=True)
    elif side == "coming":
        rows = await _coming_rows(store, viewer.account_id, wanted, now_ms)
    else:
        query = wanted.query(now_ms)
        if wanted.by_lateness:
            rows, since_ms = await latest_first(store, viewer.account_id, query)
        else:
            rows = await searched(store, viewer.account_id, query)
        rows = await _completed(store, viewer.account_id, rows)
    return page(
        request,
        "requests/more.html",
        status=429 if rows.refused_ms else 200,
        wanted=wanted,
        rows=rows,
        side=side,
        paused=paused,
        sorted_since_ms=since_ms,
        now_ms=store.clock.now_ms(),
    ).with_retry_after(rows.refused_ms)


async def read_page(request: HttpRequest, viewer: Viewer) -> dict[str, Any]:
    """The values of the list's template, by the address. A bad cursor is a fault among others."""
    store, zone = service_of(request).store, zone_of(request)
    now_ms = store.clock.now_ms()
    wanted, faults = read_filter(request.query_params, zone, now_ms)
    picture = await picture_of(request, viewer, wanted.stretch(now_ms, zone))
    found = Listing(Rows([]))
    try:
        if not faults:
            found = await _listing(store, viewer.account_id, wanted, now_ms)
    except InvalidRequest:
        faults["cursor"] = "There is no such page of the list; begin at the first one."
    counts = await _counts(request, viewer, wanted, picture)
    listed = None if wanted.cursor else found.whole
    if wanted.bulk:  # no search finds them
        listed = Found(list(found.rows.entries), found.rows.next is None)
    drawn_of = await found_by(request, viewer.account_id, wanted, now_ms, listed)
    shown = narrowed(picture, wanted, drawn_of, now_ms, zone)
    bulks = await bulks_of(request, viewer)
    return {
        "wanted": wanted,
        "faults": faults,
        "listing": found,
        "picture": shown,
        "found": drawn_of,
        "typed": "",
        "unread": {},
        "bulks": bulks,
        "bulk_line": in_a_line(bulks),
        "pulse": picture.pulse,
        "activity": partial(shown.activity, zone, _HEIGHT, wanted.named.get("lane", "")),
        "counts": counts,
        "called_back": await _called_back(request, viewer, wanted),
        "periods": _PERIODS,
        "windows": WINDOWS,
        "entry": None,
        "now_ms": store.clock.now_ms(),
    }


def list_page(request: HttpRequest, shown: dict[str, Any], *, status: int = 200) -> Raw:
    """The whole page with its side panel; or, for a live update, the parts that change."""
    name = "requests/live.html" if asks_for_news(request) else "requests/list.html"
    return page(request, name, status=status, **shown)


async def _counts(
    request: HttpRequest, viewer: Viewer, wanted: Filter, picture: Picture
) -> dict[str, int]:
    """The number of each status where that costs little: not in a search, not of cancelled ones."""
    if wanted.is_search:
        return {}
    if wanted.when or wanted.has_times:
        series, waiting = picture.series, sum(picture.due)
        return {"scheduled": waiting, "completed": series.completed, "failed": series.failed}
    store, account_id = service_of(request).store, viewer.account_id
    usage = await shared_by(request).get(
        (account_id, "usage"),
        _COUNTS_GOOD_FOR_S,
        lambda: store.stats.usage(account_id, 0, store.clock.now_ms()),
    )
    waiting = picture.pulse.waiting
    return {"scheduled": waiting, "completed": usage.completed, "failed": usage.failed}


async def _called_back(request: HttpRequest, viewer: Viewer, wanted: Filter) -> dict[str, int]:
    """The number of callbacks that have failed and that are pending, of the whole account."""
    if wanted.status or wanted.has_times or wanted._replace(callback=None).is_search:
        return {}
    store, key = service_of(request).store, (viewer.account_id, "callbacks")

    async def read() -> CallbackCounts:
        return await store.callbacks.counts(viewer.account_id)

    # A page that follows on a press shows what came of it.
    is_news = asks_for_news(request)
    found = await (shared_by(request).get(key, _COUNTS_GOOD_FOR_S, read) if is_news else read())
    return {"failed": found.failed, "pending": found.pending}


async def _listing(store: Store, account_id: str, wanted: Filter, now_ms: int) -> Listing:
    """The page that a filter asks for. Raises InvalidRequest for a bad cursor."""
    if wanted.bulk:
        some, rest = await replays_of(store, account_id, wanted)
        return Listing(await _completed(store, account_id, Rows(some, rest)))
    if wanted.is_around_now(now_ms):
        edge_ms = now_ms + _CLOCK_TOLERANCE_MS
        past = wanted.query(now_ms)._replace(to_ms=edge_ms, limit=PER_PAGE - _COMING)
        # Requests that end while we read move to the past: so the past is read last.
        coming = await _coming_rows(store, account_id, wanted, edge_ms)
        found = await _completed(store, account_id, await searched(store, account_id, past))
        return Listing(found._replace(before=None), coming)
    if wanted.by_lateness:
        found, since_ms = await latest_first(store, account_id, wanted.query(now_ms))
        found = await _completed(store, account_id, found)
        is_cut = since_ms is not None or len(found.entries) >= PER_PAGE
        return Listing(found, sorted_since_ms=since_ms, is_cut=is_cut)
    found = await searched(store, account_id, wanted.query(now_ms))
    found = await _completed(store, account_id, found)
    if wanted.back:
        turned = found._replace(entries=found.entries[::-1], next=found.before, before=found.next)
        return Listing(turned._replace(unfinished=False, reached_ms=None, wait_ms=0))
    return Listing(found if wanted.cursor else found._replace(before=None))


async def _completed(store: Store, account_id: str, rows: Rows) -> Rows:
    """With what entries do not say themselves."""
    replays, held, callbacks = await asyncio.gather(
        store.logs.replays(account_id, rows.entries),
        store.holders.of_entries(account_id, rows.entries),
        store.logs.callbacks(account_id, rows.entries),
    )
    return rows._replace(replays=replays, held=held, callbacks=callbacks)


async def _coming_rows(store: Store, account_id: str, wanted: Filter, from_ms: int) -> Rows:
    """The next ones, the soonest last."""
    query = wanted.query(from_ms)._replace(from_ms=from_ms, limit=_COMING, descending=False)
    found = await searched(store, account_id, query)
    return found._replace(entries=found.entries[::-1])


async def searched(store: Store, account_id: str, query: LogQuery) -> Rows:
    """A full page, unless the time of one step or the account's limit on searches ends first."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + _STEP_S
    found = Rows([], query.cursor)
    while True:
        left = query.limit - len(found.entries)
        try:
            part = await store.logs.page(account_id, query._replace(cursor=found.next, limit=left))
        except TooManyScans as refusal:
            here = found.next or query.beginning
            return found._replace(next=here, unfinished=True, wait_ms=refusal.wait_ms)
        entries, before = [*found.entries, *part.entries], found.before or part.first_cursor
        unfinished = len(entries) < query.limit and part.next_cursor is not None
        found = Rows(entries, part.next_cursor, before, unfinished, part.reached_ms)
        if not unfinished or loop.time() >= until_s:
            return found


async def latest_first(store: Store, account_id: str, query: LogQuery) -> tuple[Rows, int | None]:
    """The latest of a period; and since when, if the time of one step or the account's limit on
    searches ended first. There is no page after them."""
    loop = asyncio.get_running_loop()
    until_s, reached_ms = loop.time() + _STEP_S, None
    found: list[LogEntry] = []
    while True:
        try:
            part = await store.logs.page(account_id, query._replace(limit=_SORTED_AT_ONCE))
        except TooManyScans as refusal:
            if reached_ms is None:
                return Rows([], query.beginning, None, True, None, refusal.wait_ms), None
            return Rows(found), reached_ms
        found = nlargest(query.limit, found + part.entries, key=_lateness)
        reached_ms, query = part.reached_ms, query._replace(cursor=part.next_cursor)
        if query.cursor is None:
            return Rows(found), None
        if loop.time() >= until_s:
            return Rows(found), reached_ms


def _lateness(entry: LogEntry) -> int:
    return entry.lateness_ms or 0


HANDLERS = [requests_page, closed_panel, more]
