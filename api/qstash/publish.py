"""/v2/publish, /v2/enqueue and /v2/batch: messages, which are schedules with a `door`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from functools import partial
from itertools import chain, islice
from typing import Any
from urllib.parse import unquote

import msgspec

from api.answer import JsonResponse
from api.calls.schedule import rate_noted
from api.limits import MAX_HEAD_LINES, MAX_ITEMS
from api.qstash.calls import QStashCall, Refused, Route, not_offered
from api.qstash.fast_path import KnownMessage
from api.qstash.headers import Published, published
from api.reading import BodyTooLarge, connection_of
from api.schema.findings import invalid
from api.schema.incremental_json import LARGE_BYTES, ListInPieces, check_utf8
from api.schema.json_text import List, Object, Part
from scheduler.callers import KnownKey
from scheduler.errors import (
    FieldError,
    InsufficientCredits,
    InvalidRequest,
    PostdateError,
    QuotaExceeded,
    TooManyLanes,
    anew,
)
from scheduler.qstash.names import message_id
from scheduler.runtime.pause import Pause
from scheduler.store.lifecycle.create.results import CreateResult
from scheduler.store.verdict import Verdict, refusal

_SCHEME = re.compile(r"https?(:|%3a)(/|%2f)", re.IGNORECASE)
_ITEMS = List(MAX_ITEMS)
_LARGE = ListInPieces("messages", _ITEMS, Object(["messages"]))
# Calls of the store, which packs all their bodies in one go.
_AT_ONCE = 16
_TOO_FEW_OR_MANY = f"It must be a list of 1 to {MAX_ITEMS:,} messages."


class _Item(msgspec.Struct):
    destination: str
    headers: dict[str, str | list[str]] = {}
    body: str | None = None
    queue: str | None = None


# The answer to one message of many, or why it was not stored.
_Said = dict[str, Any] | PostdateError
_decode = msgspec.json.Decoder(_Item).decode


def destination_of(call: QStashCall) -> str:
    """The rest of the path and the query, as they were sent; a wholly escaped URL is unescaped.
    Raises Refused for what is no URL."""
    rest = _url(call.parts[-1])
    query = call.scope["query_string"].decode(errors="replace")
    return f"{rest}{'&' if '?' in rest else '?'}{query}" if query else rest


def _url(text: str) -> str:
    begin = _SCHEME.match(text)
    if begin is None and "://" not in text:
        is_api = text.startswith("api/")
        raise not_offered(f"Destinations such as {text[:20]}" if is_api else "URL groups")
    return unquote(text) if begin and "%" in begin[0] else text


async def publish(call: QStashCall) -> JsonResponse:
    """POST /v2/publish/{url} and /v2/enqueue/{queue}/{url}."""
    message = _message_of(call)
    await keep_limits(call, [message])
    created = await call.store.schedules.create_all(
        call.account_id, [message.request], message.once
    )
    return _answer(call, message, created)


async def publish_at_once(call: QStashCall, key: KnownKey) -> JsonResponse | None:
    """In one call of the store, which judges the key too. None, and nothing was changed, if the key
    or the message is refused, or its lane is to be looked at first."""
    store = call.store
    try:
        message = _message_of(call)
    except (PostdateError, Refused):
        return None
    if message.limits is not None:
        return None
    on_rate = rate_noted(store, call.scope, key)
    created = await store.schedules.create_by_key(
        key, message.request, message.once, store.clock.now_ms(), on_rate
    )
    if created is None:
        store.api_keys.forget(key)
        return None
    return _answer(call, message, created)


def _message_of(call: QStashCall) -> Published:
    queue = call.parts[0] if len(call.parts) > 1 else ""
    return published(call, destination_of(call), call.headers, call.body, queue=queue)


def _answer(call: QStashCall, message: Published, created: CreateResult) -> JsonResponse:
    is_of_one = message.once is not None or message.limits is not None
    if not is_of_one and (connection := connection_of(call.scope)) is not None:
        make = partial(KnownMessage, published=message)
        connection.remember_head(call.scope, KnownMessage, make)
    return JsonResponse(200, _said(created.schedule_ids[0], created))


async def keep_limits(call: QStashCall, messages: Sequence[Published]) -> None:
    """Gives their lanes the limits that they ask for, once each: the last one counts. Safe to
    repeat; a process that dies before the messages are stored leaves the limits."""
    limits = {each.request.lane: each.limits for each in messages if each.limits is not None}
    for lane, change in limits.items():
        assert lane is not None
        await call.store.lanes.change(call.account_id, lane, change)


async def batch(call: QStashCall) -> JsonResponse:
    """One bad message refuses all. The answers are in order; one that is not stored, because the
    credits do not reach for it or it has no room, has an error."""
    messages = await _messages(call)
    await keep_limits(call, messages)
    plain = [place for place, each in enumerate(messages) if each.once is None]
    groups = [plain] if plain else []
    groups += [[place] for place, each in enumerate(messages) if each.once is not None]
    answers = dict[int, _Said]()
    for start in range(0, len(groups), _AT_ONCE):
        some = groups[start : start + _AT_ONCE]
        calls = (_stored(call, [messages[place] for place in group]) for group in some)
        for group, stored in zip(some, await asyncio.gather(*calls), strict=True):
            answers.update(zip(group, stored, strict=True))
    refusals = {place: each for place, each in answers.items() if isinstance(each, PostdateError)}
    if len(refusals) == len(messages):
        raise anew(refusals[0])
    told = answers | {place: {"error": str(each)} for place, each in refusals.items()}
    return JsonResponse(200, [told[place] for place in range(len(messages))])


async def _stored(call: QStashCall, messages: Sequence[Published]) -> list[_Said]:
    requests, count = [each.request for each in messages], len(messages)
    try:
        done = await call.store.schedules.create_all(call.account_id, requests, messages[0].once)
    except (InsufficientCredits, QuotaExceeded, TooManyLanes) as error:
        return [error] * count
    said: list[_Said] = [_said(each, done) for each in done.schedule_ids]
    return said + [refusal("", Verdict(done.rest))] * (count - len(said))


async def _messages(call: QStashCall) -> list[Published]:
    found, pause = list[Published](), Pause()
    for place, item in enumerate(await _items(call.body)):
        try:
            found.append(_message(call, bytes(item)))
        except (InvalidRequest, BodyTooLarge) as refusal:
            of_body = [FieldError("body", f"{refusal}.")]
            [fault, *_] = refusal.details if isinstance(refusal, InvalidRequest) else of_body
            name = f"[{place}].{fault.field}".removesuffix(".")
            raise invalid([FieldError(name, fault.message)]) from None
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


def _message(call: QStashCall, text: bytes) -> Published:
    try:
        item = _decode(text)
    except msgspec.MsgspecError as error:
        raise invalid([FieldError("", f"It is no message: {error}.")]) from None
    each = ((name, [v] if isinstance(v, str) else v) for name, v in item.headers.items())
    lines = ((name, text) for name, texts in each for text in texts)
    headers, most_bytes = [*islice(lines, MAX_HEAD_LINES + 1)], call.service.settings.max_head_bytes
    if len(headers) > MAX_HEAD_LINES or sum(map(len, chain(*headers))) > most_bytes:
        message = f"They may have {MAX_HEAD_LINES} lines, and {most_bytes:,} characters in all."
        raise invalid([FieldError("headers", message)])
    body = None if item.body is None else item.body.encode()
    return published(call, _url(item.destination), headers, body, queue=item.queue or "")


def _said(schedule_id: str, created: CreateResult) -> dict[str, Any]:
    said: dict[str, Any] = {"messageId": message_id(schedule_id)}
    return said | {"deduplicated": True} if created.repeated else said


ROUTES = (
    Route("POST", "/v2/publish/{url}", publish),
    Route("POST", "/v2/enqueue/{queue}/{url}", publish),
    Route("POST", "/v2/batch", batch),
)
