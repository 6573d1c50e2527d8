"""POST /schedule/{scheduleId}/replay and POST /schedule/replay: new schedules of ended ones."""

from __future__ import annotations

from functools import partial
from operator import attrgetter

from litestar import post
from litestar.params import FromPath

from api.answer import Answer
from api.auth import call_of
from api.bodies import ReplayBody, ReplayedBody, ReplaysBody, UnreplayedBody
from api.payload import Change, parse_replay
from api.reading import REPLAYED, idempotency, read_body
from api.selection import parse_selection
from api.service import HttpRequest
from scheduler.ids import invocation_id
from scheduler.models import Status
from scheduler.store.lifecycle.refusals import SENTENCES
from scheduler.store.lifecycle.replays import Replay, Replays
from scheduler.store.verdict import Verdict
from scheduler.times import format_iso8601

_PATH = "/schedule/replay"
_AS_IT_WAS = Change({})
_CODES = {
    Verdict.UNKNOWN: 404,
    Verdict.UNPAID: 402,
    Verdict.NO_ROOM: 413,
    Verdict.DAMAGED: 500,
}
_CONFLICT = 409


@post(
    "/schedule/{schedule_id:str}/replay",
    operation_id="replaySchedule",
    summary="Replay what has ended",
)
async def replay_schedule(request: HttpRequest, schedule_id: FromPath[str]) -> Answer:
    """Makes a new schedule of one that has ended: the same request, body and secret headers
    included, due now; costs one credit. The body may give any field anew, each as a whole and
    judged as in a change; an `expiresAt` that has passed keeps its distance to `triggerAt`. The new
    one says `replayOf`, the old one `replayedAs`, and is no dead letter any more. One that was
    cancelled and had a body cannot be replayed: that is not kept."""
    call, scope = await call_of(request), request.scope
    service, schedules = call.service, call.store.schedules
    data = await read_body(scope, request.receive, service.settings.max_body_bytes)
    once = idempotency(scope, data)
    before = await schedules.replayed_before(call.account_id, once) if once else None
    if before is not None:
        return _created(before)
    now_ms = call.store.clock.now_ms()
    change = parse_replay(data, service.rules, now_ms)
    remade = partial(change.of_replay, now_ms=now_ms)
    return _created(await schedules.replay(call.account_id, schedule_id, remade, once, now_ms))


@post(_PATH, operation_id="replaySchedules", summary="Replay many", status_code=200)
async def replay_schedules(request: HttpRequest) -> Answer:
    """Makes new schedules, due now, of up to 1,000 that have ended, in one step and with one debit:
    of those that are named, or of the dead letters that a filter finds, the oldest first, `from`
    and `to` by their end. Each is answered on its own, and replayed at most once: what was replayed
    before is a 409, so that a repeat does nothing twice. Where they are large, a filter stops
    short of its `limit`; it goes on where `nextCursor` says, to the end, where that is null."""
    call, scope = await call_of(request), request.scope
    settings, schedules = call.service.settings, call.store.schedules
    data = await read_body(scope, request.receive, settings.max_body_bytes)
    once = idempotency(scope, data)
    asked = parse_selection(data, _PATH, Status.FAILED)
    done = await schedules.replayed_before(call.account_id, once) if once else None
    if done is None:
        now_ms = call.store.clock.now_ms()
        remade = partial(_AS_IT_WAS.of_replay, now_ms=now_ms)
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
    each = asked.answers(done.each, attrgetter("original"), _unknown)
    next_cursor = asked.walk.given_out(done.next_cursor)
    body = ReplaysBody(list(map(_item, each)), next_cursor)
    return Answer(200, body, REPLAYED if done.repeated else None)


def _created(done: Replays) -> Answer:
    [replay] = done.each
    assert replay.schedule_id is not None
    body = ReplayBody(
        replay.schedule_id,
        invocation_id(replay.schedule_id),
        f"Scheduled for {format_iso8601(done.trigger_at_ms)}",
        replay.original,
    )
    return Answer(201, body, REPLAYED if done.repeated else None)


def _unknown(schedule_id: str) -> Replay:
    return Replay(schedule_id, Verdict.UNKNOWN)


def _item(replay: Replay) -> ReplayedBody | UnreplayedBody:
    if replay.schedule_id is not None:
        new = replay.schedule_id
        return ReplayedBody(new, invocation_id(new), replay.original)
    code = _CODES.get(replay.verdict, _CONFLICT)
    return UnreplayedBody(code, SENTENCES[replay.verdict], [], replay.original)
