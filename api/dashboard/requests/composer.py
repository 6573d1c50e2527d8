"""Schedules a request, and edits one that waits, by the fields and rules of the API; and the echo,
a first target."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from litestar import get, post, route
from litestar.params import FromPath

from api.dashboard.answer import Raw, data, is_for_panel
from api.dashboard.render import page
from api.dashboard.requests.entry import show
from api.dashboard.requests.filters import ADDRESS, Filter, read_filter
from api.dashboard.requests.form import (
    OF_CHANGE,
    OF_CREATE,
    TIMES,
    edited,
    faults_of,
    fields_of,
    filled,
    request_given,
)
from api.dashboard.requests.listing import list_page, read_page
from api.dashboard.shared import shared_by
from api.dashboard.viewer.csrf import Form, once_of, written
from api.dashboard.viewer.session import (
    ROOT,
    Viewer,
    base_url,
    here,
    redirect_saying,
    signed_in,
    zone_of,
)
from api.errors import status_of
from api.reading import read_body
from api.schema.findings import invalid
from api.schema.payload import parse_change, parse_create, parse_create_like
from api.schema.rules import duration
from api.service import HttpRequest, service_of
from scheduler import schema
from scheduler.callers import Role
from scheduler.durations import format_duration
from scheduler.errors import (
    Conflict,
    FieldError,
    InsufficientCredits,
    InvalidRequest,
    NotFound,
    PreconditionFailed,
    QuotaExceeded,
    TooManyLanes,
    TooManyScans,
)
from scheduler.field_rows import FieldRow
from scheduler.models import Request, Upsert
from scheduler.schema import ON_EXISTING
from scheduler.store.lanes.lanes import LanePage
from scheduler.store.lifecycle.create.results import CreateResult, refusal_of
from scheduler.store.preconditions import Precondition
from scheduler.store.verdict import Verdict
from scheduler.times import are_moments

_DELAYS = dict.fromkeys(("10s", "1m", "5m", "1h", "1d"), "")
_MOST_LANES = 50
_LANES_GOOD_FOR_S = 30.0
_MOST_ECHO_BYTES = 256 * 1024
_ECHOED = ("postdate-schedule-id", "postdate-trigger-at", "postdate-attempt", "content-type")


class _Form(NamedTuple):
    """A form, as its page has it. `back` is where its *Close* leads."""

    rows: tuple[FieldRow, ...] = OF_CREATE
    heading: str = "Schedule a request"
    press: str = "Schedule it, for one credit"
    address: str = f"{ADDRESS}/new"
    back: str = ADDRESS
    takes_credit: bool = True


@get("/requests/new", needs=Role.ACT)
async def compose(request: HttpRequest) -> Raw:
    """Filled in with the echo target, or with what another schedule asks for (`like`); in a
    `lane`."""
    viewer = await signed_in(request)
    like = request.query_params.get("like", "")
    given = _given_of(await _like(request, viewer, like), like) if like else _first(request)
    if lane := request.query_params.get("lane", ""):
        given["lane"] = lane
    return await _show(request, viewer, _Form(), given)


@post("/requests/new")
async def schedule_it(request: HttpRequest) -> Raw:
    """Opens what it made. A form that is sent twice makes one."""
    viewer, form = await written(request)
    service = service_of(request)
    try:
        asked = await _asked(request, viewer, form)
        once = once_of(form, repr(sorted(form.items())))
        created = await service.store.schedules.create_all(viewer.account_id, [asked], once)
        schedule_id, said = _made(created, form)
    except (InvalidRequest, Conflict, InsufficientCredits) as refusal:
        return await _refused(request, viewer, _Form(), form, refusal)
    return await redirect_saying(request, viewer, said, f"{ADDRESS}/{schedule_id}")


@get("/requests/{schedule_id:str}/edit", needs=Role.ACT)
async def edit_page(request: HttpRequest, schedule_id: FromPath[str]) -> Raw:
    viewer = await signed_in(request)
    found = await service_of(request).store.schedules.read(viewer.account_id, schedule_id)
    if not found.schedule.waits:
        fault = "It is no longer waiting, so it cannot be edited."
        return await show(request, viewer, schedule_id, status=409, fault=fault)
    given = request_given(found.schedule.request, zone_of(request), OF_CHANGE)
    return await _show(request, viewer, _edit(request), given | {"etag": found.etag})


@post("/requests/{schedule_id:str}/edit")
async def edit(request: HttpRequest, schedule_id: FromPath[str]) -> Raw:
    """Changes the fields that the form has otherwise than it was filled, if the request still is
    what it was filled with, or is what it asks for already."""
    viewer, form = await written(request)
    service, zone, page_form = service_of(request), zone_of(request), _edit(request)
    schedules = service.store.schedules

    def changed(before: Request) -> Request:
        data = msgspec.json.encode(edited(form, before, zone, OF_CHANGE))
        now_ms = service.store.clock.now_ms()
        return parse_change(data, service.rules, now_ms, may_be_empty=True).of(before)

    try:
        wanted = Precondition.of(form.get("etag", ""))
        await schedules.change(viewer.account_id, schedule_id, changed, wanted=wanted)
    except PreconditionFailed as refusal:
        now = await schedules.read(viewer.account_id, schedule_id)
        form["etag"] = now.etag
        return await _refused(request, viewer, page_form, form, refusal)
    except (InvalidRequest, TooManyLanes, QuotaExceeded) as refusal:
        return await _refused(request, viewer, page_form, form, refusal)
    except Conflict as refusal:
        fault = str(refusal).rstrip(".") + "."
        return await show(request, viewer, schedule_id, status=status_of(refusal), fault=fault)
    words = "It is changed; no credit moved."
    return await redirect_saying(request, viewer, words, page_form.back)


def _edit(request: HttpRequest) -> _Form:
    wanted = _wanted(request)
    path = "/" + request.path_params["schedule_id"]
    address, back = wanted.address(f"{path}/edit"), wanted.address(path)
    return _Form(OF_CHANGE, "Edit a request", "Save", address, back, takes_credit=False)


def _made(created: CreateResult, form: Form) -> tuple[str, str]:
    """The schedule's id, and a sentence on it: new, kept or replaced. Raises Conflict,
    InsufficientCredits."""
    for placed in created.placed:
        if placed.verdict == Verdict.EXISTING:
            done = "has this request now" if form["onExisting"] == "replace" else "was kept"
            return placed.schedule_id, f"One waited already and {done}, for no credit."
        if placed.verdict != Verdict.DONE:
            raise refusal_of(placed)
    return created.schedule_ids[0], "Scheduled, for one credit."


async def _asked(request: HttpRequest, viewer: Viewer, form: Form) -> Request | Upsert:
    """What the form asks for, judged as the API does; one that another schedule filled changes that
    one's request. Raises InvalidRequest."""
    service, zone = service_of(request), zone_of(request)
    rules, now_ms = service.rules, service.store.clock.now_ms()
    if like := form.get("like"):
        try:
            before = await _like(request, viewer, like)
        except NotFound:
            raise invalid([FieldError("like", "It is no longer kept; begin a new one.")]) from None
        fields = edited(form, before) | fields_of((*TIMES, *ON_EXISTING), form, zone)
        asked = parse_create_like(before, msgspec.json.encode(fields), rules, now_ms)
    else:
        fields = fields_of((*schema.FIELDS, *ON_EXISTING), form, zone)
        asked = parse_create(msgspec.json.encode(fields), rules, now_ms)
    span = form.get("expiresAfter", "").strip()
    if not span:
        return asked
    if isinstance(asked, Upsert):
        assert isinstance(asked.request, Request)
        return asked._replace(request=_expiring(asked.request, span))
    return _expiring(asked, span)


