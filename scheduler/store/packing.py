"""How values look in the store: msgpack arrays, opaque to the scripts."""

from __future__ import annotations

import hashlib
from functools import lru_cache

import msgspec

from scheduler.models import LogEntry, Outcome, Request, Schedule, Status
from scheduler.store.items import LogLine

_encoder = msgspec.msgpack.Encoder()
_requests = msgspec.msgpack.Decoder(Request)


class _StoredEntry(msgspec.Struct, array_like=True):
    """A log entry in the stream; its moment is the stream id, so it is not in here."""

    schedule: str
    created_at_ms: int
    scheduled_at_ms: int
    url: str
    method: str
    status: Status
    status_code: int = 0
    response_time_ms: int = 0
    error_message: str = ""


class _StoredOutcome(msgspec.Struct, array_like=True):
    status_code: int
    response_time_ms: int
    error_message: str


_entries = msgspec.msgpack.Decoder(_StoredEntry)
_outcomes = msgspec.msgpack.Decoder(_StoredOutcome)


def pack_request(request: Request) -> bytes:
    return _encoder.encode(request)


def unpack_request(packed: bytes) -> Request:
    return _requests.decode(packed)


def pack_outcome(outcome: Outcome) -> bytes:
    return _encoder.encode((outcome.status_code, outcome.response_time_ms, outcome.error_message))


def unpack_outcome(status: Status, packed: bytes) -> Outcome:
    stored = _outcomes.decode(packed)
    return Outcome(status, stored.status_code, stored.response_time_ms, stored.error_message)


def log_line(
    schedule_id: str, created_at_ms: int, request: Request, outcome: Outcome | None
) -> LogLine:
    """What the log keeps of an execution; of a cancellation, if there is no outcome."""
    entry: tuple[object, ...] = (
        schedule_id[4:],
        created_at_ms,
        request.trigger_at_ms,
        request.url,
        request.method,
    )
    if outcome is None:
        entry += (Status.CANCELLED,)
    else:
        entry += (outcome.status, outcome.status_code, outcome.response_time_ms)
        entry += (outcome.error_message,)
    bucket, digest = url_place(request.url)
    return LogLine(_encoder.encode(entry), bucket, digest)


def unpack_entry(packed: bytes, at_ms: int) -> LogEntry:
    stored = _entries.decode(packed)
    return LogEntry(
        schedule_id="sch_" + stored.schedule,
        created_at_ms=stored.created_at_ms,
        scheduled_at_ms=stored.scheduled_at_ms,
        executed_at_ms=None if stored.status is Status.CANCELLED else at_ms,
        url=stored.url,
        method=stored.method,
        status=stored.status,
        status_code=stored.status_code,
        response_time_ms=stored.response_time_ms,
        error_message=stored.error_message,
        at_ms=at_ms,
    )


def unended_entry(schedule: Schedule) -> LogEntry:
    """How a schedule that has not ended is listed in the log."""
    return LogEntry(
        schedule_id=schedule.schedule_id,
        created_at_ms=schedule.created_at_ms,
        scheduled_at_ms=schedule.request.trigger_at_ms,
        executed_at_ms=None,
        url=schedule.request.url,
        method=schedule.request.method,
        status=Status.SCHEDULED,
        at_ms=schedule.request.trigger_at_ms,
    )


@lru_cache(maxsize=8192)
def url_place(url: str) -> tuple[str, bytes]:
    """The index stream of a URL (one of 256) and the bytes that tell it from others there."""
    digest = hashlib.blake2b(url.encode(), digest_size=4).digest()
    return digest[:1].hex(), digest[1:]
