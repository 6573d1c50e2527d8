"""Lanes: how each stands, and its settings."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from litestar import get, post
from litestar.params import FromPath

from api.dashboard.answer import Raw, redirect
from api.dashboard.causes import folded
from api.dashboard.charts import DAY_MS, HOUR_MS, Axis
from api.dashboard.formats import near, number, per
from api.dashboard.pauses import SPANS, named
from api.dashboard.render import page
from api.dashboard.requests.filters import Filter
from api.dashboard.shared import shared_by
from api.dashboard.timeline import causes_by
from api.dashboard.viewer.csrf import Form, written
from api.dashboard.viewer.session import (
    ROOT,
    Viewer,
    asks_for_news,
    redirect_saying,
    signed_in,
    zone_of,
)
from api.dashboard.zones import Zone
from api.errors import status_of
from api.schema.findings import invalid
from api.schema.settings_fields import misfits, parse_put
from api.service import HttpRequest, service_of
from scheduler.durations import format_duration
from scheduler.errors import (
    FieldError,
    InvalidRequest,
    KeepsChanging,
    PreconditionFailed,
    TooManyLanes,
    TooManyScans,
)
from scheduler.lane_settings import LONGEST_NOTE, Lane, LaneSettings, LaneState
from scheduler.lanes import is_lane
from scheduler.models import LogStatus
from scheduler.store import Store
from scheduler.store.lanes.lanes import LanePage
from scheduler.store.log.overview import OVERDUE_AFTER_MS
from scheduler.store.preconditions import ALWAYS, Precondition

ADDRESS = f"{ROOT}/lanes"
_PER_PAGE = 100
_GOOD_FOR_S = 1.0
_MOST_NAMED = 50
# The fields of the form, and of the API: its attribute, and its name on the page.
_FIELDS = {
    "rate": ("rate", "Rate"),
    "per": ("per_ms", "Per"),
    "burst": ("burst", "Burst"),
    "parallelism": ("parallelism", "Parallelism"),
    "note": ("note", "Note"),
}
_TEXTS = ("per", "note")


@get("/lanes")
async def lanes_page(request: HttpRequest) -> Raw:
    """The lanes by name, a page at a time, or its news. A name (`lane`) leads to its lane."""
    viewer = await signed_in(request)
    name = request.query_params.get("lane", "").strip()
    if is_lane(name):
        return redirect(request, f"{ADDRESS}/{name}")
    store, cursor = service_of(request).store, request.query_params.get("cursor") or None
    found, fault = LanePage([], None), None

    async def read() -> LanePage:
        return await store.lanes.page(viewer.account_id, _PER_PAGE, cursor)

    news = asks_for_news(request)
    try:
        # A page that follows on a press shows what came of it.
        key = (viewer.account_id, "lanes", cursor)
        found = await (shared_by(request).get(key, _GOOD_FOR_S, read) if news else read())
    except InvalidRequest:
        fault = "There is no such page of the list; begin at the first one."
    if name:
        fault = "A lane's name begins with a letter or digit, and has up to 63 more, or . _ : -"
    return page(
        request,
        "lanes/list_live.html" if news else "lanes/list.html",
        status=400 if fault else 200,
        found=found,
        cursor=cursor,
        name=name,
        fault=fault,
        limits=limits,
        waiting_in=waiting_in,
        now_ms=store.clock.now_ms(),
    )


@get("/lanes/{lane:str}")
async def lane_page(request: HttpRequest, lane: FromPath[str]) -> Raw:
    """One lane, or its news; without settings, the form that sets it."""
    viewer = await signed_in(request)
    return await _show(request, viewer, named(lane))


@post("/lanes/{lane:str}")
async def set_lane(request: HttpRequest, lane: FromPath[str]) -> Raw:
    """Sets limits and note as a whole, if they still are those that the form was filled with."""
    viewer, form = await written(request)
    service, name = service_of(request), named(lane)
    try:
        values = parse_put(_payload(form), service.rules, service.store.clock.now_ms())
        if found := misfits(values, values):
            raise invalid(found)
        settings = LaneSettings(**{_FIELDS[each][0]: value for each, value in values.items()})
        read = form.get("etag", "")
        wanted = Precondition.of(read) if read else ALWAYS
        await service.store.lanes.put(viewer.account_id, name, settings, wanted, who=viewer.who)
    except InvalidRequest as refusal:
        faults = {_label(each.field): each.message for each in refusal.details}
        return await _show(request, viewer, name, form, faults, status=400)
    except PreconditionFailed as refusal:
        return await _show(request, viewer, name, form, status=status_of(refusal))
    except (TooManyLanes, KeepsChanging) as refusal:
        faults = {
            "Lane"
            if isinstance(refusal, TooManyLanes)
            else "Not saved": f"{str(refusal).rstrip('.')}."
        }
        return await _show(request, viewer, name, form, faults, status=status_of(refusal))
    words = f"Saved: {limits(settings)}."
    return await redirect_saying(request, viewer, words, f"{ADDRESS}/{name}")


@post("/lanes/{lane:str}/calm")
async def end_calm(request: HttpRequest, lane: FromPath[str]) -> Raw:
    """Waiting schedules go out before the moment that a target asked for."""
    viewer, _ = await written(request)
    name, lanes = named(lane), service_of(request).store.lanes
    await lanes.change(viewer.account_id, name, lambda before: before, calm_until_ms=None)
    return await redirect_saying(request, viewer, "Its calm has ended.", f"{ADDRESS}/{name}")


@post("/lanes/{lane:str}/clear")
async def clear_lane(request: HttpRequest, lane: FromPath[str]) -> Raw:
    """Takes settings, pause and calm away; waiting schedules go on unlimited."""
    viewer, _ = await written(request)
    name = named(lane)
    waiting = await service_of(request).store.lanes.clear(viewer.account_id, name, who=viewer.who)
    words = f"Lane {name} is cleared; {waiting:,} that wait in it go on unlimited."
    return await redirect_saying(request, viewer, words, ADDRESS)


async def known_lanes(store: Store, account_id: str) -> list[str]:
    """Names to choose from, the first ones; none while the account may not search."""
    try:
        found = await store.lanes.page(account_id, _MOST_NAMED)
    except TooManyScans:
        return []
    return [each.lane for each in found.lanes]


def lane_given(form: Form) -> str | None:
    """The lane that requests are moved to, None for no lane. Raises InvalidRequest where neither
    is said."""
    if form.get("no_lane"):
        return None
    if not (lane := form.get("to_lane", "").strip()):
        raise invalid([FieldError("lane", "Name the lane, or choose no lane.")])
    return lane


def limits(settings: LaneSettings) -> str:
    """`100 per second, 5 at once; 3 at a time`."""
    found = []
    if settings.rate is not None:
        text = per(settings.rate, settings.per_ms)
        found.append(f"{text}, {number(settings.burst)} at once" if settings.burst else text)
    if settings.parallelism is not None:
        found.append(per(settings.parallelism, None))
    return "; ".join(found) or "no limits"


def backlog_words(lane: Lane, zone: Zone) -> str:
    """`261 are due and wait: 20 per hour. The oldest has waited since 20:12. All will have started
    by about 09:13.`; '' if what is due starts at once."""
    now_ms, oldest_ms = lane.now_ms, lane.oldest_due_at_ms
    if oldest_ms is None or (
        lane.state is LaneState.OPEN and now_ms - oldest_ms < OVERDUE_AFTER_MS
    ):
        return ""
    match lane.state:
        case LaneState.PAUSED:
            why = "it is paused"
        case LaneState.CALM:
            why = "its target asked for calm"
        case _:
            why = limits(lane.settings)
    words = f"{number(lane.due)} {'is' if lane.due == 1 else 'are'} due and"
    words += f" {'waits' if lane.due == 1 else 'wait'}: {why}."
    words += f" The oldest has waited since {near(oldest_ms, now_ms, zone)}."
    if lane.empty_at_ms is not None:
        words += f" All will have started by about {near(lane.empty_at_ms, now_ms, zone)}."
    return words


def waiting_in(lane: str) -> str:
    """The address of the list of schedules that wait in it."""
    return Filter(status=LogStatus.SCHEDULED, named={"lane": lane}).address()


def _label(field: str) -> str:
    return _FIELDS[field][1] if field in _FIELDS else field


def _payload(form: Form) -> bytes:
    """The body that a call of the API would have; digits as a number."""
    fields: dict[str, Any] = {}
    for name in _FIELDS:
        text = form.get(name, "").strip()
        if text:
            is_number = name not in _TEXTS and text.isascii() and text.isdigit()
            fields[name] = int(text) if is_number and len(text) < 10 else text
    return msgspec.json.encode(fields)


def _given(settings: LaneSettings) -> dict[str, str]:
    """The settings as the form has them."""
    given = {name: getattr(settings, attribute) for name, (attribute, _) in _FIELDS.items()}
    if settings.per_ms is not None:
        given["per"] = format_duration(settings.per_ms)
    return {name: "" if value is None else str(value) for name, value in given.items()}


async def _show(
    request: HttpRequest,
    viewer: Viewer,
    name: str,
    form: Form | None = None,
    faults: dict[str, str] | None = None,
    *,
    status: int = 200,
) -> Raw:
    """The lane as it stands, and its form as it was filled in, if it was. The form goes out with
    the etag of what the page shows, so that a save after a 412 replaces just that."""
    store = service_of(request).store
    lane, causes = await asyncio.gather(
        store.lanes.read(viewer.account_id, name), causes_by(request, viewer.account_id)
    )
    now_ms = store.clock.now_ms()
    day = Axis(now_ms - DAY_MS, HOUR_MS, 24, zone_of(request))
    return page(
        request,
        "lanes/lane_live.html" if asks_for_news(request) and form is None else "lanes/lane.html",
        status=status,
        lane=lane,
        backlog=backlog_words(lane, zone_of(request)),
        given=_given(lane.settings) if form is None else dict(form),
        faults=faults or {},
        met_a_change=status == status_of(PreconditionFailed()),
        spans=SPANS,
        longest_note=LONGEST_NOTE,
        limits=limits,
        waiting_in=waiting_in,
        held_it=folded(causes, day, now_ms, name),
        now_ms=now_ms,
    )


HANDLERS = [lanes_page, lane_page, set_lane, end_calm, clear_lane]
