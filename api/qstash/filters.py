"""Which messages a call means: by their ids, or by filters over those that this door made."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

import msgspec

from api.limits import MAX_ITEMS
from api.qstash.calls import QStashCall, Refused
from scheduler.models import Request, Schedule
from scheduler.qstash.carried import Carried, opened
from scheduler.qstash.names import flow_key_of, flow_lane, queue_lane, queue_of, schedule_id_of
from scheduler.store.queries.listing import Selection
from scheduler.target.targets import split_url

_MOST_DIGITS = 13  # of a moment in milliseconds, until the year 2286
_decode = msgspec.json.Decoder(dict[str, list[str] | str | int]).decode


def carried_by(request: Request) -> Carried:
    """What it carries, which is nothing where no message is readable."""
    try:
        return opened(request.door) or Carried()
    except ValueError:
        return Carried()


# What a message has of each filter. Of several values of a filter one has to fit.
PARTS: Mapping[str, Callable[[Request], Iterable[str | None]]] = {
    "url": lambda one: (one.url,),
    "host": lambda one: (split_url(one.url)[0],),
    "path": lambda one: (split_url(one.url)[1].partition("?")[0] or "/",),
    "label": lambda one: one.labels,
    "queueName": lambda one: (queue_of(one.lane),),
    "flowControlKey": lambda one: (flow_key_of(one.lane),),
    "scheduleId": lambda one: (schedule_id_of(one.recurring_id, carried_by(one).schedule_id),),
    "callerIp": lambda one: (carried_by(one).caller_ip,),
    "topicName": lambda one: (),
}


class Asked(NamedTuple):
    """The ids (None: not by ids), or the filters with their values and numbers, and a cursor."""

    ids: list[str] | None
    texts: Mapping[str, frozenset[str]]
    numbers: Mapping[str, int]
    cursor: str | None

    def wants(self, schedule: Schedule) -> bool:
        """Whether it is a message that fits all filters. One that was cancelled between two
        attempts has failed natively, and is no dead letter here."""
        request, outcome = schedule.request, schedule.last_outcome
        if request.door is None or schedule.stopped:
            return False
        at_ms = schedule.created_at_ms if schedule.ended_at_ms is None else schedule.ended_at_ms
        status = outcome.status_code if outcome else 0
        return (
            self.numbers.get("fromDate", 0) <= at_ms <= self.numbers.get("toDate", at_ms)
            and self.numbers.get("responseStatus", status) == status
            and all(
                values.intersection(PARTS[each](request))
                for each, values in self.texts.items()
                if each in PARTS  # a message's id is none of its request's
            )
        )

    @property
    def url(self) -> str | None:
        """The only one that is meant."""
        [url, *more] = self.texts.get("url") or [None]
        return None if more else url

    @property
    def lane(self) -> str | None:
        """The only one that is meant."""
        lanes = [queue_lane(each) for each in self.texts.get("queueName", ())]
        lanes += [flow_lane(each) for each in self.texts.get("flowControlKey", ())]
        return lanes[0] if len(lanes) == 1 else None

    def selection(self, limit: int, cursor: str | None, *, ended: bool) -> Selection:
        """The same of a native list. `ended`: its moments are those of the dates."""
        to_ms = self.numbers.get("toDate")
        period = (self.numbers.get("fromDate"), None if to_ms is None else to_ms + 1)
        period = period if ended else (None, None)
        return Selection(self.url, *period, limit, cursor, lane=self.lane, also=self.wants)


def asked(call: QStashCall, ids: str, texts: Collection[str], numbers: Collection[str]) -> Asked:
    """What the query, and the JSON object in the body, say. `ids` is the name under which ids are
    given, without filters. Raises Refused, also for unknown names: one that is misspelt does not
    mean all."""
    given = dict(call.query)
    try:
        members = _decode(call.body) if call.body.strip() else {}
    except msgspec.MsgspecError as error:
        raise Refused(400, f"The body is no JSON object of filters: {error}") from None
    for name, value in members.items():
        given[name] = [*given.get(name, ()), *(value if isinstance(value, list) else [str(value)])]
    for name, values in given.items():
        if name not in (ids, "cursor", *texts, *numbers):
            raise Refused(400, f"{name[:64]}: there is no such filter")
        if not 1 <= len(values) <= MAX_ITEMS:
            raise Refused(400, f"{name}: it must have 1 to {MAX_ITEMS:,} values")
    if ids in given and len(given) > 1:
        raise Refused(400, f"{ids}: they do not go with filters")
    return Asked(
        given.get(ids),
        {name: frozenset(values) for name, values in given.items() if name in texts},
        {name: _number(name, values[-1]) for name, values in given.items() if name in numbers},
        given.get("cursor", [""])[-1] or None,
    )


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > _MOST_DIGITS:
        raise Refused(400, f"{name}: it must be a whole number")
    if name == "count" and not 1 <= int(text) <= MAX_ITEMS:
        raise Refused(400, f"{name}: it must be from 1 to {MAX_ITEMS:,}")
    return int(text)
