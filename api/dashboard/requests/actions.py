"""Cancels one request, reschedules it, or runs it again."""

from __future__ import annotations

from functools import partial

import msgspec
from litestar import post
from litestar.params import FromPath

from api.dashboard.answer import Raw
from api.dashboard.csrf import once_of, written
from api.dashboard.requests.entry import show
from api.dashboard.requests.filters import read_filter
from api.dashboard.session import Viewer, redirect_saying, zone_of
from api.errors import status_of
from api.payload import AS_IT_WAS, Change, parse_change
from api.service import HttpRequest, service_of
from scheduler.errors import Conflict, InvalidRequest
from scheduler.models import Status
from scheduler.times import format_iso8601


@post("/requests/{schedule_id:str}/cancel")
async def cancel(request: HttpRequest, schedule_id: FromPath[str]) -> Raw:
    """Cancelled before counts as done: the answer to the first try may have been lost."""
    viewer, _ = await written(request)
    try:
        await service_of(request).store.canceller.cancel(viewer.account_id, schedule_id)
    except Conflict as conflict:
        if conflict.status != Status.CANCELLED:
            return await _refused(request, viewer, schedule_id, conflict)
    return await _done(request, viewer, schedule_id, "Cancelled; its credit is yours again.")


@post("/requests/{schedule_id:str}/time")
async def change_time(request: HttpRequest, schedule_id: FromPath[str]) -> Raw:
    """The time comes from a field without a zone: it is of the one that the page shows."""
    viewer, form = await written(request)
    schedules = service_of(request).store.schedules
    try:
        change = new_time(request, utc_text(request, form.get("at", "")))
        await schedules.change(viewer.account_id, schedule_id, change.of)
    except (InvalidRequest, Conflict) as refusal:
        return await _refused(request, viewer, schedule_id, refusal)
    return await _done(request, viewer, schedule_id, "Its time is changed; no credit moved.")


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
    """The request as it stands, and why it was not changed."""
    fault = str(why).rstrip(".") + "."
    return await show(request, viewer, schedule_id, status=status_of(why), fault=fault)


HANDLERS = [cancel, change_time, run_again]
