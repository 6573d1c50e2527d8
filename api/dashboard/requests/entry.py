"""One request: its fields, its outcome, and the actions that it still allows."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec
from litestar import get, post
from litestar.params import FromPath

from api.dashboard.answer import Raw, is_for_panel, redirect
from api.dashboard.banner import readable as readable_settings
from api.dashboard.causes import LATE_MS, Cause, held_words, limits_words, why_late
from api.dashboard.lanes import known_lanes, lane_given
from api.dashboard.operators.impersonation import address_of
from api.dashboard.recurring.outcomes import occurrences_beside
from api.dashboard.render import page
from api.dashboard.requests.attempts import line_of_one, read_attempts, waterfall
from api.dashboard.requests.entries import Entry, entry_of
from api.dashboard.requests.filters import read_filter
from api.dashboard.requests.listing import list_page, read_page
from api.dashboard.requests.text import curl_of, readable
from api.dashboard.timeline import causes_by
from api.dashboard.viewer.csrf import once_of, written
from api.dashboard.viewer.session import (
    Viewer,
    asks_for_news,
    here,
    redirect_saying,
    signed_in,
    zone_of,
)
from api.errors import status_of
from api.recurring_times import follow
from api.schema.payload import AS_IT_WAS, Change, in_lane, parse_change
from api.service import HttpRequest, service_of
from scheduler.errors import (
    Conflict,
    InvalidRequest,
    NotFound,
    QuotaExceeded,
    TooManyResends,
)
from scheduler.ids import invocation_id, is_schedule_id
from scheduler.masks import MASK, masked, masked_url
from scheduler.models import LogStatus
from scheduler.qstash.names import message_id
from scheduler.qstash.redacted import shown_headers, shows_body
from scheduler.store import Store
from scheduler.store.operators.owners import SearchEnded
from scheduler.times import format_iso8601


@get("/requests/{schedule_id:str}")
async def entry_page(request: HttpRequest, schedule_id: FromPath[str]) -> Raw:
    """In the side panel of the list; or, for news of it, as it stands now."""
    viewer = await signed_in(request)
    if not is_schedule_id(schedule_id):
        raise NotFound("There is no such request.")
    try:
        return await show(request, viewer, schedule_id)
    except NotFound:
        if not viewer.account.operator or viewer.operator or asks_for_news(request):
            raise
        try:
            owner = await service_of(request).store.owners.find(schedule_id)
        except SearchEnded:
            raise NotFound(
                "You have no such request, and not all other accounts could be searched in time."
            ) from None
        if owner is None:
            raise
        # A link that another account's holder shared.
        return redirect(request, address_of(owner, here(request)), as_a_whole=True)


async def show(
    request: HttpRequest,
    viewer: Viewer,
    schedule_id: str,
    *,
    status: int = 200,
    fault: str | None = None,
) -> Raw:
    """A request as it stands. Raises NotFound where nothing is kept of it any more."""
    store = service_of(request).store
    reading = _read(store, viewer.account_id, schedule_id, request.query_params)
    if is_for_panel(request) or asks_for_news(request):
        return await _part(request, viewer, await reading, status, fault)
    shown, entry = await asyncio.gather(read_page(request, viewer), reading)
    values = await _values(request, viewer, entry, fault) | await _attempts(store, viewer, entry)
    values |= await _beside(store, viewer, entry)
    return list_page(request, shown | values, status=status)


async def _part(
    request: HttpRequest, viewer: Viewer, entry: Entry, status: int, fault: str | None
) -> Raw:
    """The panel as a whole, where another one was shown; just its facts, where they changed."""
    now_ms = service_of(request).store.clock.now_ms()
    wanted, _ = read_filter(request.query_params, zone_of(request), now_ms)
    news = asks_for_news(request)
    same = news and request.query_params.get("was") == entry.state
    name, values = "requests/facts.html", await _values(request, viewer, entry, fault)
    if same:
        values["is_news"] = True
    else:
        name = "requests/panel.html"
        values |= await _attempts(service_of(request).store, viewer, entry)
        values |= await _beside(service_of(request).store, viewer, entry)
    answer = page(request, name, status=status, wanted=wanted, **values)
    if not news:
        at = str(entry.at_ms) if entry.has_ended else None
        attempt = str(entry.attempt) if entry.status is LogStatus.RETRYING else None
        address = wanted.address(f"/{entry.schedule_id}", at=at, attempt=attempt)
        return answer.with_header(b"hx-push-url", address)
    if same:
        return answer
    return answer.with_header(b"hx-retarget", "#panel").with_header(b"hx-reswap", "innerHTML")


async def _read(store: Store, account_id: str, schedule_id: str, asked: Mapping[str, str]) -> Entry:
    """The schedule, or its entry in the log once it is not kept; an `attempt` only the log has."""
    at = asked.get("at", "")
    at_ms = int(at) if at.isascii() and at.isdigit() and len(at) <= 15 else None
    if at_ms is None or not asked.get("attempt"):
        try:
            schedule = await store.schedules.get(account_id, schedule_id)
            [told] = await store.holders.told(account_id, [schedule])
            return entry_of(told)
        except NotFound:
            if at_ms is None:
                raise NotFound(
                    "There is no such request, or it ended so long ago that it is not kept."
                ) from None
    logged = await store.logs.find(account_id, schedule_id, at_ms)
    return Entry(**msgspec.structs.asdict(logged))


async def _values(
    request: HttpRequest, viewer: Viewer, entry: Entry, fault: str | None
) -> dict[str, Any]:
    asked = entry.schedule.request if entry.schedule else None
    # Of the last attempt; the log has less.
    outcome = entry.schedule.last_outcome if entry.schedule else None
    phases = outcome.phases if outcome else entry.phases
    # What its account sends and gets is not for operators to read.
    withheld = viewer.operator is not None
    headers = masked(shown_headers(asked)) if asked else {}
    has_body = asked is not None and not withheld and shows_body(asked)
    if withheld:
        headers = dict.fromkeys(headers, MASK)
    store, lane = service_of(request).store, None
    now_ms = store.clock.now_ms()
    late, causes = entry.late(now_ms), list[Cause]()
    is_late = entry.held_by is None and late.until_ms - late.due_ms >= LATE_MS
    if entry.lane and (entry.waits or is_late):
        reading = store.lanes.read(viewer.account_id, entry.lane)
        lane = await readable_settings(reading, viewer.account_id)
    if is_late:
        causes = await causes_by(request, viewer.account_id)
    if lane:
        late = late._replace(limits=limits_words(lane.lane, lane.settings))
    return {
        "entry": entry,
        "why_late": why_late(causes, late) if is_late else [],
        "held": held_words(entry.held_by, now_ms, zone_of(request)) if entry.held_by else "",
        "is_news": False,
        "invocation_id": invocation_id(entry.schedule_id),
        "message_id": message_id(entry.schedule_id),
        "asked": asked,
        "answer": outcome.answer if outcome and not withheld else None,
        "phases": phases,
        "bars": waterfall(phases, outcome.status_code if outcome else entry.status_code),
        "url": masked_url(entry.url),
        "headers": headers,
        "body": readable(asked) if asked and has_body else None,
        "curl": curl_of(asked) if asked and has_body else None,
        "withheld": withheld,
        "fault": fault,
        "lane": lane if entry.waits else None,
        "now_ms": now_ms,
    }


async def _attempts(store: Store, viewer: Viewer, entry: Entry) -> dict[str, Any]:
    if not entry.was_retried:
        return {"attempts": [], "line": line_of_one(entry)}
    retry = entry.schedule.retry if entry.schedule and not entry.has_ended else None
    next_ms = retry.due_at_ms if retry else None
    return await read_attempts(store, viewer.account_id, entry.schedule_id, next_ms)


async def _beside(store: Store, viewer: Viewer, entry: Entry) -> dict[str, Any]:
    lanes, beside = list[str](), None
    if entry.held_by and entry.held_by.lane and viewer.operator is None:
        lanes = await known_lanes(store, viewer.account_id)
    if entry.recurring_id is not None:
        ended_ms = entry.at_ms if entry.has_ended else None
        ids = (entry.recurring_id, entry.schedule_id)
        beside = await occurrences_beside(store, viewer.account_id, *ids, ended_ms)
    return {"lanes_known": lanes, "beside": beside}


@post("/requests/{schedule_id:str}/cancel")
async def cancel(request: HttpRequest, schedule_id: FromPath[str]) -> Raw:
    viewer, _ = await written(request)
    try:
        store = service_of(request).store
        done = await store.canceller.cancel(viewer.account_id, schedule_id)
    except Conflict as conflict:
        return await _refused(request, viewer, schedule_id, conflict)
    await follow(store, viewer.account_id, done)
    is_stopped = done.each[0].stopped is not None
    words = "Stopped; no credit moved." if is_stopped else "Cancelled; its credit is yours again."
    return await _done(request, viewer, schedule_id, words)


@post("/requests/{schedule_id:str}/time")
async def change_time(request: HttpRequest, schedule_id: FromPath[str]) -> Raw:
    """The time comes from a field without a zone: it is of the one that the page shows. `now` is
    this moment."""
    viewer, form = await written(request)
    store, text = service_of(request).store, form.get("at", "")
    schedules = store.schedules
    if text == "now":
        text = format_iso8601(store.clock.now_ms())
    try:
        change = new_time(request, utc_text(request, text))
        await schedules.change(viewer.account_id, schedule_id, change.of)
    except (InvalidRequest, Conflict) as refusal:
        return await _refused(request, viewer, schedule_id, refusal)
    return await _done(request, viewer, schedule_id, "Its time is changed; no credit moved.")


@post("/requests/{schedule_id:str}/lane")
async def change_lane(request: HttpRequest, schedule_id: FromPath[str]) -> Raw:
    """To another lane, or to none."""
    viewer, form = await written(request)
    service = service_of(request)
    try:
        lane = lane_given(form)
        change = in_lane(lane, service.rules, service.store.clock.now_ms())
        await service.store.schedules.change(viewer.account_id, schedule_id, change.of)
    except (InvalidRequest, Conflict, QuotaExceeded) as refusal:
        return await _refused(request, viewer, schedule_id, refusal)
    words = f"It is in lane {lane} now" if lane else "It is in no lane now"
    return await _done(request, viewer, schedule_id, f"{words}; no credit moved.")


@post("/requests/{schedule_id:str}/again")
async def run_again(request: HttpRequest, schedule_id: FromPath[str]) -> Raw:
    """A replay, due now, for one credit. A form that is sent twice makes one."""
    viewer, form = await written(request)
    store = service_of(request).store
    once, now_ms = once_of(form, schedule_id), store.clock.now_ms()
    again = partial(AS_IT_WAS.of_replay, now_ms=now_ms)
    try:
        done = await store.schedules.replay(viewer.account_id, schedule_id, again, once, now_ms)
    except Conflict as conflict:
        return await _refused(request, viewer, schedule_id, conflict)
    words = "This is a new schedule of the same request; it took one credit."
    return await _done(request, viewer, done.each[0].schedule_id or schedule_id, words)


@post("/requests/{schedule_id:str}/callback")
async def call_back_again(request: HttpRequest, schedule_id: FromPath[str]) -> Raw:
    """Sends the callback of an ended one again, from its first attempt on. A form that is sent
    twice does it once."""
    viewer, form = await written(request)
    callbacks = service_of(request).store.callbacks
    once = once_of(form, f"callback {schedule_id}").key
    try:
        await callbacks.resend(viewer.account_id, schedule_id, operation=once)
    except (InvalidRequest, Conflict, TooManyResends) as refusal:
        return await _refused(request, viewer, schedule_id, refusal)
    return await _done(request, viewer, schedule_id, "Its callback is sent again.")


def new_time(request: HttpRequest, text: str) -> Change:
    """A change of the time alone, judged as the API does. Raises InvalidRequest."""
    service = service_of(request)
    given = msgspec.json.encode({"triggerAt": text})
    return parse_change(given, service.rules, service.store.clock.now_ms())


def utc_text(request: HttpRequest, text: str) -> str:
    """A time of the viewer's zone as the API takes it; other text unchanged."""
    try:
        return format_iso8601(zone_of(request).moment(text))
    except (ValueError, OverflowError):
        return text


async def _done(request: HttpRequest, viewer: Viewer, schedule_id: str, words: str) -> Raw:
    now_ms = service_of(request).store.clock.now_ms()
    wanted, _ = read_filter(request.query_params, zone_of(request), now_ms)
    return await redirect_saying(request, viewer, words, wanted.address(f"/{schedule_id}"))


async def _refused(request: HttpRequest, viewer: Viewer, schedule_id: str, why: Exception) -> Raw:
    fault = str(why).rstrip(".") + "."
    return await show(request, viewer, schedule_id, status=status_of(why), fault=fault)


HANDLERS = [entry_page, cancel, change_time, change_lane, run_again, call_back_again]
