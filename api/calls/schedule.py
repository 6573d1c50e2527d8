"""/schedule and /schedule/{scheduleId}: create, read, list, change, cancel, replay."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

from litestar import delete, get, patch, post
from litestar.params import FromPath
from litestar.types import Receive, Scope

from api.answer import JsonResponse
from api.auth import Call, authenticate, call_of, count, known_key
from api.preconditions import read_answer, tag, wanted_of
from api.reading import REFUSAL, REPLAYED, idempotency, is_small, read_body, traced
from api.recurring_times import follow
from api.schema.bodies import (
    CALLBACK,
    SCHEDULE,
    CancelledBody,
    CreatedBody,
    ReplayBody,
    SchedulesBody,
    existing_body,
)
from api.schema.findings import invalid
from api.schema.payload import (
    parse_callback,
    parse_change,
    parse_create,
    parse_request,
    trigger_at_of,
)
from api.schema.query import DEFAULT_LIMIT, OF_SCHEDULES, Walk, read_query
from api.service import HttpRequest, Service, service_of
from scheduler.callbacks import CallbackStatus
from scheduler.callers import KnownKey, Rate
from scheduler.errors import FieldError, InvalidRequest
from scheduler.ids import created_at_ms, invocation_id
from scheduler.models import Schedule, Status
from scheduler.runtime.pause import collected
from scheduler.store import Store
from scheduler.store.lifecycle.create.replays import Replays
from scheduler.store.lifecycle.create.results import CreateResult, refusal_of
from scheduler.store.queries.listing import Selection
from scheduler.store.verdict import Verdict
from scheduler.times import format_iso8601


@post("/schedule", operation_id="createSchedule", summary="Schedule a request")
async def create_schedule(request: HttpRequest) -> JsonResponse:
    """Stores a request, which Postdate sends at `triggerAt` or after `delay`. It costs one credit.
    With `onExisting`, a waiting schedule with the same `reference` is kept, or gets this request
    and time. Then the answer is a 200, and no credit is taken."""
    return await create(service_of(request), request.scope, request.receive)


async def create(service: Service, scope: Scope, receive: Receive) -> JsonResponse:
    """The same, without litestar."""
    if REFUSAL in scope:
        raise cast("dict[str, Any]", scope).pop(REFUSAL)
    data, key = None, known_key(service, scope)
    if key is not None and is_small(scope) and not scope["query_string"]:
        data = await read_body(scope, receive, service.settings.max_body_bytes)
        answer = await _create_at_once(service, scope, key, data)
        if answer is not None:
            return answer
    account_id = (await authenticate(service, scope)).account_id
    read_query(scope["query_string"])  # there is no parameter
    store = service.store
    if data is None:
        data = await read_body(scope, receive, service.settings.max_body_bytes)
    once = idempotency(scope, data)
    if once is not None:
        # Before it is judged: a field that was valid then may be too old by now.
        before = await store.schedules.created_before(account_id, once)
        if before is not None:
            return _placed_answer(before) if before.placed else _repeated_answer(before, data)
    now_ms = store.clock.now_ms()
    wanted = traced(parse_create(data, service.rules, now_ms), service.settings, scope)
    created = await store.schedules.create_all(account_id, [wanted], once, now_ms)
    if created.placed:
        return _placed_answer(created)
    if created.repeated:
        return _repeated_answer(created, data)
    return created_answer(created, wanted.trigger_at_ms)


async def _create_at_once(
    service: Service, scope: Scope, key: KnownKey, data: bytes
) -> JsonResponse | None:
    """In one call of the store, which judges the key too. None, and nothing was changed, if the key
    or the body is refused: the caller's first look is at the key alone, and gives the reason."""
    store, now_ms = service.store, service.store.clock.now_ms()
    try:
        once = idempotency(scope, data)
        wanted = traced(parse_request(data, service.rules, now_ms), service.settings, scope)
    except InvalidRequest:
        return None

    on_rate = rate_noted(store, scope, key)
    created = await store.schedules.create_by_key(key, wanted, once, now_ms, on_rate)
    if created is None:
        store.api_keys.forget(key)
        return None
    if created.repeated:
        return _repeated_answer(created, data)
    return created_answer(created, wanted.trigger_at_ms)


def rate_noted(store: Store, scope: Scope, key: KnownKey) -> Callable[[Rate], None]:
    """For a create by a known key: notes where its account stands. Raises RateLimited."""

    def on_rate(rate: Rate) -> None:
        if rate.wait_s > 0:
            store.api_keys.forget(key)  # the next body is read only if the rate allows
        count(scope, rate)

    return on_rate


