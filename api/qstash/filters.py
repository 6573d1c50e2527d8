"""Which messages a call means: by their ids, or by filters over those that this door made."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from api.answer import JsonResponse
from api.limits import MAX_ITEMS
from api.qstash.calls import QStashCall, Refused
from scheduler.models import LogEntry, Request, Schedule
from scheduler.qstash.carried import opened
from scheduler.qstash.names import flow_key_of, flow_lane, queue_lane, queue_of, schedule_id_of
from scheduler.store.log.entries import StoredEntry
from scheduler.store.queries.listing import Selection
from scheduler.target.targets import split_url

_MOST_DIGITS = 13  # of a moment in milliseconds, until the year 2286
_decode = msgspec.json.Decoder(dict[str, list[str] | str | int]).decode
# What a message has of each filter. Of several values of a filter one has to fit.
PARTS: Mapping[str, Callable[[Any], Iterable[str | None]]] = {
    "url": lambda one: (one.url,),
    "host": lambda one: (split_url(one.url)[0],),
    "path": lambda one: (split_url(one.url)[1].partition("?")[0] or "/",),
    "label": lambda one: one.labels,
    "queueName": lambda one: (queue_of(one.lane),),
    "flowControlKey": lambda one: (flow_key_of(one.lane),),
    "scheduleId": lambda one: (schedule_id_of(one.recurring_id, opened(one.door).schedule_id),),
    "callerIp": lambda one: (opened(one.door).caller_ip,),
    "topicName": lambda one: (),
}
NUMBERS = frozenset({"count", "fromDate", "toDate", "responseStatus"})


class Asked(NamedTuple):
    """The ids (None: not by ids), or the filters with their values and numbers, and a cursor."""

    ids: list[str] | None
    texts: Mapping[str, frozenset[str]]
    numbers: Mapping[str, int]
    cursor: str | None

    def wants(self, schedule: Schedule) -> bool:
        """Whether it is a message that fits all filters. One that was cancelled between two
        attempts has failed natively, and is no dead letter here."""
        outcome, at_ms = schedule.last_outcome, schedule.ended_at_ms
        at_ms = schedule.created_at_ms if at_ms is None else at_ms
        status = outcome.status_code if outcome else 0
        return (
            schedule.request.door is not None
            and not schedule.stopped
            and self.numbers.get("fromDate", 0) <= at_ms <= self.numbers.get("toDate", at_ms)
            and self.numbers.get("responseStatus", status) == status
            and self.fits(schedule.request)
        )

    def fits(self, one: Request | StoredEntry | LogEntry) -> bool:
        """Whether such a request, or an entry of the log, has what the filters of PARTS ask for."""
        parts = ((values, PARTS[name]) for name, values in self.texts.items() if name in PARTS)
        return all(values.intersection(part_of(one)) for values, part_of in parts)

    @property
    def native(self) -> dict[str, Any]:
        """The filters with one value, as fields of a native list, which finds these sooner."""
        only = {name: next(iter(values)) for name, values in self.texts.items() if len(values) == 1}
        queue, key = only.get("queueName"), only.get("flowControlKey")
        lane = queue_lane(queue) if queue else key and flow_lane(key)
        return {"url": only.get("url"), "label": only.get("label"), "lane": lane}

    @property
    def period(self) -> dict[str, Any]:
        """The dates, as fields of a native list."""
        end = {"to_ms": self.numbers["toDate"] + 1} if "toDate" in self.numbers else {}
        return {"from_ms": self.numbers.get("fromDate"), **end}

    def selection(self, **more: Any) -> Selection:
        """The same of a native list of schedules."""
        return Selection(**self.native, also=self.wants, **more)


def asked(call: QStashCall, known: Collection[str], ids: str = "") -> Asked:
    """What the query, and the JSON object in the body, say. `ids` is the name under which ids are
    given, without filters. Raises Refused, also for unknown names: one that is misspelt does not
    mean all."""
    try:
        members = _decode(call.body) if call.body.strip() else {}
    except msgspec.MsgspecError as error:
        raise Refused(400, f"The body is no JSON object of filters: {error}") from None
    given = call.query | {
        name: value if isinstance(value, list) else [str(value)] for name, value in members.items()
    }
    for name, values in given.items():
        if name not in (ids, "cursor", *known):
            raise Refused(400, f"{name[:64]}: there is no such filter")
        if not 1 <= len(values) <= MAX_ITEMS:
            raise Refused(400, f"{name}: it must have 1 to {MAX_ITEMS:,} values")
    if ids in given and len(given) > 1:
        raise Refused(400, f"{ids}: they do not go with filters")
    numbers = {name: _number(name, given[name][-1]) for name in given.keys() & NUMBERS}
    texts = {name: frozenset(given[name]) for name in given.keys() - {ids, "cursor"} - NUMBERS}
    return Asked(given.get(ids), texts, numbers, given.get("cursor", [""])[-1] or None)


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > _MOST_DIGITS:
        raise Refused(400, f"{name}: it must be a whole number")
    if name == "count" and not 1 <= int(text) <= MAX_ITEMS:
        raise Refused(400, f"{name}: it must be from 1 to {MAX_ITEMS:,}")
    return int(text)


def page_answer(name: str, found: object, cursor: str | None) -> JsonResponse:
    """`cursor` leads to the next page; None: it is the last."""
    return JsonResponse(200, {name: found} | ({"cursor": cursor} if cursor else {}))
