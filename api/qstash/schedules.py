"""/v2/schedules: the schedules of QStash, which are recurring schedules here."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

from api.answer import JsonResponse
from api.qstash.calls import QStashCall, Refused, Route
from api.qstash.headers import published
from api.qstash.messages import request_fields
from api.qstash.publish import destination_of, keep_limits
from api.qstash.queues import pause_of
from api.recurring_times import search_ahead
from api.schema.recurring_bodies import Shown
from scheduler.durations import format_duration, parse_duration
from scheduler.errors import InvalidRequest, UnknownRecurring
from scheduler.events import Kind
from scheduler.masks import masked_url
from scheduler.qstash.names import new_schedule_id, rule_name, rule_of, schedule_id_of_rule
from scheduler.recurrence.recurrence import Timing, checked
from scheduler.recurrence.recurring import Draft, Rule, kinds_of_change

# The bodies of a list, which is read in pages. An account has at most 10,000 schedules.
_MOST_BYTES, _PAGE = 4 * 1024 * 1024, 50
_TOO_LARGE = "The schedules are too large for one answer; GET /recurring lists them in pages"
_ZONE = re.compile(r"(?:CRON_)?TZ=(\S+)\s+(.+)", re.DOTALL)
_EVERY = "@every "
_NO_ID = "It may have 64 letters, digits, dots, underscores, colons and hyphens."


async def create(call: QStashCall) -> JsonResponse:
    """Creates a schedule, or replaces all of the one with the given id."""
    named, now_ms = dict(call.headers), call.store.clock.now_ms()
    schedule_id = named.get("upstash-schedule-id") or new_schedule_id(now_ms)
    if (name := rule_name(schedule_id)) is None:
        raise Refused(400, f"Upstash-Schedule-Id: {_NO_ID}")
    url = destination_of(call)
    made = published(call, url, call.headers, call.body, schedule_id=schedule_id)
    try:
        timing = checked(_timing(named.get("upstash-cron", ""), made.delay_ms or 0))
        await search_ahead(call.store, call.account_id, timing, now_ms)
        draft = Draft(made.request, timing, name)
        done = await call.store.recurring.put(call.account_id, name, lambda _: draft)
    except (InvalidRequest, ValueError) as error:
        said = error.details[0].message if isinstance(error, InvalidRequest) else error
        raise Refused(400, f"Upstash-Cron: {said}") from None
    await keep_limits(call, [made])
    if not done.unchanged:
        await call.native.note(Kind.RULE_MADE if done.created else Kind.RULE_CHANGED, name)
    return JsonResponse(200, {"scheduleId": schedule_id})


async def list_all(call: QStashCall) -> JsonResponse:
    """Those that were made by such calls, in the order of their creation."""
    found, left_bytes, cursor = list[dict[str, Any]](), _MOST_BYTES, None
    while left_bytes >= 0:
        page = await call.store.recurring.page(call.account_id, limit=_PAGE, cursor=cursor)
        found += [schedule_of(rule) for rule in page.rules if rule.request.door is not None]
        if (cursor := page.next_cursor) is None:
            return JsonResponse(200, found)
        left_bytes -= sum(len(rule.request.body or b"") for rule in page.rules)
    raise Refused(413, _TOO_LARGE)


async def read(call: QStashCall) -> JsonResponse:
    return JsonResponse(200, schedule_of(await _found(call)))


async def delete(call: QStashCall) -> JsonResponse:
    """An occurrence that a worker has is still sent."""
    rule = await _found(call)
    if await call.store.recurring.delete(call.account_id, rule.recurring_id) is not None:
        await call.native.note(Kind.RULE_DELETED, rule.name or rule.recurring_id)
    return JsonResponse(200, {})


async def pause(call: QStashCall) -> JsonResponse:
    """Safe to repeat, as `resume` is."""
    pause = await pause_of(call)
    return await _turned(call, partial(call.store.recurring.pause, pause=pause))


async def resume(call: QStashCall) -> JsonResponse:
    return await _turned(call, call.store.recurring.resume)


async def _turned(call: QStashCall, turn: Callable[[str, str], Awaitable[Rule]]) -> JsonResponse:
    before = await _found(call)
    after = await turn(call.account_id, before.recurring_id)
    for kind in kinds_of_change(before, after):
        await call.native.note(kind, after.name or after.recurring_id)
    return JsonResponse(200, {})


async def recurring_id_of(call: QStashCall, schedule_id: str) -> str | None:
    """The rule of a schedule of QStash, if there may be one."""
    with suppress(UnknownRecurring):
        return await call.store.recurring.id_of(call.account_id, rule_name(schedule_id) or "")
    return rule_of(schedule_id)


async def _found(call: QStashCall) -> Rule:
    """Raises UnknownRecurring."""
    recurring_id = await recurring_id_of(call, call.parts[0])
    return await call.store.recurring.read(call.account_id, recurring_id or "")


def schedule_of(rule: Rule) -> dict[str, Any]:
    """A rule as QStash shows its schedules."""
    request, timing = rule.request, rule.timing
    cron = timing.cron or _EVERY + format_duration(timing.every_ms or 0)
    zone = f"CRON_TZ={timing.zone} " if timing.cron and timing.zone != "UTC" else ""
    shown = {
        "createdAt": rule.created_at_ms,
        "destination": masked_url(request.url),
        "cron": zone + cron,
        **request_fields(request),
        "scheduleId": schedule_id_of_rule(rule.recurring_id, rule.name),
        "retries": request.retries,
        "isPaused": rule.pause is not None,
        "delay": timing.delay_ms // 1000 or None,
        "nextScheduleTime": Shown(rule).next_ms,
        "error": rule.reason or None,
    }
    return {name: value for name, value in shown.items() if value is not None}


def _timing(text: str, delay_ms: int) -> Timing:
    """Raises ValueError."""
    cron, zone = text.strip(), "UTC"
    if (found := _ZONE.fullmatch(cron)) is not None:
        zone, cron = found.groups()
    if cron.lower().startswith(_EVERY):
        return Timing(every_ms=parse_duration(cron[len(_EVERY) :].strip()), delay_ms=delay_ms)
    return Timing(cron, zone=zone, delay_ms=delay_ms)


_ONE = "/v2/schedules/{scheduleId}"
ROUTES = (
    Route("POST", "/v2/schedules/{url}", create),
    Route("GET", "/v2/schedules", list_all),
    Route("GET", _ONE, read),
    Route("DELETE", _ONE, delete),
    Route("PATCH", f"{_ONE}/pause", pause),
    Route("PATCH", f"{_ONE}/resume", resume),
)
