"""Schedules a request by the fields and rules of the API; and the echo, a first target."""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import get, post, route

from api.dashboard.answer import Raw, data, is_for_panel
from api.dashboard.csrf import Form, once_of, written
from api.dashboard.render import page
from api.dashboard.requests.entry import utc_text
from api.dashboard.requests.filters import ADDRESS, Filter
from api.dashboard.requests.listing import list_page, read_page
from api.dashboard.requests.text import readable
from api.dashboard.session import ROOT, Viewer, base_url, redirect_saying, signed_in
from api.payload import parse_create
from api.reading import read_body
from api.service import HttpRequest, service_of
from scheduler.callbacks import NO_URL, Callback, CallbackOn
from scheduler.errors import Conflict, InsufficientCredits, InvalidRequest, TooManyLanes
from scheduler.http import METHODS
from scheduler.masks import MASK, masked, masked_url
from scheduler.models import BodyKind
from scheduler.store.lifecycle.results import CreateResult, refusal_of
from scheduler.store.verdict import Verdict

_DELAYS = ("10s", "1m", "5m", "1h", "1d")
_MOST_ECHO_BYTES = 256 * 1024
_ECHOED = ("postdate-schedule-id", "postdate-trigger-at", "postdate-attempt", "content-type")
# The names of the API's fields in the form.
_LABELS = {
    "targetUrl": "Where to",
    "targetMethod": "Method",
    "targetHeaders": "Headers",
    "targetBody": "Body",
    "targetBodyText": "Body",
    "delay": "When",
    "triggerAt": "Time",
    "timeout": "Timeout",
    "reference": "Reference",
    "lane": "Lane",
    "onExisting": "If one waits with it",
    "callbackUrl": "Callback to",
    "callbackOn": "It reports",
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
        faults = {_label(each.field): each.message for each in refusal.details}
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


def _label(field: str) -> str:
    """`Headers, Host` of `targetHeaders.Host`."""
    name, _, part = field.partition(".")
    return _LABELS.get(name, name) + (f", {part}" if part else "")


def _payload(request: HttpRequest, form: Form) -> bytes:
    """The body that a call of the API would have."""
    fields: dict[str, Any] = {"targetUrl": form.get("url", "").strip()}
    if form.get("method"):
        fields["targetMethod"] = form["method"]
    if form.get("delay"):
        fields["delay"] = form["delay"]
    else:
        fields["triggerAt"] = utc_text(request, form.get("at", ""))
    if timeout := form.get("timeout", "").strip():
        fields["timeout"] = f"{timeout}s" if timeout.isdecimal() else timeout
    if reference := form.get("reference", "").strip():
        fields["reference"] = reference
    if lane := form.get("lane", "").strip():
        fields["lane"] = lane
    if form.get("onExisting"):
        fields["onExisting"] = form["onExisting"]
    fields |= _callback(form)
    headers = _headers(form.get("headers", ""))
    if headers:
        fields["targetHeaders"] = headers
    body = form.get("body", "").strip()
    if body:
        fields |= _body(body)
    return msgspec.json.encode(fields)


def _callback(form: Form) -> dict[str, str | None]:
    """Without a URL that of the account is meant, if it has one."""
    if form.get("callbackOn") == "none":
        return {"callbackUrl": None}
    given = {name: form.get(name, "").strip() for name in ("callbackUrl", "callbackOn")}
    return {name: value for name, value in given.items() if value}


def _headers(text: str) -> dict[str, str]:
    """Of lines such as `X-Order: 1`; one without a colon is a name without a value."""
    pairs = (line.partition(":") for line in text.splitlines() if line.strip())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _body(text: str) -> dict[str, Any]:
    """A JSON object goes as it is; anything else as text."""
    try:
        if isinstance(msgspec.json.decode(text), dict):
            return {"targetBody": msgspec.Raw(text.encode())}
    except ValueError:
        pass
    return {"targetBodyText": text}


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
    headers = masked(asked.headers)
    lines = [f"{name}: {value}" for name, value in headers.items() if value != MASK]
    binary = asked.body_kind is BodyKind.BINARY
    return {
        "url": masked_url(asked.url),
        "method": asked.method,
        "delay": _DELAYS[0],
        "timeout": str(asked.timeout_s),
        "reference": asked.reference or "",
        "lane": asked.lane or "",
        **_callback_of(asked.callback),
        "headers": "\n".join(lines),
        "body": "" if binary else readable(asked) or "",
    }


def _callback_of(wish: Callback | None) -> dict[str, str]:
    """Its fields, without a URL that may have secrets."""
    if wish is None:
        return {}
    if wish.url == NO_URL:
        return {"callbackOn": "none"}
    shown = wish.url if wish.url and masked_url(wish.url) == wish.url else ""
    return {"callbackUrl": shown, "callbackOn": "failed" if wish.on is CallbackOn.FAILED else ""}


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
