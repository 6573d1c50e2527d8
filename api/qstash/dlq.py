"""/v2/dlq: dead letters that this door made, read, let go and tried again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from api.answer import JsonResponse
from api.qstash.calls import QStashCall, Refused, Route
from api.qstash.filters import PARTS, asked
from api.qstash.messages import lists_of, message_of, text_or_base64
from api.schema.payload import AS_IT_WAS
from scheduler.events import Kind
from scheduler.models import Schedule
from scheduler.qstash import names
from scheduler.runtime.pause import collected
from scheduler.store.verdict import Verdict, refusal

_FILTERS = PARTS.keys() - {"host", "path"} | {"messageId"}
_NUMBERS = ("count", "fromDate", "toDate", "responseStatus")
_USUAL = 100
# Of bodies that an answer has by ids. A page of the list has such a bound, too.
_MOST_BYTES = 4 * 1024 * 1024
_REFUSED = (Verdict.UNPAID, Verdict.NO_ROOM, Verdict.TOO_MANY_LANES)


async def get_letter(call: QStashCall) -> JsonResponse:
    return JsonResponse(200, _shown(await _letter(call)))


async def list_letters(call: QStashCall) -> JsonResponse:
    """The newest ones first. A page may be short before the end, which has no cursor."""
    found, size, next_cursor = list[Schedule](), 0, None
    async for page in _meant(call):
        letters, next_cursor = page
        size += sum(len(each.request.body or b"") for each in letters)
        if found and size > _MOST_BYTES:
            raise Refused(413, f"dlqIds: their bodies are over {_MOST_BYTES:,} bytes; name fewer")
        found += letters
    return _answer("messages", await collected(map(_shown, found)), next_cursor)


async def delete_letter(call: QStashCall) -> JsonResponse:
    if not any(await call.store.letters.forget(call.account_id, [await _letter(call)])):
        raise _unknown()
    return JsonResponse(200, {"deleted": 1})


async def delete_letters(call: QStashCall) -> JsonResponse:
    """The schedules are kept as long as others that have ended, and can be read natively."""
    count, next_cursor = 0, None
    async for page in _meant(call):
        letters, next_cursor = page
        count += sum(await call.store.letters.forget(call.account_id, letters))
    if count:
        await call.native.note(Kind.BULK, f"{count:,} dead letters deleted")
    return _answer("deleted", count, next_cursor)


async def retry_letters(call: QStashCall) -> JsonResponse:
    """Each becomes a new message, due now, and is a dead letter no more."""
    store, made, next_cursor = call.store, list[dict[str, str]](), None
    remade = partial(AS_IT_WAS.of_replay, now_ms=store.clock.now_ms())
    most_bytes = call.service.settings.max_batch_bytes
    async for page in _meant(call):
        letters, next_cursor = page
        named = [each.schedule_id for each in letters]
        done = await store.schedules.replay_all(
            call.account_id, named, remade, most_bytes=most_bytes
        )
        for each in done.each:
            if each.schedule_id is not None:
                made.append({"messageId": names.message_id(each.schedule_id)})
            elif not made and each.verdict in _REFUSED:
                raise refusal(each.original, each.verdict)
    if made:
        await call.native.note(Kind.BULK, f"{len(made):,} run again")
    return _answer("responses", made, next_cursor)


async def _meant(call: QStashCall) -> AsyncIterator[tuple[list[Schedule], str | None]]:
    """Dead letters by ids, a few at a time; or a page by filters, and the cursor behind it."""
    what, store = asked(call, "dlqIds", _FILTERS, _NUMBERS), call.store
    if what.ids is None and "messageId" not in what.texts:
        selected = what.selection(what.numbers.get("count", _USUAL), what.cursor, ended=True)
        page = await store.failed.page(call.account_id, selected, descending=True)
        yield page.schedules, page.next_cursor
        return
    named = [names.schedule_of_dlq(each) for each in what.ids or ()]
    named += map(names.schedule_id, what.texts.get("messageId", ()))
    async for letters in store.letters.among(call.account_id, [each for each in named if each]):
        yield [each for each in letters if what.ids is not None or what.wants(each)], None


async def _letter(call: QStashCall) -> Schedule:
    named = [each for each in [names.schedule_of_dlq(call.parts[0])] if each]
    async for letters in call.store.letters.among(call.account_id, named):
        for each in letters:
            return each
    raise _unknown()


def _unknown() -> Refused:
    return Refused(404, "There is no such message in the DLQ")


def _answer(name: str, value: object, next_cursor: str | None) -> JsonResponse:
    cursor = {"cursor": next_cursor} if next_cursor else {}
    return JsonResponse(200, {name: value, **cursor})


def _shown(letter: Schedule) -> dict[str, Any]:
    outcome, fields = letter.outcome, message_of(letter)
    fields["dlqId"] = names.dlq_id(letter.schedule_id)
    fields["responseStatus"] = outcome.status_code if outcome else 0
    if outcome is not None and outcome.answer is not None:
        kind = outcome.answer.content_type
        fields["responseHeader"] = lists_of({"Content-Type": kind} if kind else {})
        fields |= text_or_base64("responseBody", outcome.answer.body)
    return fields


ROUTES = (
    Route("GET", "/v2/dlq", list_letters),
    Route("DELETE", "/v2/dlq", delete_letters),
    Route("POST", "/v2/dlq/retry", retry_letters),
    Route("GET", "/v2/dlq/{dlqId}", get_letter),
    Route("DELETE", "/v2/dlq/{dlqId}", delete_letter),
)
