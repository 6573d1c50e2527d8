"""POST /schedule/batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any, cast

import msgspec
from litestar import post

from api.answer import JsonResponse
from api.auth import call_of
from api.errors import status_of
from api.limits import MAX_ITEMS
from api.reading import REPLAYED, idempotency_of_large, read_body, trace_of
from api.schema.bodies import AcceptedBody, BatchBody, RefusedBody, existing_body
from api.schema.findings import MOST_LISTED_OF_A_CALL, Findings, details_of, invalid
from api.schema.incremental_json import LARGE_BYTES, ListInPieces, check_utf8
from api.schema.items import Item, Items, bare_items, text_of
from api.schema.json_text import List, Object, Part
from api.schema.payload import trigger_at_of
from api.schema.rules import Rules
from api.service import HttpRequest, RequestMetrics
from scheduler.errors import (
    FieldError,
    InsufficientCredits,
    InvalidRequest,
    PostdateError,
    QuotaExceeded,
    Reason,
    TooManyLanes,
)
from scheduler.ids import created_at_ms, invocation_id
from scheduler.models import Idempotency, Packed, Request, Upsert
from scheduler.runtime.pause import Pause, collected
from scheduler.store.idempotency import Placed
from scheduler.store.lifecycle.create.create import Schedules
from scheduler.store.lifecycle.create.results import CreateResult, refusal_of
from scheduler.store.verdict import Verdict
from scheduler.times import format_iso8601

_MOMENT_BYTES = 6
# Answers that are made in one go.
_AT_ONCE = 128
_BY_OLD_RULES = "It was refused when it came first, by rules that have changed since."
_BATCH, _ITEMS = Object(["schedules"]), List(MAX_ITEMS, "schedules")
_LARGE = ListInPieces("schedules", List(MAX_ITEMS), _BATCH)
_TOO_FEW_OR_MANY = f"It must be a list of 1 to {MAX_ITEMS:,} schedules."
_CUT_OFF = (
    "It was not stored: the call that stored the items before it was cut off, and by rules that "
    "have changed since it would be refused."
)


def _refused(error: PostdateError) -> RefusedBody:
    return RefusedBody(status_of(error), str(error), error.reason, [])


# By the verdict on the last items: the credits end; the room or the lanes, where other calls have
# taken them meanwhile; or a call was cut off.
_REST: dict[int, RefusedBody] = {
    Verdict.UNPAID: _refused(InsufficientCredits()),
    Verdict.NO_ROOM: _refused(QuotaExceeded()),
    Verdict.TOO_MANY_LANES: _refused(TooManyLanes()),
    Verdict.LATER: RefusedBody(400, _CUT_OFF, Reason.INVALID_FIELD, []),
}


@post(
    "/schedule/batch",
    operation_id="createSchedules",
    summary="Schedule many requests",
    status_code=200,
)
async def create_schedules(request: HttpRequest) -> JsonResponse:
    """Stores up to 1,000 requests, one credit each, and counts as one request against the rate
    limit. Each item has its own answer, in order: 400 if it breaks a rule, 402 if the credits do
    not cover it. The others are stored all the same. A large batch is stored in parts; if the call
    fails in between, the first parts are stored. With an `Idempotency-Key`, a repeat stores the
    rest, and each item gets its first answer again, even if its time has passed."""
    call, scope = await call_of(request), request.scope
    service, schedules = call.service, call.store.schedules
    limit_bytes = service.settings.max_batch_bytes
    data = await read_body(scope, request.receive, limit_bytes, MAX_ITEMS)
    once, now_ms = await idempotency_of_large(scope, data), call.store.clock.now_ms()
    created = await schedules.created_before(call.account_id, once) if once else None
    items: list[Part] | list[Item] = []
    if len(data) < LARGE_BYTES:
        items = bare_items(data, service.rules.max_body_bytes)
    items = items or await items_of(data)
    del data
    refusals: list[RefusedBody | None] = []
    due_ms: list[int] = []
    if created is None:
        trace = trace_of(service.settings, scope)
        judged = await _judged(items, service.rules, now_ms, trace)
        refusals = [each if type(each) is RefusedBody else None for each in judged]
        if once is not None:
            note = pack_verdicts([each is None for each in refusals], now_ms)
            once = msgspec.structs.replace(once, note=note)
        some = [each for each in judged if type(each) is not RefusedBody]
        requests = cast("list[Request | Packed | Upsert]", some)
        due_ms = [each.trigger_at_ms for each in requests]
        if once is None:
            items.clear()  # never looked at again, and all that came
        created = await _created(schedules, call.account_id, requests, once, now_ms)
    if created.unfinished and once is not None:
        judge = partial(_judged, rules=service.rules, trace=trace_of(service.settings, scope))
        created = await _finished(schedules, call.account_id, items, judge, created, once)
    if created.repeated:
        # By another call, perhaps while this one was judging.
        refusals = await _refused_before(items, service.rules, created.note)
        if not created.placed:
            due_ms = await _due_before(items, refusals, created.schedule_ids)
    else:
        _count(service.tally, refusals, created)
    if created.placed:
        body = BatchBody(await collected(_placed(refusals, created.placed)))
    else:
        accepted = await _accepted(created.schedule_ids, due_ms)
        body = BatchBody(_answers(refusals, accepted, _REST[created.rest]))
    return JsonResponse(200, body, REPLAYED if created.repeated else None)


def _count(
    tally: RequestMetrics, refusals: Sequence[RefusedBody | None], created: CreateResult
) -> None:
    refused = Counter(each.reason for each in filter(None, refusals))
    if created.placed:
        refused.update(refusal_of(each).reason for each in created.placed if not each.is_stored)
    else:
        rest = len(refusals) - refused.total() - len(created.schedule_ids)
        refused[_REST[created.rest].reason] += rest
    for reason, count in refused.items():
        if count:
            tally.refuse(reason, count)


async def items_of(data: bytes) -> list[Part]:
    """The same as `parse_batch`, with pauses if there is much."""
    if len(data) >= LARGE_BYTES:
        await check_utf8(data)
        items = await _LARGE.elements(data)
        if len(items) > MAX_ITEMS:
            raise invalid([FieldError("schedules", _TOO_FEW_OR_MANY)])
        if items:
            return items
    return parse_batch(data)


def parse_batch(data: bytes) -> list[Part]:
    """The items of a batch, each still JSON. Raises InvalidRequest."""
    if items := _ITEMS.elements_within(data):
        return items
    findings = Findings()
    given = _BATCH.members(data, findings)
    items = _ITEMS.elements(given.get("schedules", b"null"))
    if not items:
        findings.add("schedules", _TOO_FEW_OR_MANY)
    findings.refuse_if_any()
    return items


async def _judged(
    items: Sequence[Part | Item],
    rules: Rules,
    now_ms: int,
    trace: bytes | None = None,
    places: Sequence[int] = range(MAX_ITEMS),
) -> list[Request | Packed | Upsert | RefusedBody]:
    """Each item's request or its fault, as of one moment; `places` are theirs in the batch. The
    list of all their faults is bounded."""
    judge = Items(rules, now_ms, trace)
    judged: list[Request | Packed | Upsert | RefusedBody] = []
    pause, unlisted = Pause(), MOST_LISTED_OF_A_CALL
    while (count := len(judged)) < len(items):
        judged += judge.first_alike(items, count)
        if len(judged) == count:
            try:
                text = text_of(items[count])
                judged.append(_request_of(places[count], text, rules, judge))
            except InvalidRequest as refusal:
                listed = min(len(refusal.details), unlisted)
                unlisted -= listed
                # As data: an exception that is kept keeps the frames that it passed through.
                judged.append(
                    RefusedBody(400, str(refusal), refusal.reason, details_of(refusal, listed))
                )
        if pause.is_due:
            await pause.take()
    return judged


def _request_of(place: int, text: bytes, rules: Rules, judge: Items) -> Request | Packed | Upsert:
    if len(text) > rules.max_body_bytes:
        message = f"It is larger than {rules.max_body_bytes:,} bytes."
        raise invalid([FieldError(f"schedules[{place}]", message)])
    return judge.judged(text)


async def _refused_before(
    items: Sequence[Part | Item], rules: Rules, note: bytes
) -> list[RefusedBody | None]:
    """The fault of each item when the batch was stored: those that the note names are judged
    again as of that time, and may pass only where the rules have changed since."""
    accepted, judged_at_ms = unpack_verdicts(note, len(items))
    refusals: list[RefusedBody | None] = [None] * len(items)
    if judged_at_ms is None:
        return refusals
    refused = [place for place, each in enumerate(accepted) if not each]
    again = [items[place] for place in refused]
    judged = await _judged(again, rules, judged_at_ms, places=refused)
    for place, found in zip(refused, judged, strict=True):
        if not isinstance(found, RefusedBody):
            detail = FieldError(f"schedules[{place}]", _BY_OLD_RULES)
            sentence = f"{detail.field}: {detail.message}"
            found = RefusedBody(400, sentence, Reason.INVALID_FIELD, [detail])
        refusals[place] = found
    return refusals


async def _due_before(
    items: Sequence[Part | Item],
    refusals: Sequence[RefusedBody | None],
    schedule_ids: Sequence[str],
) -> list[int]:
    """When each of the stored items is due; a `delay` counts from its first create."""
    accepted = (item for item, refusal in zip(items, refusals, strict=True) if refusal is None)
    due_ms: list[int] = []
    pause = Pause()
    for item, schedule_id in zip(accepted, schedule_ids, strict=False):
        due_ms.append(trigger_at_of(text_of(item), created_at_ms(schedule_id)))
        if pause.is_due:
            await pause.take()
    return due_ms


async def _created(
    schedules: Schedules,
    account_id: str,
    requests: Sequence[Request | Packed | Upsert],
    once: Idempotency | None,
    now_ms: int,
) -> CreateResult:
    """Stores what can be stored of a batch, or nothing."""
    if not requests:
        # Judging takes its time, in which the same batch may have been stored by another call.
        before = await schedules.created_before(account_id, once) if once else None
        return before or CreateResult([])
    try:
        return await schedules.create_all(account_id, requests, once, now_ms)
    except InsufficientCredits:
        return CreateResult([])


async def _finished(
    schedules: Schedules,
    account_id: str,
    items: Sequence[Part | Item],
    judge: Callable[..., Awaitable[list[Request | Packed | Upsert | RefusedBody]]],
    created: CreateResult,
    once: Idempotency,
) -> CreateResult:
    """Stores the rest of a batch that another call has begun, and perhaps goes on with: by its ids,
    and by the rules as of its moment. If these would refuse an item now, the rest is not stored."""
    begun = created.unfinished
    assert begun is not None
    accepted, judged_at_ms = unpack_verdicts(created.note, len(items))
    places = [place for place, each in enumerate(accepted) if each]
    now_ms = judged_at_ms or created_at_ms(begun.schedule_ids[0])
    judged = await judge([items[place] for place in places], now_ms=now_ms, places=places)
    requests = [each for each in judged if not isinstance(each, RefusedBody)]
    if len(requests) < len(begun.verdicts):
        return created
    return await schedules.finish(account_id, requests, once, begun)


async def _accepted(schedule_ids: Sequence[str], due_ms: Sequence[int]) -> list[AcceptedBody]:
    found, pause = list[AcceptedBody](), Pause()
    for start in range(0, len(schedule_ids), _AT_ONCE):
        those = slice(start, start + _AT_ONCE)
        at = {each_ms: format_iso8601(each_ms) for each_ms in set(due_ms[those])}
        found += [
            AcceptedBody(schedule_id, invocation_id(schedule_id), at[each_ms])
            for schedule_id, each_ms in zip(schedule_ids[those], due_ms[those], strict=False)
        ]
        if pause.is_due:
            await pause.take()
    return found


def _answers(
    refusals: Sequence[RefusedBody | None], accepted: list[AcceptedBody], rest: RefusedBody
) -> list[Any]:
    """The ids, and when each is due, go to the accepted items in order; those that they do not
    reach are refused."""
    if len(accepted) == len(refusals):
        return accepted
    stored = iter(accepted)
    return [refusal or next(stored, rest) for refusal in refusals]


def _placed(
    refusals: Sequence[RefusedBody | None], placed: Sequence[Placed]
) -> Iterator[AcceptedBody | RefusedBody]:
    """The same where items may mean schedules that wait: each has a verdict of its own."""
    each = iter(placed)
    for refusal in refusals:
        yield refusal or _placed_body(next(each))


def _placed_body(placed: Placed) -> AcceptedBody | RefusedBody:
    if placed.verdict == Verdict.EXISTING:
        return existing_body(placed)
    if placed.verdict == Verdict.DONE:
        trigger_at = format_iso8601(placed.due_ms)
        return AcceptedBody(placed.schedule_id, invocation_id(placed.schedule_id), trigger_at)
    if placed.verdict == Verdict.LATER:
        return _REST[Verdict.LATER]
    return _refused(refusal_of(placed))


def pack_verdicts(accepted: Sequence[bool], judged_at_ms: int) -> bytes:
    """Which items of a batch were accepted, and when: the moment in 6 bytes and a bit for each, in
    order; nothing at all if all were. Kept with its Idempotency-Key: a repeat that judged anew, at
    another moment and by other settings, could give an item's id to its neighbour."""
    if all(accepted):
        return b""
    bits = sum(1 << place for place, each in enumerate(accepted) if each)
    size_bytes = (len(accepted) + 7) // 8
    return judged_at_ms.to_bytes(_MOMENT_BYTES, "big") + bits.to_bytes(size_bytes, "little")


def unpack_verdicts(packed: bytes, count: int) -> tuple[list[bool], int | None]:
    """The verdicts on `count` items, and when they were judged; None if all were accepted."""
    if not packed:
        return [True] * count, None
    bits = int.from_bytes(packed[_MOMENT_BYTES:], "little")
    accepted = [bool(bits >> place & 1) for place in range(count)]
    return accepted, int.from_bytes(packed[:_MOMENT_BYTES], "big")


HANDLERS = [create_schedules]
