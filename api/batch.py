"""POST /schedule/batch."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from litestar import post

from api.answer import Answer
from api.auth import call_of
from api.bodies import AcceptedBody, BatchBody, RefusedBody
from api.fields import Rules
from api.findings import Findings, invalid, shown
from api.json_text import List, Object
from api.once import REPLAYED, idempotency, made_at_ms
from api.payload import parse_request
from api.reading import read_body
from api.service import HttpRequest
from scheduler.errors import FieldError, InsufficientCredits, InvalidRequest
from scheduler.ids import invocation_id
from scheduler.models import Idempotency, Request
from scheduler.store.schedules.schedules import Created, Schedules

MAX_ITEMS = 1000

# So much is judged at a time; then other requests have their turn.
_AT_ONCE_BYTES = 64 * 1024
_BATCH, _ITEMS = Object(["schedules"]), List(MAX_ITEMS)
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
    call, scope = await call_of(request), request.scope
    service, account_id = call.service, call.account_id
    data = await read_body(scope, request.receive, service.settings.max_batch_bytes)
    once = idempotency(scope, data)
    schedules, now_ms = service.store.schedules, service.store.clock.now_ms()
    before = await schedules.created_before(account_id, once) if once else None
    if before:
        # What the passing of time makes of an item is judged as it was then.
        now_ms = made_at_ms(before.schedule_ids[0])
    judged = await _judged(parse_batch(data), service.rules, now_ms)
    created = before or await _created(schedules, account_id, judged, once)
    body = BatchBody(list(_answers(judged, created.schedule_ids)))
    return Answer(200, body, REPLAYED if created.replayed else None)


def parse_batch(data: bytes) -> list[bytes]:
    """The items of a batch, each still JSON. Raises InvalidRequest."""
    findings = Findings()
    given = _BATCH.members(data)
    for name in given:
        if name != "schedules":
            findings.add(shown(name), "There is no such field.")
    items = _ITEMS.elements(bytes(given.get("schedules", b"null")))
    if not items:
        findings.add("schedules", f"It must be a list of 1 to {MAX_ITEMS:,} schedules.")
    findings.refuse_if_any()
    return items


async def _judged(items: Sequence[bytes], rules: Rules, now_ms: int) -> list[Judged]:
    judged: list[Judged] = []
    looked_at_bytes = 0
    for place, item in enumerate(items):
        judged.append(_judge(place, item, rules, now_ms))
        looked_at_bytes += len(item)
        if looked_at_bytes >= _AT_ONCE_BYTES:
            looked_at_bytes = 0
            await asyncio.sleep(0)
    return judged


def _judge(place: int, item: bytes, rules: Rules, now_ms: int) -> Judged:
    if len(item) > rules.max_body_bytes:
        message = f"It is larger than {rules.max_body_bytes:,} bytes."
        return invalid([FieldError(f"schedules[{place}]", message)])
    try:
        return parse_request(item, rules, now_ms)
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
