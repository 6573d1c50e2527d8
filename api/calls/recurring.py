"""/recurring: schedules that are made again and again, by a rule."""

from __future__ import annotations

from litestar import delete, get, patch, post, put
from litestar.params import FromPath
from msgspec.structs import replace

from api.answer import JsonResponse
from api.auth import Call, call_of
from api.calls.lanes import no_fields, pause_of, pausing
from api.calls.schedule import created_answer
from api.preconditions import read_answer, tag, wanted_of
from api.reading import REPLAYED, idempotency, read_body, traced
from api.recurring_times import judge_first, next_times, search_ahead
from api.schema.findings import invalid
from api.schema.query import DEFAULT_LIMIT, OF_RECURRING, Walk
from api.schema.recurring_bodies import (
    RECURRING,
    SET_RECURRING,
    CreatedRecurringBody,
    DeletedRecurringBody,
    PreviewBody,
    RecurringListBody,
    Shown,
)
from api.schema.recurring_fields import (
    PREVIEW,
    name_of,
    parse_draft,
    parse_draft_change,
    parse_put,
    timing_of,
)
from api.service import HttpRequest
from scheduler.errors import FieldError, NotFound, UnknownRecurring
from scheduler.events import Kind
from scheduler.ids import created_at_ms
from scheduler.lanes import is_lane
from scheduler.recurrence.cron import may_take_long
from scheduler.recurrence.recurrence import checked, describe
from scheduler.recurrence.recurring import Draft, Rule, RuleState, kinds_of_change
from scheduler.runtime.pause import collected
from scheduler.times import format_iso8601

_OF_ONE, _OF_A_PREVIEW = 5, 10


@post("/recurring", operation_id="createRecurring", summary="Schedule a request again and again")
async def create_recurring(request: HttpRequest) -> JsonResponse:
    """Stores a rule, `cron` or `every`, and a request, which is sent at each of the rule's times.
    One occurrence waits at any time: an ordinary schedule, with `recurringId` and `slot`. When it
    goes out, the next one is made, and takes a credit. Postdate does not make up for times that it
    missed, because the service was away or the credits were used up: the log has one entry
    `skipped` for them."""
    call = await call_of(request)
    data = await _body(request, call)
    once, now_ms = idempotency(request.scope, data), call.store.clock.now_ms()
    draft = parse_draft(data, call.service.rules, now_ms)
    draft = _traced(draft, request, call)
    await search_ahead(call.store, call.account_id, draft.timing, now_ms)
    rule, repeated = await call.store.recurring.create(call.account_id, draft, once)
    if not repeated:
        await call.note(Kind.RULE_MADE, _called(rule))
    first_at = None if rule.slot_ms is None else format_iso8601(rule.slot_ms)
    message = f"{describe(rule.timing)}; first at {first_at}"
    body = CreatedRecurringBody(rule.recurring_id, rule.schedule_id, first_at, message)
    return JsonResponse(201, body, REPLAYED if repeated else None)


@get("/recurring", operation_id="listRecurring", summary="List recurring schedules")
async def list_recurring(request: HttpRequest) -> JsonResponse:
    """Lists recurring schedules in the order of their creation, or the one with a `name`. For the
    next page, give the `nextCursor` of a page as `cursor`."""
    call = await call_of(request, OF_RECURRING)
    query, rules = call.query, call.store.recurring
    state = query["state"] and RuleState(query["state"])
    if query["name"] is not None:
        found = await _named(call, query["name"])
        shown = [rule for rule in found if state in (None, rule.state)]
        return JsonResponse(200, RecurringListBody(await _list_of(shown), None))
    walk = Walk("/recurring", query["state"])
    page = await rules.page(
        call.account_id,
        state=state,
        limit=query["limit"] or DEFAULT_LIMIT,
        cursor=walk.taken_back(query["cursor"]),
    )
    next_cursor = walk.given_out(page.next_cursor)
    return JsonResponse(200, RecurringListBody(await _list_of(page.rules), next_cursor))


@get("/recurring/preview", operation_id="previewRecurring", summary="When a rule would fire")
async def preview_recurring(request: HttpRequest) -> JsonResponse:
    """Shows the next ten times of a rule, and the rule in words. Stores nothing."""
    call = await call_of(request, PREVIEW)
    now_ms = call.store.clock.now_ms()
    timing = checked(timing_of(call.query))
    starts_at_ms = timing.starts_at_ms
    timing = replace(timing, anchor_ms=now_ms if starts_at_ms is None else starts_at_ms)
    found = await next_times(call.store, call.account_id, timing, now_ms, _OF_A_PREVIEW)
    if not found:
        await judge_first(call.store, call.account_id, timing, now_ms)  # says why
    return JsonResponse(200, PreviewBody(list(map(format_iso8601, found)), describe(timing)))


