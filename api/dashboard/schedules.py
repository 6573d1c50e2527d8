"""Schedules: what waits, each with its request; cancelling, changing the time, running again."""

from __future__ import annotations

import hashlib
import secrets
from base64 import b64encode
from functools import partial
from urllib.parse import urlencode

import msgspec
from litestar import get, post
from litestar.params import FromPath

from api.dashboard.answer import Raw, redirect
from api.dashboard.csrf import written
from api.dashboard.curl import curl_of
from api.dashboard.indent import indented
from api.dashboard.render import page
from api.dashboard.session import ROOT, Viewer, signed_in
from api.masks import masked
from api.payload import Change, parse_change
from api.service import HttpRequest, service_of
from scheduler.errors import Conflict, InvalidRequest, NotFound
from scheduler.ids import invocation_id, is_schedule_id
from scheduler.models import BodyKind, Idempotency, Request, Schedule

_PER_PAGE = 50


@get("/schedules", include_in_schema=False)
async def schedules_page(request: HttpRequest) -> Raw:
    """What waits, by time. A search for an id leads to it, waiting or ended; for anything else it
    looks for those words in the URL."""
    viewer = await signed_in(request)
    store = service_of(request).store
    wanted = request.query_params.get("q", "").strip()
    if is_schedule_id(wanted.replace("inv_", "sch_", 1)):
        return redirect(request, _address(wanted.replace("inv_", "sch_", 1)))
    cursor = request.query_params.get("cursor") or None
    found = await store.schedules.page(
        viewer.account_id, limit=_PER_PAGE, cursor=cursor, url_part=wanted
    )
    more = None
    if found.next_cursor:
        query = {"q": wanted, "cursor": found.next_cursor}
        more = "?" + urlencode({name: value for name, value in query.items() if value})
    return page(
        request,
        viewer,
        "schedules.html",
        schedules=found.schedules,
        wanted=wanted,
        cursor=cursor,
        more=more,
        now_ms=store.clock.now_ms(),
    )


@get("/schedules/{schedule_id:str}", include_in_schema=False)
async def schedule_page(request: HttpRequest, schedule_id: FromPath[str]) -> Raw:
    viewer = await signed_in(request)
    store = service_of(request).store
    schedule = await store.schedules.get(viewer.account_id, schedule_id)
    return _page(request, viewer, schedule, note=request.query_params.get("note", ""))


@get("/schedules/{schedule_id:str}/request", include_in_schema=False)
async def request_part(request: HttpRequest, schedule_id: FromPath[str]) -> Raw:
    """The request of a log entry as a curl line, while its schedule is kept."""
    viewer = await signed_in(request)
    curl = None
    try:
        schedule = await service_of(request).store.schedules.get(viewer.account_id, schedule_id)
        curl = curl_of(schedule.request)
    except NotFound:
        pass
    return page(request, viewer, "request_part.html", curl=curl, schedule_id=schedule_id)


@post("/schedules/{schedule_id:str}/cancel", include_in_schema=False)
async def cancel(request: HttpRequest, schedule_id: FromPath[str]) -> Raw:
    viewer, _ = await written(request)
    schedules = service_of(request).store.schedules
    try:
        await schedules.cancel(viewer.account_id, schedule_id)
    except Conflict as conflict:
        return await _refused(request, viewer, schedule_id, 409, conflict)
    return redirect(request, _address(schedule_id, "cancelled"))


@post("/schedules/{schedule_id:str}/time", include_in_schema=False)
async def change_time(request: HttpRequest, schedule_id: FromPath[str]) -> Raw:
    """The time comes from a field without a zone: it is UTC, as all times here are."""
    viewer, form = await written(request)
    service = service_of(request)
    schedules, now_ms = service.store.schedules, service.store.clock.now_ms()
    try:
        given = msgspec.json.encode({"triggerAt": form.get("at", "")})
        change = parse_change(given, service.rules, now_ms)
        await schedules.change(viewer.account_id, schedule_id, change.of)
    except InvalidRequest as refusal:
        return await _refused(request, viewer, schedule_id, 400, refusal)
    except Conflict as conflict:
        return await _refused(request, viewer, schedule_id, 409, conflict)
    return redirect(request, _address(schedule_id, "moved"))


@post("/schedules/{schedule_id:str}/again", include_in_schema=False)
async def run_again(request: HttpRequest, schedule_id: FromPath[str]) -> Raw:
    """A new schedule of the same request, due now, for one credit. A form that is sent twice makes
    one."""
    viewer, form = await written(request)
    store = service_of(request).store
    made = partial(Change({}).of_replay, now_ms=store.clock.now_ms())
    fingerprint = hashlib.sha256(schedule_id.encode()).hexdigest()
    once = Idempotency(f"dashboard {form.get('once', '')}", fingerprint)
    try:
        done = await store.replayer.one(viewer.account_id, schedule_id, made, once)
    except Conflict as conflict:
        return await _refused(request, viewer, schedule_id, 409, conflict)
    return redirect(request, _address(str(done.each[0].schedule_id), "again"))


async def _refused(
    request: HttpRequest, viewer: Viewer, schedule_id: str, status: int, why: Exception
) -> Raw:
    """The schedule as it stands, and why it was not changed."""
    schedule = await service_of(request).store.schedules.get(viewer.account_id, schedule_id)
    fault = str(why).rstrip(".") + "."
    return _page(request, viewer, schedule, status=status, fault=fault)


def _page(
    request: HttpRequest,
    viewer: Viewer,
    schedule: Schedule,
    *,
    status: int = 200,
    note: str = "",
    fault: str | None = None,
) -> Raw:
    return page(
        request,
        viewer,
        "schedule.html",
        status=status,
        schedule=schedule,
        invocation_id=invocation_id(schedule.schedule_id),
        headers=masked(schedule.request.headers),
        body=_readable(schedule.request),
        curl=curl_of(schedule.request),
        once=secrets.token_urlsafe(12),
        note=note,
        fault=fault,
        now_ms=service_of(request).store.clock.now_ms(),
    )


def _readable(request: Request) -> str | None:
    """The body, JSON on many lines; its numbers and spellings stay as they came. Bytes that need
    not be text are shown in base64."""
    if request.body is None:
        return None
    if request.body_kind is BodyKind.BINARY:
        return b64encode(request.body).decode()
    if request.body_kind is BodyKind.TEXT:
        return request.body.decode()
    return indented(request.body)


def _address(schedule_id: str, note: str = "") -> str:
    return f"{ROOT}/schedules/{schedule_id}" + (f"?note={note}" if note else "")


HANDLERS = [schedules_page, schedule_page, request_part, cancel, change_time, run_again]