def _expiring(asked: Request, span: str) -> Request:
    """So long after its time. Raises InvalidRequest."""
    try:
        if asked.expires_at_ms is not None:
            raise ValueError("Only one of Expires at and Expires after may be given.")
        expires_ms = asked.trigger_at_ms + duration(span)
        if expires_ms == asked.trigger_at_ms or not are_moments(expires_ms):
            raise ValueError("It must be longer than 0s, and end before the year 10000.")
    except ValueError as error:
        raise invalid([FieldError("expiresAfter", str(error))]) from None
    return msgspec.structs.replace(asked, expires_at_ms=expires_ms)


def _first(request: HttpRequest) -> dict[str, str]:
    return {
        "targetUrl": f"{base_url(request)}{ROOT}/echo",
        "targetMethod": "POST",
        "way": "delay",
        "delay": next(iter(_DELAYS)),
        "targetBody": '{"hello": "future"}',
    }


async def _like(request: HttpRequest, viewer: Viewer, schedule_id: str) -> Request:
    """The request of another schedule. Raises NotFound, also if its body is not kept."""
    found = await service_of(request).store.schedules.get(viewer.account_id, schedule_id)
    if found.body_dropped:
        raise NotFound("The body of this request was not kept when it was cancelled.")
    return found.request


def _given_of(asked: Request, schedule_id: str) -> dict[str, str]:
    expires_ms = asked.expires_at_ms
    left = "" if expires_ms is None else format_duration(expires_ms - asked.trigger_at_ms)
    given = {"like": schedule_id, "way": "delay", "delay": next(iter(_DELAYS))}
    return given | {"expiresAfter": left} | request_given(asked)


