"""How the log looks in the store: chunks, each a msgpack array of entries. Scripts know only its
head; what comes behind that is compressed in a chunk of many. One step recorded all entries of a
chunk, and its id in the stream is their moment. An entry's place in the log is that id and its
index in the chunk."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

import msgspec
import structlog

from scheduler import ids
from scheduler.errors import Unreadable
from scheduler.models import LogEntry, LogStatus, Outcome, Phases, Request, Schedule, Status
from scheduler.store.stored import NUMBERS, STATUSES
from scheduler.times import are_moments

_encode = msgspec.msgpack.Encoder().encode
_BUCKETS = [f"{number:02x}" for number in range(256)]
_log = structlog.get_logger(__name__)
# Of a longer URL the log has the start: it is kept for a month, and a cancellation costs nothing.
LOGGED_URL_CHARACTERS = 512
DIGEST_BYTES = 3
# A chunk of so many entries is a fifth as long if it is compressed, for 0.2 to 0.7 us each.
_WORTHWHILE = 8
# The first byte of compressed data. No entry begins with it: an entry is an array.
_ZLIB = 0x78
_WITHOUT_ATTEMPT = (LogStatus.CANCELLED, LogStatus.SKIPPED)


class StoredEntry(msgspec.Struct, array_like=True, gc=False):
    schedule: str
    scheduled_at_ms: int
    url: str
    method: str
    status: int
    status_code: int = 0
    response_time_ms: int = 0
    error_message: str = ""
    lateness_ms: int | None = None
    attempt: int = 1
    next_attempt_at_ms: int | None = None
    phases: Phases | None = None
    before_ms: int | None = None
    reference: str | None = None
    lane: str | None = None
    rule: str | None = None
    missed: int = 0
    labels: tuple[str, ...] = ()

    @property
    def recurring_id(self) -> str | None:
        return None if self.rule is None else ids.recurring_id(self.rule)


_decode = msgspec.msgpack.Decoder(list[StoredEntry]).decode


def entry(
    schedule_id: str,
    request: Request,
    outcome: Outcome | None,
    lateness_ms: int | None = None,
    attempt: int = 1,
    next_attempt_at_ms: int | None = None,
    before_ms: int | None = None,
) -> tuple[Any, ...]:
    """The log's entry of an attempt, which follows on the entry of `before_ms`; of a cancellation,
    without an outcome. A first attempt that ends the schedule is the usual one, and has less."""
    url, names = logged_url(request.url), _names(request)
    what = (ids.local(schedule_id), request.trigger_at_ms, url, request.method)
    if outcome is None:
        cancelled = (*what, NUMBERS[Status.CANCELLED])
        return (*cancelled, *_NO_ATTEMPT, *names) if names else cancelled
    status, code = NUMBERS[outcome.status], outcome.status_code
    retrying = next_attempt_at_ms is not None
    if retrying:
        status = NUMBERS[LogStatus.RETRYING]
    result = (status, code, outcome.response_time_ms, outcome.error_message, lateness_ms)
    usual = not retrying and attempt == 1 and before_ms is None
    if usual and not names:
        return what + result
    phases = None if usual else outcome.phases
    more = (attempt, next_attempt_at_ms, phases, before_ms)
    return (*what, *result, *more, *names)


# Of an entry without an attempt, behind the status: the fields before the names.
_NO_ATTEMPT = (0, 0, "", None, 1, None, None, None)


def _names(request: Request) -> tuple[Any, ...]:
    """The end of an entry, which has nothing of a schedule with none of these."""
    reference, lane = request.reference, request.lane
    if request.labels:
        rule = None if request.recurring is None else ids.local(request.recurring.recurring_id)
        return reference, lane, rule, 0, request.labels
    if request.recurring is not None:
        return reference, lane, ids.local(request.recurring.recurring_id)
    if lane is not None:
        return reference, lane
    return () if reference is None else (reference,)


def skipped_entry(
    recurring_id: str, request: Request, first_ms: int, missed: int, why: str = ""
) -> tuple[Any, ...]:
    """The log's entry of so many times that a rule has missed, of which this is the first; `why`
    is its error message. `request`: as its occurrences have it."""
    what = ("", first_ms, logged_url(request.url), request.method, NUMBERS[LogStatus.SKIPPED])
    names = (request.reference, request.lane, ids.local(recurring_id), missed)
    named = (*names, request.labels) if request.labels else names
    return (*what, 0, 0, why, *_NO_ATTEMPT[3:], *named)


def pack_chunk(entries: Sequence[tuple[Any, ...]]) -> bytes:
    """Compressed behind the head of the array, of which scripts know how many entries it has."""
    packed = _encode(entries)
    if len(entries) < _WORTHWHILE:
        return packed
    head = _head_bytes(packed)
    return packed[:head] + zlib.compress(packed[head:], 1)


def opened_chunk(packed: bytes) -> bytes:
    """The msgpack of a chunk; a damaged one stays as it is. Safe to repeat."""
    head = _head_bytes(packed)
    if packed[head : head + 1] != bytes((_ZLIB,)):
        return packed
    try:
        return packed[:head] + zlib.decompress(packed[head:])
    except zlib.error:
        return packed


def _head_bytes(packed: bytes) -> int:
    """How long the head of a msgpack array is."""
    return {0xDC: 3, 0xDD: 5}.get(packed[0], 1) if packed else 0


def logged_url(url: str) -> str:
    """As the log has it. Which one a longer URL was, the index still knows, by its hash."""
    if len(url) <= LOGGED_URL_CHARACTERS:
        return url
    return url[: LOGGED_URL_CHARACTERS - 1] + "…"


def entries_of(packed: bytes) -> list[StoredEntry]:
    """As they are stored, whatever they say. Raises Unreadable."""
    try:
        return _decode(opened_chunk(packed))
    except (msgspec.MsgspecError, ValueError) as error:
        raise Unreadable(str(error)) from error


# Chooses entries of a chunk, and gives them with their indexes, in any order.
Choose = Callable[[list[StoredEntry]], Iterable[tuple[int, StoredEntry]]]


def unpack_chunk(packed: bytes, choose: Choose = enumerate) -> list[tuple[int, StoredEntry]]:
    """The chosen entries. Raises Unreadable."""
    entries = list(choose(entries_of(packed)))
    try:
        for _, each in entries:
            of_none = STATUSES[each.status] is LogStatus.SKIPPED and not each.schedule
            schedule_id = ids.schedule_id(each.schedule)
            if not (of_none or ids.is_schedule_id(schedule_id)):
                raise ValueError("it has an entry of what can be no schedule")
            if each.rule is not None and not ids.is_recurring_id(ids.recurring_id(each.rule)):
                raise ValueError("it has an entry of what can be no recurring schedule")
            created_at_ms = None if of_none else ids.created_at_ms(schedule_id)
            next_ms, before_ms = each.next_attempt_at_ms, each.before_ms
            if not are_moments(created_at_ms, each.scheduled_at_ms, next_ms, before_ms):
                raise ValueError("it has an entry of no moment")
    except (ValueError, LookupError) as error:
        raise Unreadable(str(error)) from error
    return entries


def readable_chunk(
    account_id: str, stream_id: bytes, packed: bytes, choose: Choose = enumerate
) -> list[tuple[int, StoredEntry]]:
    """The same of one among others; none, and an error in the log, if it is damaged."""
    try:
        return unpack_chunk(packed, choose)
    except Unreadable as error:
        chunk = stream_id.decode()
        _log.error(
            "left out of a log: it cannot be read",
            account=account_id,
            chunk=chunk,
            error=str(error),
        )
        return []


def chunks_of(page: Iterable[Any]) -> list[tuple[bytes, bytes]]:
    """What a stream's entries hold in their one field, with their ids."""
    return [(stream_id, fields[1]) for stream_id, fields in page]


