"""/schedule and /schedule/{scheduleId}: create, read, list, change, cancel."""

from __future__ import annotations

from litestar import delete, get, patch, post
from litestar.params import FromPath

from api.answer import Answer
from api.auth import authenticate
from api.bodies import schedule_body
from api.body import read_body
from api.once import REPLAYED, idempotency
from api.payload import parse_change, parse_request, trigger_at_of
from api.query import DEFAULT_LIMIT, Query
from api.schemas import CancelledBody, CreatedBody, SchedulesBody
from api.service import HttpRequest, service_of
from scheduler.ids import invocation_id
from scheduler.store.schedules.schedules import Created
from scheduler.times import format_iso8601

_NO_PARAMETERS: frozenset[str] = frozenset()
_LIST_PARAMETERS = frozenset({"from", "to", "limit", "order", "cursor"})


@post("/schedule", operation_id="createSchedule", summary="Schedule a request")
async def create_schedule(request: HttpRequest) -> Answer:
    """Stores a request to be performed at `triggerAt`; costs one credit."""
    service, scope = service_of(request), request.scope
    caller = await authenticate(service, scope)
    data = await read_body(scope, request.receive, service.settings.max_body_bytes)
    once = idempotency(scope, data)
    store = service.store
    if once is not None:
        # Before it is judged: what was valid then may be too old by now, and has its answer.
        before = await store.schedules.created_before(caller.account_id, once)
        if before is not None:
            return _created(before, trigger_at_of(data))
    wanted = parse_request(data, service.rules, store.clock.now_ms())
    created = await store.schedules.create_all(caller.account_id, [wanted], once)
    return _created(created, wanted.trigger_at_ms)


def _created(created: Created, trigger_at_ms: int) -> Answer:
    [schedule_id] = created.schedule_ids
    message = f"Scheduled for {format_iso8601(trigger_at_ms)}"
    body = CreatedBody(schedule_id, invocation_id(schedule_id), message)
    return Answer(201, body, REPLAYED if created.replayed else None)


@get("/schedule", operation_id="listSchedules", summary="List what waits")
async def list_schedules(request: HttpRequest) -> Answer:
    """Schedules that have not been executed yet, by `triggerAt`, a page at a time; `cursor` takes
    the `nextCursor` of the page before. What stays as it is meanwhile is neither skipped nor
    repeated, whatever comes and goes around it."""
    service = service_of(request)
    caller = await authenticate(service, request.scope)
    query = Query(request.scope["query_string"], _LIST_PARAMETERS)
    from_ms, to_ms = query.period()
    limit, order, cursor = query.page()
    query.refuse_if_bad()
    page = await service.store.schedules.page(
        caller.account_id,
        from_ms=from_ms,
        to_ms=to_ms,
        limit=limit or DEFAULT_LIMIT,
        descending=order == "desc",
        cursor=cursor,
    )
    return Answer(200, SchedulesBody(list(map(schedule_body, page.schedules)), page.next_cursor))


@get("/schedule/{schedule_id:str}", operation_id="getSchedule", summary="Read a schedule")
async def get_schedule(request: HttpRequest, schedule_id: FromPath[str]) -> Answer:
    """A schedule as it was asked for, how it stands, and its outcome once it has been executed;
    for a day after it has ended. Header values that look like secrets are masked."""
    service = service_of(request)
    caller = await authenticate(service, request.scope)
    Query(request.scope["query_string"], _NO_PARAMETERS).refuse_if_bad()
    schedule = await service.store.schedules.get(caller.account_id, schedule_id)
    return Answer(200, schedule_body(schedule))


@patch("/schedule/{schedule_id:str}", operation_id="changeSchedule", summary="Change what waits")
async def change_schedule(request: HttpRequest, schedule_id: FromPath[str]) -> Answer:
    """Changes fields of a schedule while it waits, each given one as a whole: headers are replaced,
    not merged, and null clears what is optional. It keeps its id, and no credit moves."""
    service, scope = service_of(request), request.scope
    caller = await authenticate(service, scope)
    data = await read_body(scope, request.receive, service.settings.max_body_bytes)
    store = service.store
    change = parse_change(data, service.rules, store.clock.now_ms())
    changed = await store.schedules.change(caller.account_id, schedule_id, change.of)
    return Answer(200, schedule_body(changed))


@delete(
    "/schedule/{schedule_id:str}",
    operation_id="cancelSchedule",
    summary="Cancel what waits",
    status_code=200,
)
async def cancel_schedule(request: HttpRequest, schedule_id: FromPath[str]) -> Answer:
    """Cancels a schedule that still waits, and refunds its credit, once."""
    service = service_of(request)
    caller = await authenticate(service, request.scope)
    remaining = await service.store.schedules.cancel(caller.account_id, schedule_id)
    message = "Cancelled before execution; one credit was refunded"
    return Answer(200, CancelledBody(schedule_id, remaining, message))
