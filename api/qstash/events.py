"""/v2/events and /v2/logs: the log, as QStash tells it."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from functools import partial
from typing import Any, TypeVar

from api.answer import JsonResponse
from api.limits import MAX_ITEMS
from api.qstash.calls import QStashCall, Refused, Route
from api.qstash.filters import NUMBERS, PARTS, Asked, asked, page_answer
from api.qstash.messages import message_of
from api.qstash.schedules import recurring_id_of
from scheduler.models import LogEntry, LogStatus, Occurrence, Request, Schedule, Status
from scheduler.qstash.names import schedule_id
from scheduler.store.log.entries import logged_url
from scheduler.store.log.logs import LogQuery

T = TypeVar("T")
Event = dict[str, Any]
# Of one answer: bytes of stored requests. A longer body (as base64) is left out.
_MOST_BYTES, _LONGEST_BODY = 2 * 1024 * 1024, 4096
# How an attempt ended, the last event first. Before that it was ACTIVE, and first CREATED.
_ENDS = {
    LogStatus.SCHEDULED: [],
    LogStatus.RETRYING: ["RETRY", "ERROR"],
    LogStatus.COMPLETED: ["DELIVERED"],
    LogStatus.FAILED: ["FAILED", "ERROR"],
    LogStatus.CANCELLED: ["CANCELED"],
}
_TOLD = {status: {"CREATED", "ACTIVE", *ends} for status, ends in _ENDS.items()}
_TOLD[LogStatus.FAILED].add("CANCELED")  # between two attempts
_MOST_OF_ONE = 4
_EVERY = ["CREATED", "ACTIVE", "RETRY", "ERROR", "DELIVERED", "FAILED", "CANCELED"]
_STATES: dict[str | None, list[str]] = {each: [each] for each in _EVERY}
_STATES |= {"IN_PROGRESS": ["ACTIVE", "RETRY", "ERROR"], "CANCEL_REQUESTED": [], None: _EVERY}
_DOWN = {"latestFirst": True, "earliestFirst": False, None: True}
_KNOWN = {*PARTS, *NUMBERS, "messageId", "messageIds", "state", "order"}
_KNOWN -= {"callerIp", "responseStatus"}


async def _listed(call: QStashCall, name: str) -> JsonResponse:
    """Events of one entry stand together, where the log has recorded it or, while it waits, when it
    is due. An answer ends behind whole entries: there may be fewer than `count` before the end,
    which has no cursor, and up to 4 if that is less. By several ids there is one answer, which ends
    behind whole messages."""
    what, states, found = asked(call, _KNOWN), _chosen(call, "state", _STATES), list[Event]()
    queries, cursor = await _queries(call, what, states), None
    for query in queries:
        if len(found) < what.numbers.get("count", MAX_ITEMS):
            told, cursor = await _told(call, query, states)
            found += told
    return page_answer(name, found, cursor if len(queries) == 1 else None)


async def _told(
    call: QStashCall, query: LogQuery, states: list[str]
) -> tuple[list[Event], str | None]:
    """Events of a page of the log, and the cursor behind it."""
    page = await call.store.logs.page(call.account_id, query)
    kept = await call.store.logs.schedules(call.account_id, page.entries, _MOST_BYTES)
    told = list[Event]()
    for entry in page.entries:
        events = _events(entry, kept.get(entry.schedule_id))
        chosen = [each for each in events if each["state"] in states]
        told += chosen if query.descending else chosen[::-1]
    return told, page.next_cursor


def _events(entry: LogEntry, schedule: Schedule | None) -> list[Event]:
    """Those of one entry, the last one first."""
    waits, next_ms = entry.status is LogStatus.SCHEDULED, entry.next_attempt_at_ms
    made = [(state, entry.at_ms) for state in _ENDS[entry.status]]
    if schedule and schedule.stopped and entry.status is LogStatus.FAILED:
        made = [("CANCELED", entry.at_ms)]
    elif entry.executing or entry.lateness_ms is not None:
        made.append(("ACTIVE", entry.at_ms - entry.response_time_ms))
    due_ms = entry.scheduled_at_ms
    if entry.before_ms is None and not (waits and next_ms is not None):
        made.append(("CREATED", due_ms if entry.recurring_id else entry.created_at_ms))
    result: Event = {"responseStatus": entry.status_code, "latenessMs": entry.lateness_ms}
    result["error"] = entry.error_message
    more = dict.fromkeys(("ERROR", "FAILED", "DELIVERED"), result)
    more |= {"RETRY": {"nextDeliveryTime": next_ms}, "CREATED": {"nextDeliveryTime": due_ms}}
    shown = message_of(schedule) if schedule else _logged(entry)
    text, encoded = shown.pop("body", ""), shown.pop("bodyBase64", "")
    encoded = encoded or base64.b64encode(text.encode()).decode()
    shown["body"] = encoded if len(encoded) <= _LONGEST_BODY else ""
    shown["retryDelayExpr"] = shown.get("retryDelayExpression")
    events = ({"time": ms, "state": state, **more.get(state, {}), **shown} for state, ms in made)
    return [{name: each[name] for name in each if each[name] not in ("", None)} for each in events]


def _logged(entry: LogEntry) -> Event:
    """What the log has of a message that is no longer kept."""
    rule = Occurrence(entry.recurring_id) if entry.recurring_id else None
    what = (entry.scheduled_at_ms, entry.method, entry.url)
    request = Request(*what, labels=entry.labels, lane=entry.lane, recurring=rule)
    ended = Schedule(entry.schedule_id, entry.created_at_ms, request, Status.COMPLETED)
    return message_of(ended) | {"maxRetries": None}


async def _queries(call: QStashCall, what: Asked, states: list[str]) -> list[LogQuery]:
    """One of the log, or one of each message that is named."""
    texts, count = dict(what.texts), what.numbers.get("count", MAX_ITEMS)
    given = texts.pop("scheduleId", frozenset())
    rules = {await recurring_id_of(call, each) for each in given} - {None}
    statuses = [status for status, told in _TOLD.items() if not told.isdisjoint(states)]
    if (given and not rules) or not statuses:
        return []
    if "url" in texts:
        texts["url"] |= {*map(logged_url, texts["url"])}
    others = what._replace(texts=texts)
    query = LogQuery(
        statuses,
        limit=max(1, count // min(len(states), _MOST_OF_ONE)),
        descending=_chosen(call, "order", _DOWN),
        cursor=what.cursor,
        recurring_id=next(iter(rules)) if len(rules) == 1 else None,
        also=lambda one: others.fits(one) and (not rules or one.recurring_id in rules),
        fresh=True,
        **what.native,
        **what.period,
    )
    named = [each for name in ("messageId", "messageIds") for each in texts.get(name, ())]
    if not named:
        return [query]
    known = sorted({*filter(None, map(schedule_id, named))}, reverse=query.descending)
    limit = query.limit if len(known) == 1 else MAX_ITEMS
    return [query._replace(schedule_id=each, limit=limit) for each in known]


def _chosen(call: QStashCall, name: str, choices: Mapping[str | None, T]) -> T:
    [given, *more] = call.query.get(name, [None])
    if more or given not in choices:
        raise Refused(400, f"{name}: It must be one of {', '.join(filter(None, choices))}.")
    return choices[given]


ROUTES = tuple(
    Route("GET", f"/v2/{name}", partial(_listed, name=name)) for name in ("events", "logs")
)
