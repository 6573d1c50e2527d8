"""POST /schedule/cancel and POST /schedule/replay: many at once."""

from __future__ import annotations

from functools import partial
from operator import attrgetter

from litestar import post

from api.answer import JsonResponse
from api.auth import call_of
from api.bodies import (
    CancelledItemBody,
    CancelledManyBody,
    ReplayedBody,
    ReplaysBody,
    UncancelledBody,
    UnreplayedBody,
)
from api.errors import status_of
from api.payload import AS_IT_WAS
from api.reading import REPLAYED, idempotency, read_body
from api.selection import parse_selection
from api.service import HttpRequest
from scheduler.errors import Conflict
from scheduler.ids import invocation_id
from scheduler.models import Status
from scheduler.store.lifecycle.cancel import Cancellation, unknown
from scheduler.store.lifecycle.replays import Replay
from scheduler.store.verdict import Verdict, refusal

_CANCEL, _REPLAY = "/schedule/cancel", "/schedule/replay"


@post(_CANCEL, operation_id="cancelSchedules", summary="Cancel many", status_code=200)
async def cancel_schedules(request: HttpRequest) -> JsonResponse:
    """Cancels up to 1,000 schedules that wait, and refunds their credits: those that are named, or
    those that a filter finds, by `triggerAt`, which `from` and `to` mean. Each is answered on its
    own; one between two attempts is stopped, and ends as `failed`. Safe to repeat: nothing is
    refunded twice, and one cancelled before is a 409 with that status. Where they are large, a
    filter stops short of its `limit`; it goes on where `nextCursor` says, to the end, where that is
    null."""
    call = await call_of(request)
    limit_bytes = call.service.settings.max_body_bytes
    data = await read_body(request.scope, request.receive, limit_bytes)
    asked = parse_selection(data, _CANCEL, Status.SCHEDULED)
    canceller = call.store.canceller
    schedule_ids = asked.schedule_ids
    if schedule_ids is None:
        done = await canceller.waiting(call.account_id, asked.selection)
    else:
        done = await canceller.by_id(call.account_id, schedule_ids)
    each = asked.answers(done.each, attrgetter("schedule_id"), unknown)
    next_cursor = asked.walk.given_out(done.next_cursor)
    body = CancelledManyBody(list(map(_cancelled, each)), done.credits, next_cursor)
    return JsonResponse(200, body)


def _cancelled(cancelled: Cancellation) -> CancelledItemBody | UncancelledBody:
    error = cancelled.refusal
    if error is None:
        status = Status.CANCELLED if cancelled.stopped is None else Status.FAILED
        return CancelledItemBody(cancelled.schedule_id, status)
    now = error.status if isinstance(error, Conflict) else None
    return UncancelledBody(status_of(error), str(error), [], cancelled.schedule_id, now)


@post(_REPLAY, operation_id="replaySchedules", summary="Replay many", status_code=200)
async def replay_schedules(request: HttpRequest) -> JsonResponse:
    """Makes new schedules, due now, of up to 1,000 that have ended, in one step and with one debit:
    of those that are named, or of the dead letters that a filter finds, the oldest first, `from`
    and `to` by their end. Each has its own result, and is replayed at most once: one replayed
    before is a 409, so that a repeat does nothing twice. Where they are large, a filter stops
    short of its `limit`; it goes on where `nextCursor` says, to the end, where that is null."""
    call, scope = await call_of(request), request.scope
    settings, schedules = call.service.settings, call.store.schedules
    data = await read_body(scope, request.receive, settings.max_body_bytes)
    once = idempotency(scope, data)
    asked = parse_selection(data, _REPLAY, Status.FAILED)
    done = await schedules.replayed_before(call.account_id, once) if once else None
    if done is None:
        now_ms = call.store.clock.now_ms()
        remade = partial(AS_IT_WAS.of_replay, now_ms=now_ms)
        schedule_ids = asked.schedule_ids
        if schedule_ids is None:
            done = await schedules.replay_failed(
                call.account_id, asked.selection, remade, once, now_ms
            )
        else:
            done = await schedules.replay_all(
                call.account_id,
                schedule_ids,
                remade,
                once,
                now_ms,
                most_bytes=settings.max_batch_bytes,
            )
    each = asked.answers(
        done.each, attrgetter("original"), lambda each: Replay(each, Verdict.UNKNOWN)
    )
    next_cursor = asked.walk.given_out(done.next_cursor)
    body = ReplaysBody(list(map(_replayed, each)), next_cursor)
    return JsonResponse(200, body, REPLAYED if done.repeated else None)


def _replayed(replay: Replay) -> ReplayedBody | UnreplayedBody:
    if replay.schedule_id is not None:
        new = replay.schedule_id
        return ReplayedBody(new, invocation_id(new), replay.original)
    error = refusal(replay.original, replay.verdict)
    return UnreplayedBody(status_of(error), str(error), [], replay.original)


HANDLERS = [cancel_schedules, replay_schedules]
