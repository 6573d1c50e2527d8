"""Schedules a request by the fields and rules of the API; and the echo, a first target."""

from __future__ import annotations

import msgspec
from litestar import get, post, route

from api.dashboard.answer import Raw, data, is_for_panel
from api.dashboard.csrf import Form, once_of, written
from api.dashboard.render import page
from api.dashboard.requests.entry import utc_text
from api.dashboard.requests.filters import ADDRESS, Filter
from api.dashboard.requests.form import LABELS, labelled, request_fields, request_given
from api.dashboard.requests.listing import list_page, read_page
from api.dashboard.session import ROOT, Viewer, base_url, redirect_saying, signed_in
from api.payload import parse_create
from api.reading import read_body
from api.service import HttpRequest, service_of
from scheduler.errors import Conflict, InsufficientCredits, InvalidRequest, TooManyLanes
from scheduler.http import METHODS
from scheduler.masks import has_mask
from scheduler.store.lifecycle.results import CreateResult, refusal_of
from scheduler.store.verdict import Verdict

_DELAYS = ("10s", "1m", "5m", "1h", "1d")
_MOST_ECHO_BYTES = 256 * 1024
_ECHOED = ("postdate-schedule-id", "postdate-trigger-at", "postdate-attempt", "content-type")
_LABELS = LABELS | {
    "delay": "When",
    "triggerAt": "Time",
    "onExisting": "If one waits with it",
}


@get("/requests/new")
async def compose(request: HttpRequest) -> Raw:
    """Filled in with the echo target; or with what another schedule asks for (`like`); in a
    `lane`."""
    viewer = await signed_in(request)
    like = request.query_params.get("like", "")
    given = await _like(request, viewer, like) if like else _first(request)
    if lane := request.query_params.get("lane", ""):
        given["lane"] = lane
    return await _show(request, viewer, given, {})


@post("/requests/new")
async def schedule_it(request: HttpRequest) -> Raw:
    """Opens what it made. A form that is sent twice makes one."""
    viewer, form = await written(request)
    service = service_of(request)
    try:
        asked = parse_create(_payload(request, form), service.rules, service.store.clock.now_ms())
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


def _payload(request: HttpRequest, form: Form) -> bytes:
    """The body that a call of the API would have."""
    fields = request_fields(form)
    if form.get("delay"):
        fields["delay"] = form["delay"]
    else:
        fields["triggerAt"] = utc_text(request, form.get("at", ""))
    if form.get("onExisting"):
        fields["onExisting"] = form["onExisting"]
    return msgspec.json.encode(fields)


def _first(request: HttpRequest) -> dict[str, str]:
    return {
        "url": f"{base_url(request)}{ROOT}/echo",
        "method": "POST",
        "delay": _DELAYS[0],
        "body": '{"hello": "future"}',
    }


async def _like(request: HttpRequest, viewer: Viewer, schedule_id: str) -> dict[str, str]:
    """The fields of another request, without values that may be secrets."""
    store = service_of(request).store
    asked = (await store.schedules.get(viewer.account_id, schedule_id)).request
    given = request_given(asked)
    lines = [line for line in given["headers"].splitlines() if not has_mask(line)]
    return given | {"delay": _DELAYS[0], "headers": "\n".join(lines)}


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
        "delays": _DELAYS,
    }
    status = status if faults else 200
    if is_for_panel(request):
        return page(request, "requests/composer.html", status=status, wanted=Filter(), **values)
    return list_page(request, await read_page(request, viewer) | values, status=status)


@route("/echo", http_method=["GET", "POST", "PUT", "PATCH", "DELETE"])
async def echo(request: HttpRequest) -> Raw:
    """Answers 200 with what came in of the request. It needs no session."""
    body = await read_body(request.scope, request.receive, _MOST_ECHO_BYTES)
    headers = {name: request.headers[name] for name in _ECHOED if name in request.headers}
    return data({"method": request.method, "headers": headers, "bodyBytes": len(body)})


HANDLERS = [compose, schedule_it, echo]