@get(
    "/recurring/{recurring_id:str}",
    operation_id="getRecurring",
    summary="Read a recurring schedule",
)
async def get_recurring(request: HttpRequest, recurring_id: FromPath[str]) -> JsonResponse:
    """Shows a recurring schedule as it was created, its state, and its next five times."""
    call, wanted = await call_of(request), wanted_of(request.scope)
    recurring_id = await _id_of(call, recurring_id)
    rule = await call.store.recurring.read(call.account_id, recurring_id)
    shown, found = Shown(rule), list[int]()
    if shown.next_ms is not None:
        after_ms = shown.next_ms - 1
        found = await next_times(call.store, call.account_id, rule.timing, after_ms, _OF_ONE)
    return read_answer(wanted, RECURRING.of(Shown(rule, found)), rule.etag)


@patch(
    "/recurring/{recurring_id:str}",
    operation_id="changeRecurring",
    summary="Change a recurring schedule",
)
async def change_recurring(request: HttpRequest, recurring_id: FromPath[str]) -> JsonResponse:
    """Changes the given fields, each as a whole; null clears an optional field, and `cron` and
    `every` replace each other. The waiting occurrence changes as well; if a worker has it already,
    the one after it does. `paused` pauses or resumes it in the same step, like `/pause` and
    `/resume`."""
    call = await call_of(request)
    recurring_id = await _id_of(call, recurring_id)
    wanted, now_ms = wanted_of(request.scope), call.store.clock.now_ms()
    change = parse_draft_change(await _body(request, call), call.service.rules, now_ms)
    if (cron := change.settings.get("cron")) is not None and may_take_long(cron):
        before = await call.store.recurring.read(call.account_id, recurring_id)
        await search_ahead(call.store, call.account_id, change.of(before).timing, now_ms)
    recurring, after = call.store.recurring, await pausing(call, change.pause)
    before = await recurring.read(call.account_id, recurring_id)
    rule = await recurring.change(call.account_id, recurring_id, change.of, after, wanted)
    await _note(call, before, rule)
    return _answer(rule)


@put(
    "/recurring/by-name/{name:str}",
    operation_id="setRecurring",
    summary="Create or change by name",
)
async def set_recurring(request: HttpRequest, name: FromPath[str]) -> JsonResponse:
    """Creates the recurring schedule of this name, or replaces all its fields: an absent field is
    cleared. If all fields are the same already, nothing changes, and `unchanged` is true. A paused
    one stays paused. Made for deploys."""
    call = await call_of(request)
    _judge_name(name)
    wanted, now_ms = wanted_of(request.scope), call.store.clock.now_ms()
    given = parse_put(await _body(request, call), name, call.service.rules, now_ms)
    await search_ahead(call.store, call.account_id, given.timing, now_ms)

    def draft_of(before: Rule | None) -> Draft:
        return _traced(given.of(before), request, call)

    done = await call.store.recurring.put(call.account_id, name, draft_of, wanted)
    if not done.unchanged:
        await call.note(Kind.RULE_MADE if done.created else Kind.RULE_CHANGED, name)
    body = SET_RECURRING.of(Shown(done.rule, unchanged=done.unchanged))
    return JsonResponse(201 if done.created else 200, body, tag(done.rule.etag))


@delete(
    "/recurring/{recurring_id:str}",
    operation_id="deleteRecurring",
    summary="Delete a recurring schedule",
    status_code=200,
)
async def delete_recurring(request: HttpRequest, recurring_id: FromPath[str]) -> JsonResponse:
    """Deletes the rule, cancels the waiting occurrence and refunds its credit. An occurrence that a
    worker has is still sent. Ended occurrences stay, and so does the log."""
    call = await call_of(request)
    recurring_id = await _id_of(call, recurring_id)
    wanted = wanted_of(request.scope)
    name = await call.store.recurring.delete(call.account_id, recurring_id, wanted)
    if name is not None:
        await call.note(Kind.RULE_DELETED, name or recurring_id)
    left = (await call.store.accounts.get(call.account_id)).credits
    message = "Deleted; an occurrence that waited was cancelled and refunded"
    return JsonResponse(200, DeletedRecurringBody(recurring_id, left, message))


