"""POST /schedule/cancel, /schedule/replay and /schedule/callback: many at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

import msgspec
from litestar import post

from api.answer import JsonResponse
from api.auth import Call, call_of
from api.errors import status_of
from api.limits import MAX_ITEMS
from api.reading import REPLAYED, idempotency, read_body
from api.recurring_times import follow
from api.schema.bodies import (
    CALLBACK,
    CancelledItemBody,
    CancelledManyBody,
    ReplayedBody,
    ReplaysBody,
    ResendsBody,
    ResentBody,
    UncancelledBody,
    UnreplayedBody,
    UnsentBody,
)
from api.schema.field import BOOLEAN, TEXT, WHOLE, Schema
from api.schema.findings import Findings, details_of, shown
from api.schema.json_text import Decode, List, Object, Part, read
from api.schema.payload import AS_IT_WAS
from api.schema.query import (
    CURSOR,
    HELD,
    Parameter,
    Walk,
    filters_of,
    judge_period,
    limit_of,
)
from api.service import HttpRequest
from scheduler.callbacks import CallbackStatus
from scheduler.errors import Conflict, InvalidRequest, TooManyResends, anew
from scheduler.events import Kind
from scheduler.ids import invocation_id, is_schedule_id
from scheduler.models import Status
from scheduler.runtime.pause import collected
from scheduler.schema import LONGEST_URL
from scheduler.store.lifecycle.callback.callbacks import Resent
from scheduler.store.lifecycle.callback.callbacks import unknown as unknown_resent
from scheduler.store.lifecycle.create.replays import Replay
from scheduler.store.lifecycle.end.cancel import Cancellation, unknown
from scheduler.store.queries.listing import Selection
from scheduler.store.verdict import Verdict, refusal
from scheduler.times import format_iso8601

A = TypeVar("A")

_CANCEL, _REPLAY, _RESEND = "/schedule/cancel", "/schedule/replay", "/schedule/callback"
_IDS = List(MAX_ITEMS)
_ID: Decode[str] = msgspec.json.Decoder(str).decode
OF_BULK = (
    *filters_of(LONGEST_URL),
    limit_of(MAX_ITEMS, {}, f"At most so many; {MAX_ITEMS:,}, if it is left out."),
    CURSOR,
)
_KINDS = {type_: kind for kind in (TEXT, WHOLE, BOOLEAN) for type_ in kind.types}


@dataclass(frozen=True)
class Listed:
    """The field of a filter that says which list is meant, by one of `words`, and the filters of
    that list. The field has to be given, so that an empty body does not mean all."""

    field: str
    words: tuple[str, ...]
    filters: tuple[Parameter, ...] = OF_BULK

    @cached_property
    def parameter(self) -> Parameter:
        schema = {"type": "string", "enum": [*self.words]}
        says = "The list that the filter searches. It must be given, unless `ids` are."
        return Parameter(self.field, str, schema, says)

    @cached_property
    def names(self) -> Object:
        """Those that a body may have. Made once, as a new class stays for long."""
        return Object(["ids", self.field, *(each.name for each in self.filters)])


# Only what waits can be held.
WAITING = Listed("status", (Status.SCHEDULED,), (*OF_BULK, HELD))
FAILED = Listed("status", (Status.FAILED,))
REPORTED = Listed("callback", (CallbackStatus.FAILED, CallbackStatus.DELIVERED))


class BulkQuery(NamedTuple):
    """Either the strings `named` as ids, or the `selection` of the list that a `word` means, and
    its cursors' walk."""

    named: list[str] | None
    selection: Selection
    walk: Walk
    word: str = ""

    @property
    def schedule_ids(self) -> list[str] | None:
        """Those of the named that are schedule ids, each once."""
        if self.named is None:
            return None
        return [each for each in dict.fromkeys(self.named) if is_schedule_id(each)]

    def answers(
        self, done: Sequence[A], id_of: Callable[[A], str], unknown: Callable[[str], A]
    ) -> list[A]:
        """What came of each, in the order of the names; twice for a name given twice. `unknown`
        makes it for a text that is no schedule id, with its beginning."""
        if self.named is None:
            return list(done)
        found = {id_of(each): each for each in done}
        return [found.get(each) or unknown(shown(each)) for each in self.named]


IDS_SCHEMA: Schema = {
    "type": "object",
    "description": "The ids of the schedules. A string that is no schedule id gets a 404 of its "
    "own. An id that is given twice gets its answer twice.",
    "properties": {
        "ids": {
            "type": "array",
            "items": {"type": "string"},
            "minItems": 1,
            "maxItems": MAX_ITEMS,
            "description": f"The ids of 1 to {MAX_ITEMS:,} schedules, instead of a filter.",
        }
    },
    "required": ["ids"],
    "additionalProperties": False,
}


