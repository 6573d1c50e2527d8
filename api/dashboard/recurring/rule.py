"""One recurring schedule: how it stands, its next times and last outcomes, and its buttons."""

from __future__ import annotations

from litestar import get, post
from litestar.params import FromPath

from api.dashboard.answer import Raw
from api.dashboard.pauses import SPANS, pause_of
from api.dashboard.recurring.outcomes import Outcomes, outcomes_of
from api.dashboard.recurring.preview import zone_beside
from api.dashboard.recurring.texts import ADDRESS, name_of, named, trouble
from api.dashboard.render import page
from api.dashboard.shared import shared_by
from api.dashboard.viewer.csrf import Form, once_of, written
from api.dashboard.viewer.session import (
    Viewer,
    asks_for_news,
    note,
    our_page,
    redirect_saying,
    signed_in,
    zone_of,
)
from api.recurring_times import next_times
from api.service import HttpRequest, service_of
from scheduler.errors import TooManyScans
from scheduler.events import Kind
from scheduler.lane_settings import LONGEST_NOTE
from scheduler.masks import masked_url
from scheduler.recurrence.recurrence import describe
from scheduler.recurrence.recurring import Rule, RuleState, kinds_of_change
from scheduler.store import Store

_TIMES = 5
_GOOD_FOR_S = 2.0


@get("/recurring/{recurring_id:str}")
async def rule_page(request: HttpRequest, recurring_id: FromPath[str]) -> Raw:
    """One rule, or its news. Two reads at most."""
    viewer = await signed_in(request)
    store, name = service_of(request).store, named(recurring_id)
    account_id, zone = viewer.account_id, zone_of(request)
    rule = await store.recurring.read(account_id, name)

    async def read() -> Outcomes | None:
        return await outcomes_of(store, account_id, name)

    key, news = (account_id, "outcomes", name), asks_for_news(request)
    # A page that follows on a press shows what came of it.
    outcomes = await (shared_by(request).get(key, _GOOD_FOR_S, read) if news else read())
    return page(
        request,
        "recurring/rule_live.html" if news else "recurring/rule.html",
        rule=rule,
        title=name_of(rule),
        words=describe(rule.timing),
        url=masked_url(rule.request.url),
        trouble=trouble(rule),
        times_ms=await _times(store, rule, account_id),
        there=zone_beside(rule.timing, zone),
        outcomes=outcomes,
        spans=SPANS,
        longest_note=LONGEST_NOTE,
        now_ms=store.clock.now_ms(),
    )


@post("/recurring/{recurring_id:str}/pause")
async def pause(request: HttpRequest, recurring_id: FromPath[str]) -> Raw:
    """Its waiting occurrence is cancelled, and its credit comes back. One that is paused gets
    another end and note."""
    viewer, form = await written(request)
    recurring, asked = service_of(request).store.recurring, pause_of(request, form)
    before = await recurring.read(viewer.account_id, named(recurring_id))
    rule = await recurring.pause(viewer.account_id, before.recurring_id, asked)
    for kind in kinds_of_change(before, rule):
        await note(request, viewer, kind, name_of(rule))
    return await _done(request, viewer, form, rule, "is paused; nothing of it waits")


@post("/recurring/{recurring_id:str}/resume")
async def resume(request: HttpRequest, recurring_id: FromPath[str]) -> Raw:
    viewer, form = await written(request)
    recurring = service_of(request).store.recurring
    before = await recurring.read(viewer.account_id, named(recurring_id))
    rule = await recurring.resume(viewer.account_id, before.recurring_id)
    for kind in kinds_of_change(before, rule):
        await note(request, viewer, kind, name_of(rule))
    words = "goes on" if rule.state == RuleState.ACTIVE else f"is {rule.state}"
    return await _done(request, viewer, form, rule, words)


@post("/recurring/{recurring_id:str}/run")
async def run_now(request: HttpRequest, recurring_id: FromPath[str]) -> Raw:
    """One occurrence now, beside its times, for one credit. A form that is sent twice makes one."""
    viewer, form = await written(request)
    recurring, name = service_of(request).store.recurring, named(recurring_id)
    await recurring.trigger(viewer.account_id, name, once_of(form, f"run {name}"))
    rule = await recurring.read(viewer.account_id, name)
    return await _done(request, viewer, form, rule, "is run now; that took one credit")


@post("/recurring/{recurring_id:str}/delete")
async def delete(request: HttpRequest, recurring_id: FromPath[str]) -> Raw:
    """Its waiting occurrence is cancelled, and its credit comes back; one that runs ends."""
    viewer, _ = await written(request)
    recurring = service_of(request).store.recurring
    name = await recurring.delete(viewer.account_id, named(recurring_id))
    if name is not None:
        await note(request, viewer, Kind.RULE_DELETED, name or recurring_id)
    words = f"{name or 'The recurring schedule'} is deleted."
    return await redirect_saying(request, viewer, words, ADDRESS)


async def _times(store: Store, rule: Rule, account_id: str) -> list[int] | None:
    """The next ones; of a paused rule those after its pause, or, if that has no end, those that it
    would have. None if the account searches too much to look for them now."""
    if rule.state == RuleState.ENDED:
        return []
    first_ms = rule.slot_ms
    resumes_at_ms = rule.pause and rule.pause.until_ms
    after_ms = first_ms or resumes_at_ms or store.clock.now_ms()
    known = [] if first_ms is None else [first_ms]
    try:
        most = _TIMES - len(known)
        return known + await next_times(store, account_id, rule.timing, after_ms, most)
    except TooManyScans:
        return None


async def _done(request: HttpRequest, viewer: Viewer, form: Form, rule: Rule, words: str) -> Raw:
    back = our_page(form.get("back", "")) or f"{ADDRESS}/{rule.recurring_id}"
    return await redirect_saying(request, viewer, f"{name_of(rule)} {words}.", back)


HANDLERS = [rule_page, pause, resume, run_now, delete]
