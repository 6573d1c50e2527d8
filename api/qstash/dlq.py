"""/v2/dlq: dead letters that this door made, read, let go and tried again."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from api.answer import JsonResponse
from api.qstash.calls import QStashCall, Refused, Route
from api.qstash.filters import NUMBERS, PARTS, asked, page_answer
from api.qstash.messages import lists_of, message_of, text_or_base64
from api.schema.payload import AS_IT_WAS
from scheduler.events import Kind
from scheduler.models import Schedule
from scheduler.qstash import names
from scheduler.runtime.pause import collected
from scheduler.store.verdict import Verdict, refusal

_KNOWN = {*PARTS, *NUMBERS, "messageId"} - {"host", "path"}
_USUAL = 100
# By ids; as much as a page by filters has.
_MOST_SHOWN_BYTES = 4 * 1024 * 1024
_REFUSED = (Verdict.UNPAID, Verdict.NO_ROOM, Verdict.TOO_MANY_LANES)


async def get_letter(call: QStashCall) -> JsonResponse:
    return JsonResponse(200, _shown(await _letter(call)))


async def list_letters(call: QStashCall) -> JsonResponse:
    """The newest ones first. A page may be short before the end, which has no cursor."""
    letters, next_cursor = await _meant(call, _MOST_SHOWN_BYTES)
    return page_answer("messages", await collected(map(_shown, letters)), next_cursor)


async def delete_letter(call: QStashCall) -> JsonResponse:
    if not any(await call.store.letters.forget(call.account_id, [await _letter(call)])):
        raise _unknown()
    return JsonResponse(200, {"deleted": 1})


async def delete_letters(call: QStashCall) -> JsonResponse:
    """The schedules are kept as long as others that have ended, and can be read natively."""
    letters, next_cursor = await _meant(call)
    count = sum(await call.store.letters.forget(call.account_id, letters))
    if count:
        await call.native.note(Kind.BULK, f"{count:,} dead letters deleted")
    return page_answer("deleted", count, next_cursor)


async def retry_letters(call: QStashCall) -> JsonResponse:
    """Each becomes a new message, due now, and is a dead letter no more."""
    letters, next_cursor = await _meant(call)
    remade = partial(AS_IT_WAS.of_replay, now_ms=call.store.clock.now_ms())
    named = [each.schedule_id for each in letters]
    most_bytes = call.service.settings.max_batch_bytes
    done = await call.store.schedules.replay_all(
        call.account_id, named, remade, most_bytes=most_bytes
    )
    made = [names.message_id(each.schedule_id) for each in done.each if each.schedule_id]
    refused = [each for each in done.each if each.verdict in _REFUSED]
    if refused and not made:
        raise refusal(refused[0].original, refused[0].verdict)
    if made:
        await call.native.note(Kind.BULK, f"{len(made):,} run again")
    return page_answer("responses", [{"messageId": each} for each in made], next_cursor)


async def _meant(call: QStashCall, most_bytes: int = 0) -> tuple[list[Schedule], str | None]:
    """All of those with such ids, or a page by filters, and the cursor behind it."""
    what = asked(call, _KNOWN, "dlqIds")
    if what.ids is not None:
        return await _among(call, map(names.schedule_of_dlq, what.ids), most_bytes), None
    if (ids := what.texts.get("messageId")) is not None:
        found = await _among(call, map(names.schedule_id, ids), most_bytes)
        return [each for each in found if what.wants(each)], None
    limit = what.numbers.get("count", _USUAL)
    selected = what.selection(limit=limit, cursor=what.cursor, **what.period)
    page = await call.store.failed.page(call.account_id, selected, descending=True)
    return page.schedules, page.next_cursor


async def _letter(call: QStashCall) -> Schedule:
    for each in await _among(call, [names.schedule_of_dlq(call.parts[0])]):
        return each
    raise _unknown()


async def _among(
    call: QStashCall, ids: Iterable[str | None], most_bytes: int = 0
) -> list[Schedule]:
    """Without a bound of bytes it is that of a batch."""
    most_bytes = most_bytes or call.service.settings.max_batch_bytes
    return await call.store.letters.among(call.account_id, [*filter(None, ids)], most_bytes)


def _unknown() -> Refused:
    return Refused(404, "There is no such message in the DLQ")


def _shown(letter: Schedule) -> dict[str, Any]:
    outcome, fields = letter.outcome, message_of(letter)
    fields["dlqId"] = names.dlq_id(letter.schedule_id)
    fields["responseStatus"] = outcome.status_code if outcome else 0
    if outcome is not None and (said := outcome.answer) is not None:
        kind = {"Content-Type": said.content_type} if said.content_type else {}
        fields |= {"responseHeader": lists_of(kind), **text_or_base64("responseBody", said.body)}
    return fields


ROUTES = (
    Route("GET", "/v2/dlq", list_letters),
    Route("DELETE", "/v2/dlq", delete_letters),
    Route("POST", "/v2/dlq/retry", retry_letters),
    Route("GET", "/v2/dlq/{dlqId}", get_letter),
    Route("DELETE", "/v2/dlq/{dlqId}", delete_letter),
)