def filter_schema(listed: Listed, description: str) -> Schema:
    """The other form, as JSON Schema."""
    return {
        "type": "object",
        "description": description,
        "properties": {
            listed.field: {
                **listed.parameter.schema,
                "description": listed.parameter.description,
            },
            **{
                each.name: {
                    **each.schema,
                    "type": [each.schema["type"], "null"],
                    "description": each.description,
                }
                for each in listed.filters
            },
        },
        "required": [listed.field],
        "additionalProperties": False,
    }


def parse_selection(data: bytes, path: str, listed: Listed) -> BulkQuery:
    """What a body means: `{"ids": [...]}`, or a filter over a list. Raises InvalidRequest with
    every bad field."""
    findings = Findings()
    given = listed.names.members(data, findings)
    if "ids" in given:
        for name in given:
            if name != "ids":
                findings.add(name, "It does not go with ids.")
        named = _named(bytes(given["ids"]), findings)
        findings.refuse_if_any()
        return BulkQuery(named, Selection(), Walk())
    return _filter(given, path, listed, findings)


def _filter(given: Mapping[str, Part], path: str, listed: Listed, findings: Findings) -> BulkQuery:
    values: dict[str, Any] = {}
    for each in (listed.parameter, *listed.filters):
        kind = _KINDS[each.schema["type"]]
        try:
            value = read(given.get(each.name, b"null"), kind.decode, kind.fault)
            values[each.name] = None if value is None else each.read(_as_in_a_query(value))
        except ValueError as error:
            findings.add(each.name, str(error))
    field, words = listed.field, listed.words
    if values.get(field, words[0]) not in words:
        findings.add(field, f"Give ids, or a filter with the {field} {' or '.join(words)}.")
    judge_period(values, findings)
    findings.refuse_if_any()
    url, limit = values["targetUrl"], values["limit"] or MAX_ITEMS
    named = {"lane": values["lane"], "reference": values["reference"]}
    named |= {"label": values["label"], "recurring_id": values["recurringId"]}
    held = values.get("held")
    walk = Walk(path, values[field], url, *named.values(), held)
    cursor = walk.taken_back(values["cursor"])
    period = (values["from"], values["to"])
    selection = Selection(url, *period, limit, cursor, **named, held=held)
    return BulkQuery(None, selection, walk, values[field])


def _as_in_a_query(value: str | int) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _named(text: bytes, findings: Findings) -> list[str]:
    elements = _IDS.elements(text)
    if not elements:
        findings.add("ids", f"It must be a list of 1 to {MAX_ITEMS:,} schedule ids.")
    named: list[str] = []
    for place, element in enumerate(elements):
        try:
            named.append(read(element, _ID, TEXT.fault))
        except ValueError as error:
            findings.add(f"ids[{place}]", str(error))
    return named


@post(_CANCEL, operation_id="cancelSchedules", summary="Cancel many", status_code=200)
async def cancel_schedules(request: HttpRequest) -> JsonResponse:
    """Cancels up to 1,000 waiting schedules and refunds their credits. Give their ids, or a filter,
    which takes them by `triggerAt`; its `from` and `to` mean that time. Each schedule has its own
    answer. One that waits for another attempt is stopped, and ends as `failed`. The call is safe to
    repeat: nothing is refunded twice, and a schedule that was cancelled or stopped before has the
    same answer again. If the schedules are large, a filter stops before its `limit`: go on with its
    `nextCursor` until that is null. A filter without `recurringId` leaves out the next occurrences
    of recurring schedules, and `occurrencesLeft` counts them."""
    call = await call_of(request)
    limit_bytes = call.service.settings.max_body_bytes
    data = await read_body(request.scope, request.receive, limit_bytes)
    asked = parse_selection(data, _CANCEL, WAITING)
    canceller = call.store.canceller
    schedule_ids = asked.schedule_ids
    if schedule_ids is None:
        done = await canceller.waiting(call.account_id, asked.selection)
    else:
        done = await canceller.by_id(call.account_id, schedule_ids)
    done = await follow(call.store, call.account_id, done)
    await _note(call, "cancelled", sum(one.refusal is None for one in done.each))
    each = asked.answers(done.each, attrgetter("schedule_id"), unknown)
    next_cursor = asked.walk.given_out(done.next_cursor)
    answers = await collected(map(_cancelled, each))
    body = CancelledManyBody(answers, done.credits, next_cursor, done.left)
    return JsonResponse(200, body)


def _cancelled(cancelled: Cancellation) -> CancelledItemBody | UncancelledBody:
    error = cancelled.refusal
    if error is None:
        status = Status.CANCELLED if cancelled.stopped is None else Status.FAILED
        return CancelledItemBody(cancelled.schedule_id, status)
    now = error.status if isinstance(error, Conflict) else None
    code, reason = status_of(error), error.reason
    return UncancelledBody(code, str(error), reason, [], cancelled.schedule_id, now)


