"""/v2/events and /v2/logs: the log, as QStash tells it."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from api.answer import JsonResponse
from api.qstash.calls import QStashCall, Refused, Route
from api.qstash.filters import PARTS, Asked, asked
from api.qstash.messages import message_of
from api.qstash.schedules import recurring_id_of
from api.schema.query import Walk
from scheduler.errors import TooManyScans
from scheduler.models import LogEntry, LogStatus, Occurrence, Request, Schedule, Status
from scheduler.qstash.names import schedule_id
from scheduler.store.log.entries import logged_url
from scheduler.store.log.logs import LogQuery
from scheduler.store.queries.timeline import just_before

T = TypeVar("T")
Event = dict[str, Any]
# Of one answer: events, pages of the log beside one for each message that is named, and bytes of
# stored requests. A longer body (as base64) is left out.
_USUAL, _MOST_PAGES, _MOST_BYTES, _LONGEST_BODY = 100, 10, 2 * 1024 * 1024, 4096
# How an attempt ended, the last event first. Before that it was ACTIVE, and first CREATED.
_ENDS = {
    LogStatus.SCHEDULED: [],
    LogStatus.RETRYING: ["RETRY", "ERROR"],
    LogStatus.COMPLETED: ["DELIVERED"],
    LogStatus.FAILED: ["FAILED", "ERROR"],
    LogStatus.CANCELLED: ["CANCELED"],
}
_MOST_OF_ONE = 4
_EVERY = ["CREATED", "ACTIVE", "RETRY", "ERROR", "DELIVERED", "FAILED", "CANCELED"]
_STATES: dict[str | None, list[str]] = {each: [each] for each in _EVERY}
_STATES |= {"IN_PROGRESS": ["ACTIVE", "RETRY", "ERROR"], "CANCEL_REQUESTED": [], None: _EVERY}
_DOWN = {"latestFirst": True, "earliestFirst": False, None: True}
_KNOWN = {*PARTS, "messageId", "messageIds", "state", "order"} - {"callerIp"}
_CURSOR = re.compile(r"([0-9]{1,4})\.([0-3])\.(sch_[0-9a-z]{26}|-)\.([A-Za-z0-9_-]*)")


class _Place(NamedTuple):
    """Where an answer goes on: in which query, and behind which cursor of the log. So many events
    of the first entry there were told, if it is of this schedule."""

    query: int = 0
    told: int = 0
    of: str = "-"
    cursor: str = ""


async def _listed(call: QStashCall, name: str) -> JsonResponse:
    """Events of one entry stand together, where the log has recorded it or, while it waits, when it
    is due. Before the end, which has no cursor, there may be fewer than `count`."""
    what = asked(call, "", _KNOWN, ("count", "fromDate", "toDate"))
    queries, states = await _queries(call, what), _chosen(call, "state", _STATES)
    left, found = what.numbers.get("count", _USUAL), list[Event]()
    walk = Walk("/v2/events", *(repr((each, call.query.get(each))) for each in sorted(_KNOWN)))
    parts = _CURSOR.fullmatch(walk.taken_back(what.cursor) or "0.0.-.")
    if parts is None:
        raise Refused(400, "cursor: It does not belong to an answer with these filters.")
    place: _Place | None = _Place(int(parts[1]), int(parts[2]), parts[3], parts[4])
    for turn in range(_MOST_PAGES + len(queries)):
        if place is None or not left:
            break
        try:
            some, place = await _some(call, queries, states, place, left)
        except TooManyScans:
            if not turn:
                raise
            break
        found, left = found + some, left - len(some)
    cursor = {"cursor": walk.given_out(".".join(map(str, place)))} if place else {}
    return JsonResponse(200, {name: found, **cursor})


async def _some(
    call: QStashCall, queries: Sequence[LogQuery], states: list[str], place: _Place, most: int
) -> tuple[list[Event], _Place | None]:
    """Events of a page of the log, at most so many, and the place behind them; None at the end."""
    if place.query >= len(queries):
        return [], None
    query, logs = queries[place.query], call.store.logs
    query = query._replace(limit=max(1, most // _MOST_OF_ONE), cursor=place.cursor or None)
    page = await logs.page(call.account_id, query)
    kept = await logs.schedules(call.account_id, page.entries, _MOST_BYTES)
    told = list[Event]()
    for entry in page.entries:
        events = _events(entry, kept.get(entry.schedule_id))
        chosen = [each for each in events if each["state"] in states]
        told += chosen if query.descending else chosen[::-1]
    first = page.entries[0].schedule_id if page.entries else ""
    before = place.told if place.of == first else 0
    if len(told) - before > most and page.first_cursor:  # then they are of one entry
        cursor = just_before(page.first_cursor, down=query.descending)
        return told[before : before + most], _Place(place.query, before + most, first, cursor)
    behind = _Place(place.query + 1)
    if page.next_cursor is not None:
        behind = _Place(place.query, cursor=page.next_cursor)
    return told[before:], behind if behind.query < len(queries) else None


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
    if entry.error_message:
        result["error"] = entry.error_message
    more = dict.fromkeys(("ERROR", "FAILED", "DELIVERED"), result)
    more |= {"RETRY": {"nextDeliveryTime": next_ms}, "CREATED": {"nextDeliveryTime": due_ms}}
    shown = _message(entry, schedule)
    return [{"time": ms, "state": state, **more.get(state, {}), **shown} for state, ms in made]


def _message(entry: LogEntry, schedule: Schedule | None) -> Event:
    """What all events of a message show; once it is no longer kept, only what the log has."""
    if schedule is not None:
        shown = message_of(schedule)
    else:
        rule = Occurrence(entry.recurring_id) if entry.recurring_id else None
        what = (entry.scheduled_at_ms, entry.method, entry.url)
        request = Request(*what, labels=entry.labels, lane=entry.lane, recurring=rule)
        ended = Schedule(entry.schedule_id, entry.created_at_ms, request, Status.COMPLETED)
        shown = message_of(ended) | {"maxRetries": None}
    text, encoded = shown.pop("body", ""), shown.pop("bodyBase64", "")
    encoded = encoded or base64.b64encode(text.encode()).decode()
    shown["body"] = encoded if len(encoded) <= _LONGEST_BODY else ""
    shown["retryDelayExpr"] = shown.get("retryDelayExpression")
    return {name: value for name, value in shown.items() if value not in ("", None)}


async def _queries(call: QStashCall, what: Asked) -> list[LogQuery]:
    """One of the log, or one of each message that is named."""
    given = {name: values for name, values in what.texts.items() if name in PARTS}
    of_rules, to_ms = given.pop("scheduleId", None), what.numbers.get("toDate")
    rules = [await recurring_id_of(call, each) for each in of_rules or ()]
    if "topicName" in given or (of_rules and not any(rules)):
        return []
    if "url" in given:
        given["url"] |= {logged_url(each) for each in given["url"]}

    def is_meant(one: Any) -> bool:
        if of_rules and one.recurring_id not in {*rules} - {None}:
            return False
        return all(values.intersection(PARTS[name](one)) for name, values in given.items())

    query = LogQuery(
        tuple(_ENDS),
        what.url,
        what.numbers.get("fromDate"),
        None if to_ms is None else to_ms + 1,
        descending=_chosen(call, "order", _DOWN),
        lane=what.lane,
        recurring_id=rules[0] if len(rules) == 1 else None,
        also=is_meant if given or of_rules else None,
        fresh=True,
    )
    named = [each for name in ("messageId", "messageIds") for each in what.texts.get(name, ())]
    known = sorted({*filter(None, map(schedule_id, named))}, reverse=query.descending)
    return [query._replace(schedule_id=each) for each in known] if named else [query]


def _chosen(call: QStashCall, name: str, choices: Mapping[str | None, T]) -> T:
    [given, *more] = call.query.get(name, [None])
    if more or given not in choices:
        raise Refused(400, f"{name}: It must be one of {', '.join(filter(None, choices))}.")
    return choices[given]


ROUTES = tuple(
    Route("GET", f"/v2/{name}", partial(_listed, name=name)) for name in ("events", "logs")
)