@post(
    "/recurring/{recurring_id:str}/pause",
    operation_id="pauseRecurring",
    summary="Pause a recurring schedule",
    status_code=200,
)
async def pause_recurring(request: HttpRequest, recurring_id: FromPath[str]) -> JsonResponse:
    """Cancels the waiting occurrence, refunds its credit, and makes no other until it is resumed,
    or until `pausedUntil`. An occurrence that a worker has is still sent. If it is paused already,
    the call sets the end and the note as given. If it has ended, it stays so. Safe to repeat."""
    call = await call_of(request)
    recurring_id = await _id_of(call, recurring_id)
    wanted, pause = wanted_of(request.scope), await pause_of(request, call)
    before = await call.store.recurring.read(call.account_id, recurring_id)
    rule = await call.store.recurring.pause(call.account_id, recurring_id, pause, wanted)
    await _note(call, before, rule)
    return _answer(rule)


@post(
    "/recurring/{recurring_id:str}/resume",
    operation_id="resumeRecurring",
    summary="Resume a recurring schedule",
    status_code=200,
)
async def resume_recurring(request: HttpRequest, recurring_id: FromPath[str]) -> JsonResponse:
    """Makes the next occurrence of a recurring schedule that is paused or blocked. Times during the
    pause do not count as missed. If the occurrence cannot be stored, the answer says `blocked`, and
    why. Safe to repeat."""
    call = await call_of(request)
    recurring_id = await _id_of(call, recurring_id)
    wanted = wanted_of(request.scope)
    await no_fields(request, call)
    before = await call.store.recurring.read(call.account_id, recurring_id)
    rule = await call.store.recurring.resume(call.account_id, recurring_id, wanted)
    await _note(call, before, rule)
    return _answer(rule)


@post(
    "/recurring/{recurring_id:str}/trigger",
    operation_id="triggerRecurring",
    summary="Make an occurrence now",
)
async def trigger_recurring(request: HttpRequest, recurring_id: FromPath[str]) -> JsonResponse:
    """Makes an occurrence that is due now, besides the rule's own times and whatever the state. It
    costs one credit. It has `recurringId`, and no `slot`."""
    call = await call_of(request)
    once = idempotency(request.scope, await no_fields(request, call))
    wanted, recurring = wanted_of(request.scope), call.store.recurring
    try:
        recurring_id = await _id_of(call, recurring_id)
    except UnknownRecurring:  # the name has gone since the first call
        created = once and await call.store.schedules.created_before(call.account_id, once)
        if not created:
            raise
    else:
        created = await recurring.trigger(call.account_id, recurring_id, once, wanted)
    return created_answer(created, created_at_ms(created.schedule_ids[0]))


def _traced(draft: Draft, request: HttpRequest, call: Call) -> Draft:
    return draft._replace(request=traced(draft.request, call.service.settings, request.scope))


async def _body(request: HttpRequest, call: Call) -> bytes:
    return await read_body(request.scope, request.receive, call.service.settings.max_body_bytes)


def _judge_name(name: str) -> None:
    """Raises InvalidRequest."""
    try:
        name_of(name)
    except ValueError as error:
        raise invalid([FieldError("name", str(error))]) from None


async def _named(call: Call, name: str) -> list[Rule]:
    try:
        return [await call.store.recurring.by_name(call.account_id, name)]
    except NotFound:
        return []


async def _list_of(rules: list[Rule]) -> list[RECURRING.type]:  # type: ignore[name-defined]
    return await collected(RECURRING.of(Shown(rule)) for rule in rules)


async def _note(call: Call, before: Rule, rule: Rule) -> None:
    for kind in kinds_of_change(before, rule):
        await call.note(kind, _called(rule))


def _called(rule: Rule) -> str:
    return rule.name or rule.recurring_id


def _answer(rule: Rule) -> JsonResponse:
    return JsonResponse(200, RECURRING.of(Shown(rule)), tag(rule.etag))


async def _id_of(call: Call, named: str) -> str:
    """The id in a path, or that of the rule which a path has as `name:` and its name. The call then
    means this rule, even if another one takes the name meanwhile. Raises NotFound."""
    prefix, colon, name = named.partition(":")
    if not colon:
        return named
    if prefix != "name" or not is_lane(name):
        raise UnknownRecurring
    return await call.store.recurring.id_of(call.account_id, name)


HANDLERS = [
    create_recurring,
    list_recurring,
    preview_recurring,
    get_recurring,
    change_recurring,
    set_recurring,
    delete_recurring,
    pause_recurring,
    resume_recurring,
    trigger_recurring,
]
