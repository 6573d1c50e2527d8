"""POST /schedule, DELETE /schedule/{scheduleId}."""

from __future__ import annotations

from litestar import delete, post
from litestar.params import FromPath

from api.answer import Answer
from api.auth import authenticate
from api.body import read_body, require_json
from api.payload import parse_request
from api.schemas import CancelledBody, CreatedBody
from api.service import HttpRequest, service_of
from scheduler.errors import NotFound
from scheduler.ids import invocation_id, is_schedule_id
from scheduler.times import format_iso8601


@post("/schedule", operation_id="createSchedule", summary="Schedule a request")
async def create_schedule(request: HttpRequest) -> Answer:
    """Stores a request to be performed at `triggerAt`; costs one credit."""
    service, scope = service_of(request), request.scope
    caller = await authenticate(service, scope)
    require_json(scope)
    data = await read_body(scope, request.receive, service.settings.max_body_bytes)
    store = service.store
    wanted = parse_request(data, service.rules, store.clock.now_ms())
    schedule_id = await store.schedules.create(caller.account_id, wanted)
    message = f"Scheduled for {format_iso8601(wanted.trigger_at_ms)}"
    return Answer(201, CreatedBody(schedule_id, invocation_id(schedule_id), message))


@delete(
    "/schedule/{schedule_id:str}",
    operation_id="cancelSchedule",
    summary="Cancel a waiting request",
    status_code=200,
)
async def cancel_schedule(request: HttpRequest, schedule_id: FromPath[str]) -> Answer:
    """Cancels a schedule that still waits, and refunds its credit, once."""
    service = service_of(request)
    caller = await authenticate(service, request.scope)
    if not is_schedule_id(schedule_id):
        raise NotFound("There is no such schedule")
    remaining = await service.store.schedules.cancel(caller.account_id, schedule_id)
    message = "Cancelled before execution; one credit was refunded"
    return Answer(200, CancelledBody(schedule_id, remaining, message))
