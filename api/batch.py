"""POST /schedule/batch."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence

import msgspec
from litestar import post

from api.answer import Answer
from api.auth import authenticate
from api.body import read_body
from api.errors import invalid, shown
from api.fields import Rules
from api.once import REPLAYED, idempotency, made_at_ms
from api.payload import malformed, parse_request
from api.schemas import AcceptedBody, BatchBody, RefusedBody
from api.service import HttpRequest, service_of
from scheduler.errors import FieldError, InsufficientCredits, InvalidRequest
from scheduler.ids import invocation_id
from scheduler.models import Idempotency, Request
from scheduler.store.schedules.schedules import Created, Schedules

MAX_ITEMS = 1000

# So many are judged at a time; then other requests have their turn.
_AT_ONCE = 100
_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_items = msgspec.json.Decoder(list[msgspec.Raw]).decode
_UNPAID = RefusedBody(402, str(InsufficientCredits()), [])

Judged = Request | InvalidRequest


@post(
    "/schedule/batch",
    operation_id="createSchedules",
    summary="Schedule many requests",
    status_code=200,
)
async def create_schedules(request: HttpRequest) -> Answer:
    """Stores up to 1,000 requests in one step, one credit each. Each item is answered on its own,
    in order: those that break a rule with 400, those that the credits do not reach with 402, and
    neither keeps the others from being stored. Counts as one request against the rate limit."""
    service, scope = service_of(request), request.scope
    caller = await authenticate(service, scope)
    data = await read_body(scope, request.receive, service.settings.max_batch_bytes)
    once = idempotency(scope, data)
    schedules, now_ms = service.store.schedules, service.store.clock.now_ms()
    before = await schedules.created_before(caller.account_id, once) if once else None
    if before:
        # What the passing of time makes of an item is judged as it was then.
        now_ms = made_at_ms(before.schedule_ids[0])
    judged = await _judged(parse_batch(data), service.rules, now_ms)
    created = before or await _created(schedules, caller.account_id, judged, once)
    body = BatchBody(list(_answers(judged, created.schedule_ids)))
    return Answer(200, body, REPLAYED if created.replayed else None)


def parse_batch(data: bytes) -> list[msgspec.Raw]:
    """The items of a batch, each still JSON. Raises InvalidRequest."""
    try:
        data.decode()  # a Raw value is checked for everything but its UTF-8
        given = _decode(data)
    except msgspec.ValidationError:
        raise invalid([FieldError("body", "It must be a JSON object.")]) from None
    except (ValueError, RecursionError) as error:
        raise malformed(error) from None
    found = [FieldError(shown(n), "There is no such field.") for n in given if n != "schedules"]
    items: list[msgspec.Raw] = []
    with contextlib.suppress(msgspec.ValidationError):  # no list: as good as an empty one
        items = _decode_items(given.get("schedules", b"null"))
    if not 1 <= len(items) <= MAX_ITEMS:
        found.append(FieldError("schedules", f"It must be a list of 1 to {MAX_ITEMS:,} schedules."))
    if found:
        raise invalid(found)
    return items


async def _judged(items: Sequence[msgspec.Raw], rules: Rules, now_ms: int) -> list[Judged]:
    judged: list[Judged] = []
    for start in range(0, len(items), _AT_ONCE):
        judged += [_judge(item, rules, now_ms) for item in items[start : start + _AT_ONCE]]
        await asyncio.sleep(0)
    return judged


def _judge(item: msgspec.Raw, rules: Rules, now_ms: int) -> Judged:
    try:
        return parse_request(bytes(item), rules, now_ms)
    except InvalidRequest as refusal:
        return refusal


async def _created(
    schedules: Schedules, account_id: str, judged: list[Judged], once: Idempotency | None
) -> Created:
    """What is stored of a batch; nothing, if nothing can be."""
    requests = [each for each in judged if isinstance(each, Request)]
    if not requests:
        return Created([])
    try:
        return await schedules.create_all(account_id, requests, once)
    except InsufficientCredits:
        return Created([])


def _answers(judged: list[Judged], schedule_ids: list[str]) -> Iterator[AcceptedBody | RefusedBody]:
    """The ids go to the valid items in order; those that they do not reach are unpaid."""
    ids = iter(schedule_ids)
    for each in judged:
        if isinstance(each, InvalidRequest):
            yield RefusedBody(400, str(each), each.details)
        elif (schedule_id := next(ids, None)) is not None:
            yield AcceptedBody(schedule_id, invocation_id(schedule_id))
        else:
            yield _UNPAID
