"""The Recurring page: each rule in words, when it fires next, and its last outcomes."""

from __future__ import annotations

from litestar import get

from api.dashboard.answer import Raw, redirect
from api.dashboard.recurring.outcomes import Outcomes, all_outcomes
from api.dashboard.recurring.texts import ADDRESS, name_of, why_blocked
from api.dashboard.render import page
from api.dashboard.shared import shared_by
from api.dashboard.viewer.session import Viewer, asks_for_news, signed_in
from api.service import HttpRequest, service_of
from scheduler.errors import InvalidRequest, NotFound
from scheduler.ids import is_recurring_id
from scheduler.recurrence.recurrence import describe
from scheduler.recurrence.recurring import Rule, RulePage, RuleState

# Each has its outcomes read: a page is one read of rules, and a search of the log for each.
_PER_PAGE = 20
_GOOD_FOR_S = 1.0
_OUTCOMES_GOOD_FOR_S = 5.0


@get("/recurring")
async def recurring_page(request: HttpRequest) -> Raw:
    """The rules, a page at a time, or its news. A name or an id (`q`) leads to its rule."""
    viewer = await signed_in(request)
    store, asked = service_of(request).store, request.query_params
    name, state = asked.get("q", "").strip(), asked.get("state", "")
    fault, found = None, RulePage([], None)
    if name:
        try:
            rule = await _named(request, viewer, name)
            return redirect(request, f"{ADDRESS}/{rule.recurring_id}")
        except (NotFound, InvalidRequest):
            fault = "No recurring schedule has this name or id."
    elif state and state not in set(RuleState):
        state, fault = "", "There is no such state."
    if fault is None:
        try:
            found = await _page(request, viewer, state, asked.get("cursor") or None)
        except InvalidRequest:
            fault = "There is no such page of the list; begin at the first one."
    return page(
        request,
        "recurring/list_live.html" if asks_for_news(request) else "recurring/list.html",
        status=400 if fault else 200,
        found=found,
        outcomes=await _outcomes(request, viewer, found.rules),
        cursor=asked.get("cursor"),
        name=name,
        state=state,
        states=list(RuleState),
        fault=fault,
        name_of=name_of,
        described=describe,
        why_blocked=why_blocked,
        now_ms=store.clock.now_ms(),
    )


async def _named(request: HttpRequest, viewer: Viewer, name: str) -> Rule:
    """Raises NotFound, InvalidRequest."""
    recurring = service_of(request).store.recurring
    if is_recurring_id(name):
        return await recurring.read(viewer.account_id, name)
    return await recurring.by_name(viewer.account_id, name)


async def _page(request: HttpRequest, viewer: Viewer, state: str, cursor: str | None) -> RulePage:
    """Raises InvalidRequest for a bad cursor; TooManyScans."""
    recurring = service_of(request).store.recurring
    wanted = RuleState(state) if state else None

    async def read() -> RulePage:
        return await recurring.page(viewer.account_id, state=wanted, limit=_PER_PAGE, cursor=cursor)

    # A page that follows on a press shows what came of it.
    if not asks_for_news(request):
        return await read()
    key = (viewer.account_id, "recurring", state, cursor)
    return await shared_by(request).get(key, _GOOD_FOR_S, read)


async def _outcomes(
    request: HttpRequest, viewer: Viewer, rules: list[Rule]
) -> dict[str, Outcomes | None]:
    """Of the rules of a page; as news, a few seconds old at most."""
    store, ids = service_of(request).store, tuple(each.recurring_id for each in rules)

    async def read() -> dict[str, Outcomes | None]:
        return await all_outcomes(store, viewer.account_id, ids)

    if not asks_for_news(request):
        return await read()
    key = (viewer.account_id, "outcomes", ids)
    return await shared_by(request).get(key, _OUTCOMES_GOOD_FOR_S, read)


HANDLERS = [recurring_page]
