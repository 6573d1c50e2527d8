"""/v2/messages: messages that wait, are being sent or were just delivered, read and cancelled."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterable, Mapping
from typing import Any

from api.answer import JsonResponse
from api.limits import MAX_ITEMS
from api.qstash.calls import QStashCall, Refused, Route
from api.qstash.filters import NUMBERS, PARTS, asked
from api.qstash.flow_control import flow_value
from api.recurring_times import follow
from scheduler.callbacks import Callback
from scheduler.errors import NotFound, Reason, TooManyScans
from scheduler.events import Kind
from scheduler.masks import masked, masked_url
from scheduler.models import Request, Schedule, Status
from scheduler.qstash import names
from scheduler.qstash.carried import opened
from scheduler.qstash.redacted import redacted
from scheduler.qstash.sent import USER_AGENT
from scheduler.schema import LONGEST_TIMEOUT_S

_KNOWN = {*PARTS, *NUMBERS} - {"responseStatus"}
# A message can be read for so long after its end.
_SHOWN_MS = 10_000
# Of one call without a count.
_MOST_CANCELLED = 10_000
# Before each try. Of those that are being sent most end soon, or wait for a retry then.
_WAITS_S = (0.0, 0.05, 0.1, 0.2, 0.4)
_STARTED = Reason.ALREADY_STARTED


async def get_message(call: QStashCall) -> JsonResponse:
    try:
        found = await call.store.schedules.get(
            call.account_id, names.schedule_id(call.parts[0]) or ""
        )
    except NotFound:
        raise _unknown() from None
    ended_ms = 0 if found.status is Status.CANCELLED or found.stopped else found.ended_at_ms
    if ended_ms is not None and ended_ms + _SHOWN_MS < call.store.clock.now_ms():
        raise _unknown()
    return JsonResponse(200, message_of(found))


async def cancel_message(call: QStashCall) -> JsonResponse:
    """One that is being sent goes on: of that 0 are cancelled."""
    count, held = await _cancel(call, [names.schedule_id(call.parts[0])])
    if not count and not held:
        raise _unknown()
    return JsonResponse(200, {"cancelled": count})


async def cancel_messages(call: QStashCall) -> JsonResponse:
    """By ids, or by filters: then at most `count`, or 10,000, and fewer where the account's budget
    of searches ends before. The caller goes on until 0 are cancelled."""
    what = asked(call, _KNOWN, "messageIds")
    most, cursor = what.numbers.get("count", _MOST_CANCELLED), what.cursor
    count, _ = await _cancel(call, map(names.schedule_id, what.ids or ()))
    while what.ids is None and count < most:
        limit = min(most - count, MAX_ITEMS)
        selected = what.selection(limit=limit, cursor=cursor, others=True)
        try:
            page = await call.store.unended.page(call.account_id, selected)
        except TooManyScans:
            if not count:
                raise
            break
        some, _ = await _cancel(call, [each.schedule_id for each in page.schedules])
        count, cursor = count + some, page.next_cursor
        if cursor is None:
            break
    if count:
        await call.native.note(Kind.BULK, f"{count:,} cancelled")
    return JsonResponse(200, {"cancelled": count})


async def _cancel(call: QStashCall, schedule_ids: Iterable[str | None]) -> tuple[int, int]:
    """How many were cancelled, and how many are still being sent."""
    count, left = 0, [each for each in dict.fromkeys(schedule_ids) if each]
    for wait_s in _WAITS_S:
        if left:
            await asyncio.sleep(wait_s)
            done = await call.store.canceller.by_id(call.account_id, left)
            done = await follow(call.store, call.account_id, done)
            count += sum(not (each.refusal or each.repeated) for each in done.each)
            held = (each for each in done.each if each.refusal and each.refusal.reason is _STARTED)
            left = [each.schedule_id for each in held]
    return count, len(left)


def _unknown() -> Refused:
    return Refused(404, "There is no such message, or it has ended")


def message_of(schedule: Schedule) -> dict[str, Any]:
    request = schedule.request
    return {
        "messageId": names.message_id(schedule.schedule_id),
        "url": masked_url(request.url),
        "maxRetries": request.retries,
        "notBefore": request.trigger_at_ms,
        "createdAt": schedule.created_at_ms,
        **request_fields(request),
    }


def request_fields(request: Request) -> dict[str, Any]:
    """What messages, dead letters, schedules and events show alike. What the message redacts does
    not show, and values that look like secrets are masked. None has no member."""
    carried, callback = opened(request.door), request.callback or Callback("")
    request, ways = redacted(request, carried), (carried.callback, carried.failure_callback)
    sent = dict(request.headers)
    if sent.get("user-agent") == USER_AGENT:
        del sent["user-agent"]
    fields: dict[str, Any] = {
        "method": request.method,
        "header": lists_of(sent),
        "callback": masked_url(callback.url or ""),
        "failureCallback": masked_url(callback.failure_url or ""),
        "callbackHeader": ways[0] and lists_of(ways[0].headers),
        "failureCallbackHeader": ways[1] and lists_of(ways[1].headers),
        "retryDelayExpression": carried.retry_delay,
        "timeout": request.timeout_s if request.timeout_s != LONGEST_TIMEOUT_S else None,
        "queueName": names.queue_of(request.lane),
        "label": request.labels[0] if request.labels else None,
        "labels": request.labels,
        "callerIP": carried.caller_ip,
        "scheduleId": names.schedule_id_of(request.recurring_id, carried.schedule_id),
        **text_or_base64("body", request.body),
    }
    if (key := names.flow_key_of(request.lane)) is not None:
        value = flow_value(carried.flow_value)
        fields |= {"flowControlKey": key, "parallelism": value.parallelism, "rate": value.rate}
        fields["period"] = value.period_ms // 1000
    return {name: value for name, value in fields.items() if value}


def text_or_base64(name: str, value: bytes | None) -> dict[str, str]:
    """A body as a member of this name; as one with `Base64` behind it, if it is no text."""
    try:
        return {name: (value or b"").decode()}
    except UnicodeDecodeError:
        return {f"{name}Base64": base64.b64encode(value or b"").decode()}


def lists_of(headers: Mapping[str, str]) -> dict[str, list[str]]:
    return {names.canonical(name): [value] for name, value in masked(dict(headers)).items()}


ROUTES = (
    Route("GET", "/v2/messages/{messageId}", get_message),
    Route("DELETE", "/v2/messages/{messageId}", cancel_message),
    Route("DELETE", "/v2/messages", cancel_messages),
)
