"""Schedules a request by the fields and rules of the API; and the echo, a first target."""

from __future__ import annotations

import msgspec
from litestar import get, post, route

from api.dashboard.answer import Raw, data, is_for_panel
from api.dashboard.render import page
from api.dashboard.requests.entry import utc_text
from api.dashboard.requests.filters import ADDRESS, Filter
from api.dashboard.requests.form import (
    LABELS,
    edited,
    groups,
    labelled,
    request_fields,
    request_given,
)
from api.dashboard.requests.listing import list_page, read_page
from api.dashboard.viewer.csrf import Form, once_of, written
from api.dashboard.viewer.session import ROOT, Viewer, base_url, redirect_saying, signed_in
from api.reading import read_body
from api.schema.findings import invalid
from api.schema.payload import parse_create, parse_create_like
from api.schema.rules import duration
from api.service import HttpRequest, service_of
from scheduler.durations import format_duration
from scheduler.errors import (
    Conflict,
    FieldError,
    InsufficientCredits,
    InvalidRequest,
    NotFound,
    TooManyLanes,
)
from scheduler.models import Request, Upsert
from scheduler.schema import NAMED
from scheduler.store.accounts.sign_in.members import Role
from scheduler.store.lifecycle.create.results import CreateResult, refusal_of
from scheduler.store.verdict import Verdict
from scheduler.target.http import METHODS
from scheduler.times import are_moments

_DELAYS = ("10s", "1m", "5m", "1h", "1d")
_MOST_ECHO_BYTES = 256 * 1024
_ECHOED = ("postdate-schedule-id", "postdate-trigger-at", "postdate-attempt", "content-type")
_LABELS = LABELS | {
    "delay": "When",
    "triggerAt": "Time",
    "expiresAfter": "Expires after",
    "like": "Filled in by",
    "onExisting": NAMED["onExisting"].label,
}


@get("/requests/new", needs=Role.ACT)
async def compose(request: HttpRequest) -> Raw:
    """Filled in with the echo target, or with what another schedule asks for (`like`); in a
    `lane`."""
    viewer = await signed_in(request)
    like = request.query_params.get("like", "")
    given = _given_of(await _like(request, viewer, like), like) if like else _first(request)
    if lane := request.query_params.get("lane", ""):
        given["lane"] = lane
    return await _show(request, viewer, given, {})


@post("/requests/new")
async def schedule_it(request: HttpRequest) -> Raw:
    """Opens what it made. A form that is sent twice makes one."""
    viewer, form = await written(request)
    service = service_of(request)
    try:
        asked = await _asked(request, viewer, form)
    except InvalidRequest as refusal:
        faults = {labelled(each.field, _LABELS): each.message for each in refusal.details}
        if not form.get("delay") and not form.get("at"):
            faults[_LABELS["triggerAt"]] = "Say when, or choose one of the delays."
        return await _show(request, viewer, dict(form), faults)
    once = once_of(form, repr(sorted(form.items())))
    try:
        created = await service.store.schedules.create_all(viewer.account_id, [asked], once)
        schedule_id, said = _made(created, form)
    except Conflict as refusal:
        field = "Lane" if isinstance(refusal, TooManyLanes) else "Reference"
        return await _show(request, viewer, dict(form), {field: f"{refusal}."}, status=409)
    except InsufficientCredits as refusal:
        account = msgspec.structs.replace(viewer.account, credits=0)
        request.state.viewer = viewer._replace(account=account)
        return await _show(request, viewer, dict(form), {"Credits": f"{refusal}."}, status=402)
    return await redirect_saying(request, viewer, said, f"{ADDRESS}/{schedule_id}")


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
    service = service_of(request)
    rules, now_ms = service.rules, service.store.clock.now_ms()
    when = _when(request, form)
    if like := form.get("like"):
        try:
            before = await _like(request, viewer, like)
        except NotFound:
            raise invalid([FieldError("like", "It is no longer kept; begin a new one.")]) from None
        fields = edited(form, request_fields(request_given(before)), before)
        data = msgspec.json.encode(fields | when)
        asked = parse_create_like(before, data, rules, now_ms)
    else:
        asked = parse_create(msgspec.json.encode(request_fields(form) | when), rules, now_ms)
    span = form.get("expiresAfter", "").strip()
    return _expiring(asked, span) if span else asked


def _when(request: HttpRequest, form: Form) -> dict[str, str]:
    """The fields of a create that are none of its request."""
    delay, way = form.get("delay"), form.get("onExisting")
    fields = {"delay": delay} if delay else {"triggerAt": utc_text(request, form.get("at", ""))}
    return fields | {"onExisting": way} if way else fields


def _expiring(asked: Request | Upsert, span: str) -> Request | Upsert:
    """So long after its time. Raises InvalidRequest."""
    try:
        expires_ms = asked.trigger_at_ms + duration(span)
        if expires_ms == asked.trigger_at_ms or not are_moments(expires_ms):
            raise ValueError("It must be longer than 0s, and end before the year 10000.")
    except ValueError as error:
        raise invalid([FieldError("expiresAfter", str(error))]) from None
    if isinstance(asked, Upsert):
        whole = msgspec.structs.replace(asked.request, expires_at_ms=expires_ms)
        return asked._replace(request=whole)
    return msgspec.structs.replace(asked, expires_at_ms=expires_ms)


def _first(request: HttpRequest) -> dict[str, str]:
    return {
        "url": f"{base_url(request)}{ROOT}/echo",
        "method": "POST",
        "delay": _DELAYS[0],
        "body": '{"hello": "future"}',
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
    given = {"like": schedule_id, "delay": _DELAYS[0], "expiresAfter": left}
    return given | request_given(asked)


async def _show(
    request: HttpRequest,
    viewer: Viewer,
    given: dict[str, str],
    faults: dict[str, str],
    status: int = 400,
) -> Raw:
    values = {
        "composer": True,
        "given": given,
        "form_faults": faults,
        "methods": sorted(METHODS),
        "groups": groups(upserts=True),
        "delays": _DELAYS,
    }
    status = status if faults else 200
    if is_for_panel(request):
        return page(request, "requests/composer.html", status=status, wanted=Filter(), **values)
    return list_page(request, await read_page(request, viewer) | values, status=status)


@route("/echo", http_method=["GET", "POST", "PUT", "PATCH", "DELETE"], needs=Role.READ)
async def echo(request: HttpRequest) -> Raw:
    """Answers 200 with what came in of the request. It needs no session."""
    body = await read_body(request.scope, request.receive, _MOST_ECHO_BYTES)
    headers = {name: request.headers[name] for name in _ECHOED if name in request.headers}
    return data({"method": request.method, "headers": headers, "bodyBytes": len(body)})


HANDLERS = [compose, schedule_it, echo]