def log_entry(stored: StoredEntry, at_ms: int) -> LogEntry:
    status = STATUSES[stored.status]
    schedule_id = ids.schedule_id(stored.schedule) if stored.schedule else ""
    attempted = status not in _WITHOUT_ATTEMPT
    # In the order of its fields: 0.2 us, which by their names are 1.3.
    return LogEntry(
        schedule_id,
        ids.created_at_ms(schedule_id) if schedule_id else at_ms,
        stored.scheduled_at_ms,
        at_ms if attempted else None,
        stored.url,
        stored.method,
        status,
        stored.status_code,
        stored.response_time_ms,
        stored.error_message,
        at_ms,
        stored.lateness_ms,
        stored.attempt if attempted else 0,
        stored.next_attempt_at_ms,
        False,
        stored.phases,
        None,
        stored.before_ms,
        stored.lane,
        stored.reference,
        stored.recurring_id,
        stored.missed,
        stored.labels,
    )


def unended_entry(schedule: Schedule) -> LogEntry:
    return LogEntry(
        schedule_id=schedule.schedule_id,
        created_at_ms=schedule.created_at_ms,
        scheduled_at_ms=schedule.request.trigger_at_ms,
        executed_at_ms=None,
        url=schedule.request.url,
        method=schedule.request.method,
        status=LogStatus.SCHEDULED,
        at_ms=schedule.due_at_ms,
        attempt=schedule.attempts,
        next_attempt_at_ms=schedule.retry.due_at_ms if schedule.retry else None,
        executing=schedule.executing,
        lane=schedule.request.lane,
        reference=schedule.request.reference,
        recurring_id=schedule.request.recurring_id,
        labels=schedule.request.labels,
    )


def place_name(reference: str) -> str:
    """What stands for a reference among the URLs of the index: no URL begins so."""
    return f"\0{reference}"


def lane_place_name(lane: str) -> str:
    """The same of a lane."""
    return f"\1{lane}"


def label_place_name(label: str) -> str:
    """The same of a label."""
    return f"\2{label}"


def url_place(url: str) -> tuple[str, bytes]:
    """The index stream of a URL (one of 256) and the bytes that tell it from others there. By
    CRC-32: an account that chooses colliding URLs slows down only its own reads."""
    digest = zlib.crc32(url.encode())
    return _BUCKETS[digest >> 24], (digest & 0xFFFFFF).to_bytes(DIGEST_BYTES, "big")


def recurring_place(recurring_id: str) -> tuple[str, bytes]:
    """The same of a rule, one of 1,024. A stream of its own would take 4 KB of each rule."""
    return "r" + recurring_id[-2:], url_place(recurring_id)[1]


def skipped_places(recurring_id: str, request: Request) -> list[str | bytes]:
    """The index's notes of a skipped entry: names of streams, and digests."""
    named = [request.url]
    named += [place_name(request.reference)] if request.reference is not None else []
    named += [lane_place_name(request.lane)] if request.lane is not None else []
    named += map(label_place_name, request.labels)
    places = {LogStatus.SKIPPED.value: b"", **url_places(named, [recurring_id])}
    return [part for pair in places.items() for part in pair]


def url_places(urls: Iterable[str], rules: Iterable[str] = ()) -> dict[str, bytes]:
    """The index streams of URLs, and of recurring schedules, and for each the digests of those
    among them that are in it."""
    places: dict[str, bytes] = {}
    for bucket, digest in chain(map(url_place, urls), map(recurring_place, rules)):
        places[bucket] = places.get(bucket, b"") + digest
    return places
