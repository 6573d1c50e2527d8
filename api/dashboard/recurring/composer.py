"""Makes and changes recurring schedules by the fields and rules of the API."""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import get, post
from litestar.params import FromPath

from api.dashboard.answer import Raw
from api.dashboard.recurring.form import edited_rule, rule_given
from api.dashboard.recurring.preview import preview_of
from api.dashboard.recurring.texts import ADDRESS, name_of, named
from api.dashboard.render import page
from api.dashboard.requests.composer import lanes_of
from api.dashboard.requests.form import OF_RULE, faults_of, fields_of, filled
from api.dashboard.viewer.csrf import Form, once_of, written
from api.dashboard.viewer.session import (
    ROOT,
    Viewer,
    base_url,
    note,
    redirect_saying,
    signed_in,
    zone_of,
)
from api.errors import status_of
from api.recurring_times import search_ahead
from api.schema.recurring_fields import parse_draft, parse_draft_change
from api.service import HttpRequest, service_of
from scheduler.callers import Role
from scheduler.errors import (
    Conflict,
    InsufficientCredits,
    InvalidRequest,
    PreconditionFailed,
    QuotaExceeded,
    RecurringNameTaken,
    TooManyLanes,
    TooManyScans,
)
from scheduler.events import Kind
from scheduler.recurrence.recurring import Draft, Rule, kinds_of_change
from scheduler.store.preconditions import Precondition

# Examples of a cron, in words.
_CRONS = {
    "*/15 * * * *": "every quarter of an hour",
    "0 9 * * MON-FRI": "weekdays at nine",
    "30 2 * * *": "each night at half past two",
    "0 8 1 * *": "the first of each month at eight",
    "0 17 * * 5L": "the last Friday of a month at five",
}


@get("/recurring/new", needs=Role.ACT)
async def compose(request: HttpRequest) -> Raw:
    """Filled in with the echo target, each morning in the viewer's zone."""
    viewer = await signed_in(request)
    given = {
        "way": "cron",
        "cron": "0 9 * * *",
        "timeZone": zone_of(request).name,
        "targetUrl": f"{base_url(request)}{ROOT}/echo",
        "targetMethod": "POST",
        "targetBody": '{"hello": "again"}',
    }
    return await _show(request, viewer, given)


@post("/recurring/new")
async def create(request: HttpRequest) -> Raw:
    """Opens what it made; a form that is sent twice makes one. `preview` only shows the times."""
    viewer, form = await written(request)
    if form.get("preview"):
        return await _show(request, viewer, dict(form))
    service = service_of(request)
    try:
        fields = fields_of(OF_RULE, form, zone_of(request))
        now_ms = service.store.clock.now_ms()
        draft = parse_draft(msgspec.json.encode(fields), service.rules, now_ms)
        await search_ahead(service.store, viewer.account_id, draft.timing, now_ms)
        once = once_of(form, repr(sorted(form.items())))
        created = await service.store.recurring.create(viewer.account_id, draft, once)
        if not created.repeated:
            await note(request, viewer, Kind.RULE_MADE, name_of(created.rule))
    except _REFUSALS as refusal:
        return await _refused(request, viewer, form, refusal)
    words = "It is set; each occurrence takes one credit, the first one is taken."
    if created.repeated:
        words = "This form was sent before, and has set this recurring schedule then."
    return await redirect_saying(request, viewer, words, f"{ADDRESS}/{created.rule.recurring_id}")


@get("/recurring/{recurring_id:str}/change", needs=Role.ACT)
async def change_page(request: HttpRequest, recurring_id: FromPath[str]) -> Raw:
    viewer = await signed_in(request)
    rule = await service_of(request).store.recurring.read(viewer.account_id, named(recurring_id))
    return await _show(request, viewer, rule_given(rule, zone_of(request)), rule=rule)


@post("/recurring/{recurring_id:str}/change")
async def change(request: HttpRequest, recurring_id: FromPath[str]) -> Raw:
    """Changes the fields that the form has otherwise than it was filled, if the rule still is what
    it was filled with, or is what it asks for already. `preview` only shows the times."""
    viewer, form = await written(request)
    service, zone = service_of(request), zone_of(request)
    recurring, name = service.store.recurring, named(recurring_id)
    if form.get("preview"):
        rule = await recurring.read(viewer.account_id, name)
        return await _show(request, viewer, dict(form), rule=rule)

    def changed(before: Rule) -> Draft:
        draft = Draft(before.request, before.timing, before.name)
        if fields := edited_rule(form, before, zone):
            data, now_ms = msgspec.json.encode(fields), service.store.clock.now_ms()
            draft = parse_draft_change(data, service.rules, now_ms).of(before)
        return draft

    try:
        before = await recurring.read(viewer.account_id, name)
        if (timing := changed(before).timing) != before.timing:
            now_ms = service.store.clock.now_ms()
            await search_ahead(service.store, viewer.account_id, timing, now_ms)
        wanted = Precondition.of(form.get("etag", ""))
        rule = await recurring.change(viewer.account_id, name, changed, wanted=wanted)
        for kind in kinds_of_change(before, rule):
            await note(request, viewer, kind, name_of(rule))
    except _REFUSALS as refusal:
        rule = await recurring.read(viewer.account_id, name)
        return await _refused(request, viewer, form, refusal, rule)
    return await redirect_saying(request, viewer, "It is changed.", f"{ADDRESS}/{name}")


_REFUSALS = (
    *(InvalidRequest, Conflict, PreconditionFailed),
    *(InsufficientCredits, QuotaExceeded, TooManyScans),
)


async def _refused(
    request: HttpRequest, viewer: Viewer, form: Form, why: Exception, rule: Rule | None = None
) -> Raw:
    """The form as it was filled in, with its faults."""
    if isinstance(why, InvalidRequest):
        faults = faults_of(why, form)
    elif isinstance(why, PreconditionFailed):
        faults = {}
    else:
        faults = {_field_of(why): f"{str(why).rstrip('.')}."}
    if isinstance(why, InsufficientCredits):
        account = msgspec.structs.replace(viewer.account, credits=0)
        request.state.viewer = viewer._replace(account=account)
    return await _show(request, viewer, dict(form), faults, rule, status_of(why))


def _field_of(why: Exception) -> str:
    if isinstance(why, InsufficientCredits):
        return "Credits"
    if isinstance(why, TooManyLanes):
        return "lane"
    return "name" if isinstance(why, RecurringNameTaken) else "Not saved"


async def _show(
    request: HttpRequest,
    viewer: Viewer,
    given: dict[str, str],
    faults: dict[str, str] | None = None,
    rule: Rule | None = None,
    status: int = 200,
) -> Raw:
    """The form and the times that it comes to. That of a change keeps the etag that it was filled
    with; after a 412 it gets the one of now, so that a save replaces just that."""
    suggested = {"cron": _CRONS, "lane": await lanes_of(request, viewer)}
    form = filled(OF_RULE, given, faults or {}, suggested)
    values: dict[str, Any] = {"form": form, "rule": rule}
    met_a_change = status == status_of(PreconditionFailed())
    now_etag = rule.etag if rule else ""
    values["etag"] = now_etag if met_a_change else given.get("etag", now_etag)
    preview = await preview_of(request, viewer, given)
    return page(
        request,
        "recurring/composer.html",
        status=status,
        met_a_change=met_a_change,
        preview=preview,
        now_ms=preview.now_ms,
        title=name_of(rule) if rule else "",
        address=f"{ADDRESS}/{rule.recurring_id}/change" if rule else f"{ADDRESS}/new",
        **values,
    )


HANDLERS = [compose, create, change_page, change]
