"""Pauses a lane or the whole account, and ends a pause, with one press from any page."""

from __future__ import annotations

from litestar import get, post
from litestar.params import FromPath

from api.dashboard.answer import Raw, html
from api.dashboard.banner import paused_of
from api.dashboard.render import page
from api.dashboard.viewer.csrf import Form, written
from api.dashboard.viewer.session import (
    ROOT,
    NotSignedIn,
    asked_for,
    our_page,
    redirect_saying,
    signed_in,
)
from api.schema.findings import invalid
from api.schema.rules import lane_filter
from api.schema.settings_fields import OF_PAUSE
from api.service import HttpRequest, service_of
from scheduler.durations import parse_duration
from scheduler.errors import FieldError
from scheduler.lane_settings import Pause, resumed

# For how long, in words; '' has no end.
SPANS = {"": "until it is resumed", "15m": "15 min", "1h": "1 h", "4h": "4 h", "1d": "1 day"}
# In the place of an API key's name.
_BY = "dashboard"


@get("/banner")
async def banner(request: HttpRequest) -> Raw:
    """The banner of a page that is open for long: pauses end by themselves."""
    try:
        viewer = await signed_in(request)
    except NotSignedIn:  # the next press says so; until then nothing that was typed is lost
        return html("", 204)
    paused = await paused_of(service_of(request).store, viewer.account_id)
    return page(request, "paused.html", paused=paused, back=asked_for(request))


@post("/lanes/{lane:str}/pause")
async def pause_lane(request: HttpRequest, lane: FromPath[str]) -> Raw:
    """Pauses it; one that is paused gets another end and note. Raises TooManyLanes."""
    viewer, form = await written(request)
    name, pause = named(lane), pause_of(request, form)
    lanes = service_of(request).store.lanes
    await lanes.change(viewer.account_id, name, pause.applied, who=viewer.who)
    words = f"Lane {name} is paused: running schedules end, and due ones wait."
    return await redirect_saying(request, viewer, words, _back(form, f"{ROOT}/lanes/{name}"))


@post("/lanes/{lane:str}/resume")
async def resume_lane(request: HttpRequest, lane: FromPath[str]) -> Raw:
    """The schedules that it held back go out in their order, at the lane's rate."""
    viewer, form = await written(request)
    name, lanes = named(lane), service_of(request).store.lanes
    await lanes.change(viewer.account_id, name, resumed, who=viewer.who)
    words = f"Lane {name} is resumed."
    return await redirect_saying(request, viewer, words, _back(form, f"{ROOT}/lanes/{name}"))


@post("/account/pause")
async def pause_account(request: HttpRequest) -> Raw:
    """Nothing of the account starts; its pages say so."""
    viewer, form = await written(request)
    pause = pause_of(request, form)
    pauses = service_of(request).store.pauses
    await pauses.change(viewer.account_id, pause.applied, who=viewer.who)
    words = "The account is paused: running schedules end, and due ones wait."
    return await redirect_saying(request, viewer, words, _back(form, f"{ROOT}/account"))


@post("/account/resume")
async def resume_account(request: HttpRequest) -> Raw:
    viewer, form = await written(request)
    pauses = service_of(request).store.pauses
    await pauses.change(viewer.account_id, resumed, who=viewer.who)
    words = "The account is resumed; lanes that are paused stay so."
    return await redirect_saying(request, viewer, words, _back(form, f"{ROOT}/account"))


def named(lane: str) -> str:
    """Raises InvalidRequest."""
    try:
        return lane_filter(lane)
    except ValueError as error:
        raise invalid([FieldError("lane", str(error))]) from None


def pause_of(request: HttpRequest, form: Form) -> Pause:
    """For how long (`for`), and a note; a press on a list gives neither. Raises InvalidRequest."""
    service, span = service_of(request), form.get("for", "").strip()
    now_ms = service.store.clock.now_ms()
    if span not in SPANS:
        raise invalid([FieldError("for", "There is no such length of a pause.")])
    try:
        note = OF_PAUSE["pauseNote"].rule(form.get("note", "").strip(), service.rules, now_ms)
    except ValueError as error:
        raise invalid([FieldError("note", str(error))]) from None
    return Pause(_BY, now_ms + parse_duration(span) if span else None, note)


def _back(form: Form, otherwise: str) -> str:
    return our_page(form.get("back", "")) or otherwise


HANDLERS = [banner, pause_lane, resume_lane, pause_account, resume_account]