def _repeated_answer(created: CreateResult, data: bytes) -> JsonResponse:
    """A `delay` in the body counts from the first create, whose moment the id has."""
    [schedule_id] = created.schedule_ids
    return created_answer(created, trigger_at_of(data, created_at_ms(schedule_id)))


def _placed_answer(created: CreateResult) -> JsonResponse:
    """To one that may mean a schedule which waits. Raises what kept it from being stored."""
    [placed] = created.placed
    if placed.verdict == Verdict.DONE:
        return created_answer(created, placed.due_ms)
    if placed.verdict != Verdict.EXISTING:
        raise refusal_of(placed)
    return JsonResponse(200, existing_body(placed), REPLAYED if created.repeated else None)


def created_answer(created: CreateResult, trigger_at_ms: int) -> JsonResponse:
    [schedule_id] = created.schedule_ids
    trigger_at = format_iso8601(trigger_at_ms)
    message = f"Scheduled for {trigger_at}"
    body = CreatedBody(schedule_id, invocation_id(schedule_id), trigger_at, message)
    return JsonResponse(201, body, REPLAYED if created.repeated else None)


@get("/schedule", operation_id="listSchedules", summary="List schedules")
async def list_schedules(request: HttpRequest) -> JsonResponse:
    """Lists waiting schedules by `triggerAt`. With `status=failed` it lists the dead letters by
    their end: failed schedules that were not replayed, which are kept for a week. Any other list of
    statuses has all schedules with them that are kept, by their end or `triggerAt`. `callback`
    selects ended schedules by the status of their callback. For the next page, give the
    `nextCursor` of a page as `cursor`. A page may be shorter than its `limit` before the end, which
    is where `nextCursor` is null. A schedule that does not change meanwhile is neither skipped nor
    repeated, whatever others do."""
    call = await call_of(request, OF_SCHEDULES)
    query, account_id = call.query, call.account_id
    callback = query["callback"] and CallbackStatus(query["callback"])
    default = (Status.COMPLETED, Status.FAILED) if callback else (Status.SCHEDULED,)
    statuses = query["status"] or default
    named = [query[each] for each in ("targetUrl", "lane", "reference", "recurringId")]
    url, lane, reference, recurring_id = named
    ascends = callback is CallbackStatus.PENDING
    if callback is None:
        by_reference = reference is not None and statuses == (Status.FAILED,)
        ascends = by_reference or statuses == (Status.SCHEDULED,)
    order = query["order"] or ("asc" if ascends else "desc")
    walk = Walk("/schedule", order, ",".join(statuses), callback, *named, query["held"])
    selected = Selection(
        url,
        query["from"],
        query["to"],
        query["limit"] or DEFAULT_LIMIT,
        walk.taken_back(query["cursor"]),
        lane=lane,
        reference=reference,
        recurring_id=recurring_id,
        held=query["held"],
    )
    if selected.held is not None and (callback or statuses != (Status.SCHEDULED,)):
        raise invalid([FieldError("held", "It goes with the status scheduled alone.")])
    down, store = order == "desc", call.store
    if callback is None and statuses in ((Status.SCHEDULED,), (Status.FAILED,)):
        source = store.unended if statuses == (Status.SCHEDULED,) else store.failed
        page = await source.page(account_id, selected, descending=down)
    else:
        which = (account_id, statuses, selected)
        page = await store.kept.page(*which, descending=down, callback=callback)
    next_cursor = walk.given_out(page.next_cursor)
    schedules = page.schedules
    if selected.held is None:
        schedules = await store.holders.told(account_id, schedules)
    found = await collected(map(SCHEDULE.of, schedules))
    return JsonResponse(200, SchedulesBody(found, next_cursor))


@get("/schedule/{schedule_id:str}", operation_id="getSchedule", summary="Read a schedule")
async def get_schedule(request: HttpRequest, schedule_id: FromPath[str]) -> JsonResponse:
    """Shows a schedule as it was created, its state, and its outcome once it was executed. An ended
    schedule is kept for a day, and for a week if it failed and was not replayed. Values that look
    like secrets, in headers or in the query of the URL, are masked."""
    call, wanted = await call_of(request), wanted_of(request.scope)
    found = await call.store.schedules.read(call.account_id, schedule_id)
    return read_answer(wanted, await _shown(call, found.schedule), found.etag)


