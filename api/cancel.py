"""POST /schedule/cancel: many at once."""

from __future__ import annotations

from operator import attrgetter

from litestar import post

from api.answer import Answer
from api.auth import call_of
from api.bodies import CancelledItemBody, CancelledManyBody, UncancelledBody
from api.reading import read_body
from api.selection import parse_selection
from api.service import HttpRequest
from scheduler.errors import Conflict, Damaged
from scheduler.models import Status
from scheduler.store.lifecycle.cancel import Cancellation, unknown

_PATH = "/schedule/cancel"


@post(_PATH, operation_id="cancelSchedules", summary="Cancel many", status_code=200)
async def cancel_schedules(request: HttpRequest) -> Answer:
    """Cancels up to 1,000 schedules that wait, and refunds their credits: those that are named, or
    those that a filter finds, by `triggerAt`, which `from` and `to` mean. Each is answered on its
    own; one between two attempts is stopped, and ends as `failed`. Safe to repeat: nothing is
    refunded twice, and what was cancelled before is a 409 with that status. Where they are large, a
    filter stops short of its `limit`; it goes on where `nextCursor` says, to the end, where that is
    null."""
    call = await call_of(request)
    limit_bytes = call.service.settings.max_body_bytes
    data = await read_body(request.scope, request.receive, limit_bytes)
    asked = parse_selection(data, _PATH, Status.SCHEDULED)
    canceller = call.store.canceller
    schedule_ids = asked.schedule_ids
    if schedule_ids is None:
        done = await canceller.waiting(call.account_id, asked.selection)
    else:
        done = await canceller.by_id(call.account_id, schedule_ids)
    each = asked.answers(done.each, attrgetter("schedule_id"), unknown)
    next_cursor = asked.walk.given_out(done.next_cursor)
    body = CancelledManyBody(list(map(_item, each)), done.credits, next_cursor)
    return Answer(200, body)


def _item(cancelled: Cancellation) -> CancelledItemBody | UncancelledBody:
    refusal = cancelled.refusal
    if refusal is None:
        status = Status.CANCELLED if cancelled.stopped is None else Status.FAILED
        return CancelledItemBody(cancelled.schedule_id, status)
    now = refusal.status if isinstance(refusal, Conflict) else None
    code = 500 if isinstance(refusal, Damaged) else 404 if now is None else 409
    return UncancelledBody(code, str(refusal), [], cancelled.schedule_id, now)
