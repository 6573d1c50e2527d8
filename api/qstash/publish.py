"""/v2/publish, /v2/enqueue and /v2/batch: messages, which are schedules with a `door`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import unquote

import msgspec

from api.answer import JsonResponse
from api.calls.schedule import rate_noted
from api.limits import MAX_ITEMS
from api.qstash.calls import QStashCall, Refused, Route
from api.qstash.headers import NOT_OFFERED, Published, published
from api.reading import connection_of
from api.schema.findings import invalid
from api.schema.incremental_json import LARGE_BYTES, ListInPieces, check_utf8
from api.schema.json_text import List, Object, Part
from scheduler.callers import KnownKey
from scheduler.errors import FieldError, InsufficientCredits, InvalidRequest, PostdateError
from scheduler.models import Idempotency, Request
from scheduler.qstash.names import message_id
from scheduler.runtime.pause import Pause
from scheduler.store.lifecycle.create.results import CreateResult
from scheduler.store.verdict import SENTENCES, Verdict

_SCHEME = re.compile(r"https?(:|%3a)(/|%2f)", re.IGNORECASE)
_ITEMS = List(MAX_ITEMS)
_LARGE = ListInPieces("messages", _ITEMS, Object(["messages"]))
_TOO_FEW_OR_MANY = f"It must be a list of 1 to {MAX_ITEMS:,} messages."


class _Item(msgspec.Struct):
    destination: str
    headers: dict[str, str | list[str]] = {}
    body: str | None = None
    queue: str | None = None


_decode = msgspec.json.Decoder(_Item).decode


def destination_of(call: QStashCall) -> str:
    """The rest of the path and the query, as they were sent; a wholly escaped URL is unescaped.
    Raises Refused for what is no URL."""
    rest = _url(call.parts[-1])
    query = call.scope["query_string"].decode("latin-1")
    return f"{rest}{'&' if '?' in rest else '?'}{query}" if query else rest


def _url(text: str) -> str:
    begin = _SCHEME.match(text)
    if begin is None and "://" not in text:
        what = f"Destinations such as {text[:20]}" if text.startswith("api/") else "URL groups"
        raise Refused(501, NOT_OFFERED.format(what))
    return unquote(text) if begin and "%" in begin[0] else text


async def publish(call: QStashCall) -> JsonResponse:
    """POST /v2/publish/{url} and /v2/enqueue/{queue}/{url}."""
    message = message_of(call)
    await keep_limits(call, [message])
    created = await call.store.schedules.create_all(
        call.account_id, [message.request], message.once
    )
    return _answer(call, message, created)


async def publish_at_once(call: QStashCall, key: KnownKey) -> JsonResponse | None:
    """In one call of the store, which judges the key too. None, and nothing was changed, if the key
    or the message is refused, or its lane is to be looked at first."""
    try:
        message = message_of(call)
    except (PostdateError, Refused):
        return None
    if message.limits is not None:
        return None
    store = call.store
    created = await store.schedules.create_by_key(
        key,
        message.request,
        message.once,
        store.clock.now_ms(),
        rate_noted(store, call.scope, key),
    )
    if created is None:
        store.api_keys.forget(key)
        return None
    return _answer(call, message, created)


def _answer(call: QStashCall, message: Published, created: CreateResult) -> JsonResponse:
    if (connection := connection_of(call.scope)) is not None:
        connection.remember_message(call.scope, message)
    return JsonResponse(200, _said(created.schedule_ids[0], created))


def message_of(call: QStashCall) -> Published:
    queue = call.parts[0] if len(call.parts) > 1 else ""
    return published(call, destination_of(call), call.headers, call.body, queue=queue)


async def keep_limits(call: QStashCall, messages: Sequence[Published]) -> None:
    """Gives their lanes the limits that they ask for, once each: the last one counts. Safe to
    repeat; a process that dies before the messages are stored leaves the limits."""
    limits = {each.request.lane: each.limits for each in messages if each.limits is not None}
    for lane, change in limits.items():
        assert lane is not None
        await call.store.lanes.change(call.account_id, lane, change)


async def batch(call: QStashCall) -> JsonResponse:
    """One bad message refuses all. The answers are in order; one that is not stored, because the
    credits do not reach for it, has an error."""
    messages = await _messages(call)
    await keep_limits(call, messages)
    plain = [each.request for each in messages if each.once is None]
    those_once = [each for each in messages if each.once is not None]
    calls = [_created(call, plain, None)] if plain else []
    calls += [_created(call, [each.request], each.once) for each in those_once]
    created = await asyncio.gather(*calls)
    if not any(each.schedule_ids for each in created):
        raise InsufficientCredits
    made = iter(created)
    of_plain = _said_of(next(made)) if plain else iter(())
    answers = [next(of_plain if each.once is None else _said_of(next(made))) for each in messages]
    return JsonResponse(200, answers)


async def _created(
    call: QStashCall, requests: list[Request], once: Idempotency | None
) -> CreateResult:
    """Nothing at all if there are no credits: of the other messages some may be stored."""
    try:
        return await call.store.schedules.create_all(call.account_id, requests, once)
    except InsufficientCredits:
        return CreateResult([])


def _said_of(created: CreateResult) -> Iterator[dict[str, Any]]:
    """Of each message in turn, endlessly."""
    for schedule_id in created.schedule_ids:
        yield _said(schedule_id, created)
    while True:
        yield {"error": SENTENCES[Verdict(created.rest)]}


async def _messages(call: QStashCall) -> list[Published]:
    found, pause = list[Published](), Pause()
    for place, item in enumerate(await _items(call.body)):
        found.append(_message(call, place, bytes(item)))
        if pause.is_due:
            await pause.take()
    return found


async def _items(data: bytes) -> list[Part]:
    items: list[Part] = []
    if len(data) >= LARGE_BYTES:
        await check_utf8(data)
        items = await _LARGE.elements(b'{"messages":%b}' % data)
    items = items or _ITEMS.elements(data)
    if not 1 <= len(items) <= MAX_ITEMS:
        raise invalid([FieldError("body", _TOO_FEW_OR_MANY)])
    return items


def _message(call: QStashCall, place: int, text: bytes) -> Published:
    try:
        item = _decode(text)
    except msgspec.MsgspecError as error:
        raise invalid([FieldError(f"[{place}]", f"It is no message: {error}.")]) from None
    headers = [
        (name, each)
        for name, value in item.headers.items()
        for each in (value if isinstance(value, list) else [value])
    ]
    body = None if item.body is None else item.body.encode()
    try:
        url = _url(item.destination)
        return published(call, url, headers, body, queue=item.queue or "")
    except InvalidRequest as refusal:
        detail = refusal.details[0]
        name = f"[{place}].{detail.field}"
        raise invalid([FieldError(name, detail.message)]) from None


def _said(schedule_id: str, created: CreateResult) -> dict[str, Any]:
    said: dict[str, Any] = {"messageId": message_id(schedule_id)}
    return said | {"deduplicated": True} if created.repeated else said


ROUTES = (
    Route("POST", "/v2/publish/{url}", publish),
    Route("POST", "/v2/enqueue/{queue}/{url}", publish),
    Route("POST", "/v2/batch", batch),
)