@post(_REPLAY, operation_id="replaySchedules", summary="Replay many", status_code=200)
async def replay_schedules(request: HttpRequest) -> JsonResponse:
    """Makes new schedules, due now, of up to 1,000 that have ended. Give their ids, or a filter
    over the dead letters, which takes the oldest first, or goes by `reference`; its `from` and `to`
    mean their end. Each schedule has its own answer, and is replayed at most once: one that was
    replayed before is a 409, so a repeat does nothing twice. Large replays are made in parts; if
    the call fails in between, the first parts are made. With an `Idempotency-Key`, a repeat makes
    the rest, and each schedule has its first answer again. If the schedules are large, a filter
    stops before its `limit`: go on with its `nextCursor` until that is null."""
    call, scope = await call_of(request), request.scope
    settings, schedules = call.service.settings, call.store.schedules
    data = await read_body(scope, request.receive, settings.max_body_bytes)
    once = idempotency(scope, data)
    asked = parse_selection(data, _REPLAY, FAILED)
    now_ms = call.store.clock.now_ms()
    remade = partial(AS_IT_WAS.of_replay, now_ms=now_ms)
    schedule_ids = asked.schedule_ids
    if schedule_ids is None:
        done = await schedules.replay_failed(call.account_id, asked.selection, remade, once, now_ms)
    else:
        done = await schedules.replay_all(
            call.account_id,
            schedule_ids,
            remade,
            once,
            now_ms,
            most_bytes=settings.max_batch_bytes,
        )
    if not done.repeated:
        await _note(call, "run again", sum(one.schedule_id is not None for one in done.each))
    each = asked.answers(
        done.each, attrgetter("original"), lambda each: Replay(each, Verdict.UNKNOWN)
    )
    next_cursor = asked.walk.given_out(done.next_cursor)
    trigger_at = format_iso8601(done.trigger_at_ms)  # the same of all
    body = ReplaysBody(await collected(_replayed(one, trigger_at) for one in each), next_cursor)
    return JsonResponse(200, body, REPLAYED if done.repeated else None)


def _replayed(replay: Replay, trigger_at: str) -> ReplayedBody | UnreplayedBody:
    if replay.schedule_id is not None:
        new = replay.schedule_id
        return ReplayedBody(new, invocation_id(new), trigger_at, replay.original)
    error = refusal(replay.original, replay.verdict)
    return UnreplayedBody(status_of(error), str(error), error.reason, [], replay.original)


@post(_RESEND, operation_id="resendCallbacks", summary="Send many callbacks again", status_code=200)
async def resend_callbacks(request: HttpRequest) -> JsonResponse:
    """Reports once more how up to 1,000 schedules ended. Give their ids, or a filter over
    callbacks. Failed callbacks come in the order in which they failed, delivered ones by the end of
    their schedule; `from` and `to` mean that moment. Each schedule has its own answer; a pending
    callback is a 409. An account may send 50 a second again, so the callbacks of one call go out
    one after the other, over 20 seconds at most. Beyond these 20 seconds nothing is sent: an id has
    a 429 of its own, and a filter stops. If nothing could be sent, the call is a 429. Go on with
    `nextCursor` until that is null: a callback that fails once more is not sent a third time."""
    call = await call_of(request)
    data = await read_body(request.scope, request.receive, call.service.settings.max_body_bytes)
    asked, callbacks = parse_selection(data, _RESEND, REPORTED), call.store.callbacks
    schedule_ids = asked.schedule_ids
    if schedule_ids is None:
        which = CallbackStatus(asked.word)
        done = await callbacks.resend_matching(call.account_id, which, asked.selection)
    else:
        done = await callbacks.resend_all(call.account_id, schedule_ids)
    refusals = [each.refusal for each in done.each]
    limited = next((each for each in refusals if isinstance(each, TooManyResends)), None)
    if limited is not None and None not in refusals:
        raise anew(limited)
    await _note(call, "callbacks sent again", refusals.count(None))
    each = asked.answers(done.each, attrgetter("schedule_id"), unknown_resent)
    next_cursor = asked.walk.given_out(done.next_cursor)
    return JsonResponse(200, ResendsBody(await collected(map(_resent, each)), next_cursor))


def _resent(resent: Resent) -> ResentBody | UnsentBody:
    error = resent.refusal
    if error is None:
        return ResentBody(resent.schedule_id, CALLBACK.of(resent.callback))
    now = error.status if isinstance(error, Conflict) else None
    details = details_of(error) if isinstance(error, InvalidRequest) else []
    said = (status_of(error), str(error), error.reason, details)
    return UnsentBody(*said, resent.schedule_id, now)


async def _note(call: Call, what: str, number: int) -> None:
    if number:
        await call.note(Kind.BULK, f"{number:,} {what}")


HANDLERS = [cancel_schedules, replay_schedules, resend_callbacks]
