"""Functions under fuzzing: each takes bytes, and raises if a promise does not hold."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any, cast

from api.calls.batch import _BATCH, _ITEMS, parse_batch
from api.calls.stats import log_query
from api.schema.findings import MOST_LISTED, Findings
from api.schema.items import Items
from api.schema.payload import parse_create
from api.schema.query import OF_LOGS, read_query
from api.schema.rules import Rules
from api.schema.settings_fields import misfits, parse_put
from scheduler.callbacks import MOST_HEADER_BYTES, size_of
from scheduler.errors import InvalidRequest
from scheduler.lane_settings import LaneSettings
from scheduler.models import Request, Upsert
from scheduler.store.queries.timeline import span
from scheduler.target.destinations import Destinations
from scheduler.target.targets import Origin, parse_target
from tests.api.schema.test_items import came_to
from tests.worker.send.test_wire_bytes import NOTED, DeafTransport, Ends, SteppedLoop
from worker.loop_budget import LoopBudget
from worker.send.outcome import Failure, answered
from worker.send.request import render
from worker.send.wire import Route, Wire

NOW_MS = 1_795_161_612_345
_RULES = Rules(Destinations(), 1830)
_SCHEDULE_ID = "sch_01jd3m0000e0080000000000a0"
_ROUTE = Route(Origin("http", "e.example", 80), "8.8.8.8", "acc_00_a")
_HEAD = re.compile(rb"[A-Z]+ /[^ \r\n]* HTTP/1\.1(?:\r\n[^:\r\n]+: ?[^\r\n]*)+\r\n\r\n")
_CAP_BYTES = 64 * 1024
_PIECES = (1 << 16, 7, 1, 1500)
# From here on an answer is one piece: each piece costs microseconds, however short it is.
_LONG = 1000


def payload(data: bytes) -> None:
    """A payload is refused with a sentence, or becomes one request on the wire."""
    try:
        request = _parsed(data)
    except InvalidRequest as refusal:
        _assert_refused(refusal)
    else:
        _assert_one_request(request)


def batch(data: bytes) -> None:
    """The items are those that a look at one member after the other finds, and each is stored as by
    itself, whatever came before it."""
    try:
        items = parse_batch(data)
    except InvalidRequest as refusal:
        _assert_refused(refusal)
    else:
        assert items == _ITEMS.elements(_BATCH.members(data, Findings())["schedules"])
        judge = Items(_RULES, NOW_MS).judged
        for item in map(bytes, items[:100]):
            payload(item)
            assert came_to(judge, item) == came_to(_created, item)


def _parsed(data: bytes) -> Request:
    wanted = _created(data)
    request = wanted.request if isinstance(wanted, Upsert) else wanted
    assert isinstance(request, Request)
    return request


def _created(data: bytes) -> Request | Upsert:
    return parse_create(data, _RULES, NOW_MS)


def query(data: bytes) -> None:
    try:
        asked = log_query(read_query(data, OF_LOGS))
        span(asked.from_ms, asked.to_ms, asked.cursor, down=asked.descending)
    except InvalidRequest as refusal:
        _assert_refused(refusal)


def settings(data: bytes) -> None:
    """What is set of a lane is refused with a sentence, or goes together and has a pace."""
    try:
        given = parse_put(data, _RULES, NOW_MS)
    except InvalidRequest as refusal:
        _assert_refused(refusal)
        return
    if not misfits(given, given):
        pace = LaneSettings(given.get("rate"), given.get("per")).pace
        assert (pace is None) == (given.get("rate") is None)
        assert pace is None or (10 <= pace[0] <= 86_400e6 and 20_000 <= pace[1] <= 1_000_000)


# Of an exchange: whether it is a HEAD, and how much of the body a callback reports. Two for each
# input: four would take twice the time that its length allows.
_WAYS = ((False, None), (True, None)), ((False, 0), (False, 100))


def answer(data: bytes) -> None:
    """An exchange ends once, whatever the target says, in pieces of whatever size, and never by a
    fault of ours."""
    size = _PIECES[len(data) % len(_PIECES)] if len(data) < _LONG else _PIECES[0]
    for head_only, wanted in _WAYS[len(data) % 2]:
        wire = Wire(_ROUTE, _CAP_BYTES, LoopBudget(cast("Any", SteppedLoop())), NOTED)
        wire.connection_made(cast("asyncio.Transport", DeafTransport()))
        wire.send(ends := Ends(response_bytes=wanted), b"request", head_only)
        for start in range(0, len(data), size):
            if not ends.noted:
                wire.data_received(data[start : start + size])
        wire.eof_received()
        wire.connection_lost(None)
        [(first, *rest)] = ends.noted
        assert first is not Failure.INTERNAL
        if not isinstance(first, Failure):
            reason, reusable = rest
            odd = wire.received.odd
            assert not (odd and reusable)
            outcome = answered(cast("int", first), str(reason), 1, odd=odd)
            assert len(outcome.error_message) <= 200
            response = wire.received.response
            assert (response is None) == (wanted is None)
            if response is not None:
                assert len(response.body) <= (wanted or 0)
                assert size_of(response) <= (wanted or 0) + MOST_HEADER_BYTES


def _assert_refused(refusal: InvalidRequest) -> None:
    """With a sentence, and no longer than a client can read, however long the input."""
    assert str(refusal)
    assert 1 <= len(refusal.details) <= MOST_LISTED
    assert sum(len(each.field) + len(each.message) for each in refusal.details) < 100_000


def _assert_one_request(request: Request) -> None:
    data = render(parse_target(request.url), request, _SCHEDULE_ID, 1)
    head, blank, body = data.partition(b"\r\n\r\n")
    assert _HEAD.fullmatch(head + blank), head
    assert body == (request.body or b"")
    assert head.lower().count(b"\r\nhost:") == 1
    assert head.lower().count(b"\r\ncontent-length:") <= 1
    assert b"\r\ntransfer-encoding" not in head.lower()


SUBJECTS: dict[str, Callable[[bytes], None]] = {
    each.__name__: each for each in (payload, batch, query, settings, answer)
}
