"""Jumps to a page, a request, a recurring schedule, a lane or an account by a few letters of it: a
dialog on every page, and a page of its own."""

from __future__ import annotations

from typing import NamedTuple

from litestar import get

from api.dashboard.answer import Raw
from api.dashboard.operators.accounts import found_accounts
from api.dashboard.operators.impersonation import address_of
from api.dashboard.recurring.texts import name_of
from api.dashboard.render import page
from api.dashboard.requests.filters import ADDRESS, Filter
from api.dashboard.viewer.session import ROOT, Viewer, asks_for_news, signed_in
from api.service import HttpRequest, service_of
from scheduler.errors import NotFound, TooManyScans, Unreadable
from scheduler.ids import is_recurring_id, is_schedule_id
from scheduler.lanes import is_lane
from scheduler.models import LogEntry, LogStatus
from scheduler.references import is_reference
from scheduler.store import Store
from scheduler.store.log.logs import LogQuery

# Of each kind; of less than so many letters too many requests have some.
_MOST = 5
_FEWEST_LETTERS = 3
_LONGEST = 200
_NO_REQUEST = (LogStatus.RETRYING, LogStatus.SKIPPED)
_FURTHER = {
    "/requests/new": "Schedule a request",
    "/recurring/new": "New recurring schedule",
    "/requests?status=failed": "Requests that failed",
    "/requests?status=scheduled": "Requests that wait",
    "/account": "Account",
    "/keys#signing": "Signing secrets",
}


class Place(NamedTuple):
    """`entry` is of a request."""

    kind: str
    address: str
    words: str
    entry: LogEntry | None = None


class Found(NamedTuple):
    """`wait_ms`: the account searches too much; lanes and requests were not all looked for."""

    places: list[Place]
    wait_ms: int = 0


@get("/jump")
async def jump_page(request: HttpRequest) -> Raw:
    """A page, or for the dialog just its results."""
    viewer = await signed_in(request)
    letters = request.query_params.get("q", "").strip()[:_LONGEST]
    found = await _found(request, viewer, letters)
    now_ms = service_of(request).store.clock.now_ms()
    name = "jump_found.html" if asks_for_news(request) else "jump.html"
    return page(request, name, letters=letters, found=found, now_ms=now_ms)


async def _found(request: HttpRequest, viewer: Viewer, wanted: str) -> Found:
    store, places = service_of(request).store, _pages(viewer, wanted)
    wanted_id = wanted.replace("inv_", "sch_", 1)
    if is_schedule_id(wanted_id):
        return Found([Place("request", f"{ADDRESS}/{wanted_id}", wanted_id)])
    places += await _recurring(store, viewer.account_id, wanted)
    if viewer.account.operator and wanted:
        accounts, _ = await found_accounts(request, wanted)
        places += [
            Place("account", address_of(each.account_id), each.name) for each in accounts[:_MOST]
        ]
    try:
        places += await _lanes(store, viewer.account_id, wanted)
        places += await _requests(store, viewer.account_id, wanted)
    except TooManyScans as refusal:
        return Found(places, refusal.wait_ms)
    return Found(places)


def _pages(viewer: Viewer, wanted: str) -> list[Place]:
    """Those that begin so come first."""
    menu = viewer.menu
    part, found = wanted.lower(), [*menu.items()]
    if part:
        further = {} if viewer.operator else _FURTHER
        every = (menu | further).items()
        found = [each for each in every if part in each[1].lower()]
        found.sort(key=lambda each: not each[1].lower().startswith(part))
    return [Place("page", ROOT + path, words) for path, words in found]


async def _recurring(store: Store, account_id: str, wanted: str) -> list[Place]:
    """The one with this name or id."""
    if not is_lane(wanted):  # their names are like those of lanes
        return []
    try:
        if is_recurring_id(wanted):
            rule = await store.recurring.read(account_id, wanted)
        else:
            rule = await store.recurring.by_name(account_id, wanted)
    except (NotFound, Unreadable):
        return []
    return [Place("recurring", f"{ROOT}/recurring/{rule.recurring_id}", name_of(rule))]


async def _lanes(store: Store, account_id: str, wanted: str) -> list[Place]:
    if not is_lane(wanted):
        return []
    names = await store.lanes.beginning(account_id, wanted, _MOST)
    return [Place("lane", f"{ROOT}/lanes/{name}", name) for name in names]


async def _requests(store: Store, account_id: str, wanted: str) -> list[Place]:
    """First those of a reference, which an index finds among any number; then those with it in URL
    or reference, among as many as one page of a list looks at. The list searches all of them."""
    if len(wanted) < _FEWEST_LETTERS:
        return []
    some: list[LogEntry] = []
    if is_reference(wanted):
        query = LogQuery(limit=_MOST, reference=wanted)
        some = (await store.logs.page(account_id, query)).entries
    if len(some) < _MOST:
        query = LogQuery(limit=_MOST, text=wanted)
        some += (await store.logs.page(account_id, query)).entries
    found = {each.schedule_id: each for each in some if each.status not in _NO_REQUEST}
    places = [Place("request", _address(each), each.url, each) for each in found.values()][:_MOST]
    return [*places, Place("search", Filter(q=wanted).address(), "Requests with this in their URL")]


def _address(entry: LogEntry) -> str:
    ended = entry.status is not LogStatus.SCHEDULED
    return f"{ADDRESS}/{entry.schedule_id}" + (f"?at={entry.at_ms}" if ended else "")


HANDLERS = [jump_page]