async def _refused(
    request: HttpRequest, viewer: Viewer, shown: _Form, form: Form, why: Exception
) -> Raw:
    """The form as it was filled in, with its faults."""
    sentence = str(why).rstrip(".") + "."
    if isinstance(why, InvalidRequest):
        faults = faults_of(why, form)
    elif isinstance(why, PreconditionFailed):
        faults = {}
    elif isinstance(why, Conflict):
        faults = {"lane" if isinstance(why, TooManyLanes) else "reference": sentence}
    else:
        faults = {"Credits" if isinstance(why, InsufficientCredits) else "Not saved": sentence}
    if isinstance(why, InsufficientCredits):
        account = msgspec.structs.replace(viewer.account, credits=0)
        request.state.viewer = viewer._replace(account=account)
    return await _show(request, viewer, shown, dict(form), faults, status_of(why))


async def _show(
    request: HttpRequest,
    viewer: Viewer,
    shown: _Form,
    given: dict[str, str],
    faults: dict[str, str] | None = None,
    status: int = 200,
) -> Raw:
    suggested = {"delay": _DELAYS, "lane": await lanes_of(request, viewer)}
    values = {
        "composer": shown,
        "form": filled(shown.rows, given, faults or {}, suggested),
        "met_a_change": status == status_of(PreconditionFailed()),
    }
    if is_for_panel(request):
        name = "requests/composer.html"
        answer = page(request, name, status=status, wanted=_wanted(request), **values)
        is_new = request.method == "GET"
        return answer.with_header(b"hx-push-url", here(request)) if is_new else answer
    return list_page(request, await read_page(request, viewer) | values, status=status)


def _wanted(request: HttpRequest) -> Filter:
    now_ms = service_of(request).store.clock.now_ms()
    return read_filter(request.query_params, zone_of(request), now_ms)[0]


async def lanes_of(request: HttpRequest, viewer: Viewer) -> dict[str, str]:
    """The first lanes of the account, for a field to suggest; none if it searched too much."""

    async def read() -> LanePage:
        return await service_of(request).store.lanes.page(viewer.account_id, _MOST_LANES)

    try:
        key = ("lanes", viewer.account_id)
        page = await shared_by(request).get(key, _LANES_GOOD_FOR_S, read)
    except TooManyScans:
        return {}
    return {each.lane: "" for each in page.lanes}


@route("/echo", http_method=["GET", "POST", "PUT", "PATCH", "DELETE"], needs=Role.READ)
async def echo(request: HttpRequest) -> Raw:
    """Answers 200 with what came in of the request. It needs no session."""
    body = await read_body(request.scope, request.receive, _MOST_ECHO_BYTES)
    headers = {name: request.headers[name] for name in _ECHOED if name in request.headers}
    return data({"method": request.method, "headers": headers, "bodyBytes": len(body)})


HANDLERS = [compose, schedule_it, edit_page, edit, echo]