@patch("/schedule/{schedule_id:str}", operation_id="changeSchedule", summary="Change a schedule")
async def change_schedule(request: HttpRequest, schedule_id: FromPath[str]) -> JsonResponse:
    """Changes fields of a waiting schedule. Each given field replaces the old one as a whole; null
    clears an optional field, and `default` clears `callbackUrl`. The id stays, and no credit moves.
    A field that is given back as GET shows it changes nothing. If `targetUrl` moves to another
    origin, give the headers that look like secrets again."""
    call = await call_of(request)
    service, wanted = call.service, wanted_of(request.scope)
    data = await read_body(request.scope, request.receive, service.settings.max_body_bytes)
    change = parse_change(data, service.rules, call.store.clock.now_ms())
    changed = await call.store.schedules.change(
        call.account_id, schedule_id, change.of, wanted=wanted
    )
    return JsonResponse(200, await _shown(call, changed.schedule), tag(changed.etag))


async def _shown(call: Call, schedule: Schedule) -> Any:
    [told] = await call.store.holders.told(call.account_id, [schedule])
    return SCHEDULE.of(told)


@delete(
    "/schedule/{schedule_id:str}",
    operation_id="cancelSchedule",
    summary="Cancel a schedule",
    status_code=200,
)
async def cancel_schedule(request: HttpRequest, schedule_id: FromPath[str]) -> JsonResponse:
    """Cancels a waiting schedule and refunds its credit, once. A schedule that waits for another
    attempt is stopped instead: it ends as `failed` with the outcome of the last attempt, and
    nothing is refunded. The call is safe to repeat: while the schedule is kept, the answer is the
    same, with the credits by then."""
    call = await call_of(request)
    wanted = wanted_of(request.scope)
    cancelled = await call.store.canceller.cancel(call.account_id, schedule_id, wanted)
    cancelled = await follow(call.store, call.account_id, cancelled)
    return JsonResponse(200, CancelledBody.of(cancelled))


@post(
    "/schedule/{schedule_id:str}/replay",
    operation_id="replaySchedule",
    summary="Replay a schedule",
)
async def replay_schedule(request: HttpRequest, schedule_id: FromPath[str]) -> JsonResponse:
    """Makes a new schedule of one that has ended, with the same request, body and secret headers.
    It is due now, and costs one credit. Each field of the body replaces the old one as a whole,
    judged as in a change. An `expiresAt` that has passed keeps its distance to `triggerAt`. The new
    schedule has `replayOf`, the old one `replayedAs`, and the old one is no dead letter any more. A
    cancelled schedule that had a body cannot be replayed, because its body is not kept."""
    call, scope = await call_of(request), request.scope
    service, schedules = call.service, call.store.schedules
    data = await read_body(scope, request.receive, service.settings.max_body_bytes)
    once = idempotency(scope, data)
    before = await schedules.replayed_before(call.account_id, once) if once else None
    if before is not None:
        return _replayed(before)
    now_ms = call.store.clock.now_ms()
    change = parse_change(data, service.rules, now_ms, may_be_empty=True)
    remade = partial(change.of_replay, now_ms=now_ms)
    return _replayed(await schedules.replay(call.account_id, schedule_id, remade, once, now_ms))


def _replayed(done: Replays) -> JsonResponse:
    [replay] = done.each
    assert replay.schedule_id is not None
    trigger_at = format_iso8601(done.trigger_at_ms)
    body = ReplayBody(
        replay.schedule_id,
        invocation_id(replay.schedule_id),
        trigger_at,
        f"Scheduled for {trigger_at}",
        replay.original,
    )
    return JsonResponse(201, body, REPLAYED if done.repeated else None)


@post(
    "/schedule/{schedule_id:str}/callback",
    operation_id="resendCallback",
    summary="Send a callback again",
    status_code=202,
)
async def resend_callback(request: HttpRequest, schedule_id: FromPath[str]) -> JsonResponse:
    """Reports once more how a schedule ended, whatever its `callbackOn` says. The report goes to
    its `callbackUrl`, or to the one in the body: a URL or `default`. It has the same `webhook-id`,
    and all retries again. The answer is a 409 while the schedule has not ended or its callback is
    pending, and if it was cancelled. So a repeat is a 409 too, and does nothing twice."""
    call = await call_of(request)
    service = call.service
    data = await read_body(request.scope, request.receive, service.settings.max_body_bytes)
    url = parse_callback(data, service.rules, call.store.clock.now_ms())
    resent = await call.store.callbacks.resend(call.account_id, schedule_id, url)
    return JsonResponse(202, CALLBACK.of(resent))


HANDLERS = [
    create_schedule,
    list_schedules,
    get_schedule,
    change_schedule,
    cancel_schedule,
    replay_schedule,
    resend_callback,
]
