"""How a schedule looks in the store: msgpack, opaque to the scripts but for its status.

`r` is the request, sealed if there is a key for it; common texts of it are short (`short_texts`).
Its lane, its reference and its recurring schedule stand in clear before it (`heads`). `o`, once it
has ended, is the moment (ms by the server, six bytes) and the outcome; `a`, once it was replayed,
the new schedule. `n`, between attempts and while the next one is made, is the last one: its moment
and when the next one is due (six bytes each), and its outcome. `s`, sealed likewise, is the
target's answer to the attempt of `o` or `n`: it goes with the next one that has none. `c` is how
its callback stands (`callback_state`); `w`, sealed likewise, is the whole answer for a report that
has it, until that is delivered. `g` marks a dead letter that was let go. The id has the moment of
creation."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import msgspec

from scheduler import ids
from scheduler.callbacks import Response
from scheduler.errors import Unreadable
from scheduler.lanes import MOST_LANES as MOST_LANES
from scheduler.models import (
    Answer,
    BodyKind,
    LogStatus,
    Outcome,
    Packed,
    Phases,
    Request,
    Retry,
    Schedule,
    Status,
)
from scheduler.store.callback_state import open_callback
from scheduler.store.heads import (
    LANE_BYTES as LANE_BYTES,
)
from scheduler.store.heads import (
    LANED as LANED,
)
from scheduler.store.heads import (
    RECURRING as RECURRING,
)
from scheduler.store.heads import (
    REFERENCE_BYTES as REFERENCE_BYTES,
)
from scheduler.store.heads import (
    REFERRED as REFERRED,
)
from scheduler.store.heads import (
    has_head,
    head_of,
    heads_of,
    lane_head,
    read_lane,
    read_recurring,
    read_reference,
    recurring_head,
    reference_head,
)
from scheduler.store.secrecy import SEALED, Secrecy
from scheduler.target.short_texts import BY_LETTER, short_headers, short_target, spelt_headers
from scheduler.times import are_moments

_encode = msgspec.msgpack.Encoder().encode
# Packs a request of `pack`'s fields, where method and URL are short already.
pack_fields = _encode
_decode_request = msgspec.msgpack.Decoder(Request).decode
# The request of `pack_fields`, whose method, URL and headers stay short.
unpack_fields = _decode_request

# Statuses by number. The order is the stored format; the last two are of log entries only.
STATUSES = (
    LogStatus.SCHEDULED,
    LogStatus.COMPLETED,
    LogStatus.FAILED,
    LogStatus.CANCELLED,
    LogStatus.RETRYING,
    LogStatus.SKIPPED,
)
NUMBERS: dict[str, int] = {status: number for number, status in enumerate(STATUSES)}
# Scripts know that the second byte of a packed outcome is the number of its status.
FAILED, CANCELLED = NUMBERS[Status.FAILED], NUMBERS[Status.CANCELLED]
# Weight of the note of a call that had an Idempotency-Key, beside its value.
NOTE_BYTES = 128
# The place of the status code says whether there was a body, which is not kept.
CANCELLATION = _encode([CANCELLED])
CANCELLATION_WITH_BODY = _encode([CANCELLED, 1])

_MOMENT_BYTES = 6
# How a msgpack array of 16 fields and more begins.
_LONG_ARRAY = 0xDC
# An attempt that ended later than so much from now was made by a clock that was set back since.
_CLOCK_SLACK_MS = 1000
_IN_CLEAR = Secrecy()
# Kept of an answer between two attempts. Sealed it has at most 512 bytes, which weigh nothing (see
# weight.inc.lua), so ending the schedule needs no correction of its weight.
BETWEEN_ATTEMPTS_BYTES = 256


class Fields(NamedTuple):
    """A stored schedule: `FIELDS`, None for missing ones; and whether a worker holds it."""

    packed: bytes | None
    outcome: bytes | None = None
    replay: bytes | None = None
    attempt: bytes | None = None
    said: bytes | None = None
    callback: bytes | None = None
    response: bytes | None = None
    held: bool = False


FIELDS = ("r", "o", "a", "n", "s", "c")
# Read by claims, and by walks through all that is stored: it may be long.
RESPONSE = "w"


class _StoredOutcome(msgspec.Struct, array_like=True, gc=False):
    status: int
    status_code: int = 0
    response_time_ms: int = 0
    error_message: str = ""
    lateness_ms: int | None = None
    attempts: int = 1
    phases: Phases | None = None
    retry: int = 0


_decode_outcome = msgspec.msgpack.Decoder(_StoredOutcome).decode
_decode_said = msgspec.msgpack.Decoder(tuple[str, bytes]).decode
_decode_response = msgspec.msgpack.Decoder(Response).decode
# Trigger, method, URL, headers and body come first; what the heads say is not in the array.
_HEAD_FIELDS, _IN_HEADS = 5, 3
_USUAL_TAIL = Request.__struct_defaults__[2:-_IN_HEADS]
# Raised by unpacking damaged bytes.
_DAMAGED = (msgspec.MsgspecError, ValueError, LookupError)


def seal_request(request: Request | Packed, secrecy: Secrecy) -> bytes:
    packed = request.request if isinstance(request, Packed) else pack_request(request)
    sealed, reference, lane = secrecy.seal(packed), request.reference, request.lane
    if request.recurring is not None:
        sealed = recurring_head(request.recurring) + sealed
    if reference is not None:
        sealed = reference_head(reference) + sealed
    if lane is None:
        return sealed
    return lane_head(lane, request.delivery, request.expires_at_ms) + sealed


def is_sealed(stored: bytes) -> bool:
    """Whether a stored request is."""
    return head_of(stored)[1].startswith(SEALED)


def sha1_of(packed: bytes | None) -> str:
    """By which a change or an end names the packed request that it has read."""
    return hashlib.sha1(packed or b"", usedforsecurity=False).hexdigest()


def open_request(sealed: bytes, secrecy: Secrecy) -> Request:
    """The request that is stored so. Raises Unreadable."""
    return _spelt(open_claimed(sealed, secrecy))


def open_claimed(sealed: bytes, secrecy: Secrecy) -> Request:
    """The same with short headers, which a worker spells once for all requests that share them.
    Raises Unreadable."""
    try:
        if not has_head(sealed):
            return _unpacked(secrecy.open(sealed))
        lane, reference, recurring, packed = heads_of(sealed)
        request = _unpacked(secrecy.open(packed))
        if lane:
            _set_lane(request, lane)
        if reference:  # safe: not shared yet
            msgspec.structs.force_setattr(request, "reference", read_reference(reference))
        if recurring:
            msgspec.structs.force_setattr(request, "recurring", read_recurring(recurring))
        return request
    except _DAMAGED as error:
        raise Unreadable(str(error)) from error


def _set_lane(request: Request, head: bytes) -> None:
    """Raises ValueError also if the head does not say what the request does."""
    lane, *rest = read_lane(head)
    if rest != [request.delivery, request.expires_at_ms]:
        raise ValueError("its lane's head is that of another request")
    msgspec.structs.force_setattr(request, "lane", lane)


def pack_request(request: Request) -> bytes:
    headers = request.headers and short_headers(request.headers)
    what = request.trigger_at_ms, request.method, request.url, headers, request.body
    return pack(*what, tail_of(request))


def pack(
    trigger_at_ms: int,
    method: str,
    url: str,
    headers: dict[str, str] | msgspec.Raw,
    body: bytes | None,
    tail: tuple[object, ...],
) -> bytes:
    """A packed request of its first fields, with short or packed headers, and its `tail_of`."""
    return pack_fields((trigger_at_ms, *short_target(method, url), headers, body, *tail))


def pack_headers(headers: dict[str, str]) -> msgspec.Raw:
    """Headers for `pack`, where many requests have the same."""
    return msgspec.Raw(_encode(short_headers(headers)))


def due_at(request: Request | Packed, due_ms: int) -> Request | Packed:
    """The same request with another moment."""
    moved = msgspec.structs.replace(request, trigger_at_ms=due_ms)
    if isinstance(moved, Packed):
        # The moment is the first field of an array, behind its length: one byte, or three.
        packed = moved.request
        head = 3 if packed[0] == _LONG_ARRAY else 1
        rest = packed[head + len(_encode(request.trigger_at_ms)) :]
        moved = msgspec.structs.replace(moved, request=packed[:head] + _encode(due_ms) + rest)
    return moved


def tail_of(request: Request) -> tuple[object, ...]:
    """The fields after the body. Defaults at the end are left out."""
    tail = msgspec.structs.astuple(request)[_HEAD_FIELDS:-_IN_HEADS]
    if tail == _USUAL_TAIL:
        return ()
    count = len(tail)
    while count and tail[count - 1] == _USUAL_TAIL[count - 1]:
        count -= 1
    return tail[:count]


def seal_cancelled(request: Request, secrecy: Secrecy) -> tuple[bytes, bytes]:
    """The outcome of a cancellation, and the request without its body: it will not be fired, and a
    body of a quarter of a megabyte would be kept for no credit."""
    if request.body is None:
        return CANCELLATION, seal_request(request, secrecy)
    kept = msgspec.structs.replace(request, body=None, body_kind=BodyKind.JSON)
    return CANCELLATION_WITH_BODY, seal_request(kept, secrecy)


def unpack_request(packed: bytes) -> Request:
    return _spelt(_unpacked(packed))


def _spelt(request: Request) -> Request:
    if request.headers:  # safe: not shared yet
        msgspec.structs.force_setattr(request, "headers", spelt_headers(request.headers))
    return request


def _unpacked(packed: bytes) -> Request:
    request = _decode_request(packed)
    spelt = BY_LETTER.get(request.method)
    if spelt is not None:  # safe: not shared yet
        method, scheme = spelt
        msgspec.structs.force_setattr(request, "method", method)
        msgspec.structs.force_setattr(request, "url", scheme + request.url)
    return request


def pack_outcome(
    outcome: Outcome, lateness_ms: int | None = None, attempts: int = 1, retry: int = 0
) -> bytes:
    """Of an end; with `retry`, of the attempt before that, or of the last one if its owner stopped
    it then. The server puts the moments first."""
    status, code = NUMBERS[outcome.status], outcome.status_code
    what = (status, code, outcome.response_time_ms, outcome.error_message, lateness_ms)
    if retry:
        return _encode((*what, attempts, outcome.phases, retry))
    if outcome.phases is not None:
        return _encode((*what, attempts, outcome.phases))
    return _encode(what if attempts == 1 else (*what, attempts))


def seal_said(answer: Answer, secrecy: Secrecy) -> bytes:
    return secrecy.seal(_encode((answer.content_type, answer.body)))


def seal_response(response: Response, secrecy: Secrecy) -> bytes:
    return secrecy.seal(_encode(response))


def unpack_attempt(packed: bytes, said: bytes | None = None, secrecy: Secrecy = _IN_CLEAR) -> Retry:
    """The next attempt by an `n` field, with the `s` field beside it. Raises Unreadable."""
    try:
        ended = _decode_outcome(packed[2 * _MOMENT_BYTES :])
        outcome = _outcome(Status.FAILED, ended, said, secrecy)
    except _DAMAGED as error:
        raise Unreadable(str(error)) from error
    return Retry(
        number=ended.retry,
        due_at_ms=moment_of(packed[_MOMENT_BYTES:]),
        attempts=ended.attempts,
        outcome=outcome,
        failed_at_ms=moment_of(packed),
        lateness_ms=ended.lateness_ms,
    )


def moved_attempt(packed: bytes, now_ms: int, *, but_not_from_ms: int) -> tuple[bytes, int] | None:
    """An `n` field of an attempt that ended in the future, as if it had ended now, and when the
    next one is due then; None if it did not, or the next one is due at `but_not_from_ms`."""
    failed_at_ms, due_at_ms = moment_of(packed), moment_of(packed[_MOMENT_BYTES:])
    if failed_at_ms <= now_ms + _CLOCK_SLACK_MS or due_at_ms == but_not_from_ms:
        return None
    due_ms = now_ms + due_at_ms - failed_at_ms
    moments = b"".join(each.to_bytes(_MOMENT_BYTES, "big") for each in (now_ms, due_ms))
    return moments + packed[2 * _MOMENT_BYTES :], due_ms


def ended_status(outcome: bytes) -> Status:
    """The status in an `o` field. Raises Unreadable."""
    try:
        return Status(STATUSES[_decode_outcome(outcome[_MOMENT_BYTES:]).status])
    except _DAMAGED as error:
        raise Unreadable(str(error)) from error


def etag_of(fields: Fields) -> str:
    """A digest of all that is stored of a schedule. That a worker holds it does not show: its owner
    sees no other schedule."""
    digest = hashlib.sha1(fields.packed or b"", usedforsecurity=False)
    for each in fields[1:-1]:
        digest.update(b"-" if each is None else b"%d:%b" % (len(each), each))
    return digest.hexdigest()


def schedule(schedule_id: str, fields: Fields, secrecy: Secrecy) -> Schedule:
    """The schedule that is stored so. Raises Unreadable."""
    request = open_request(fields.packed or b"", secrecy)
    try:
        if fields.outcome is None:
            found = _unended(schedule_id, request, fields, secrecy)
        else:
            found = _ended(schedule_id, request, fields, fields.outcome, secrecy)
        due_ms = found.retry.due_at_ms if found.retry else None
        if not are_moments(request.trigger_at_ms, request.expires_at_ms, found.ended_at_ms, due_ms):
            raise ValueError("it has what is no moment")
        return found
    except _DAMAGED as error:
        raise Unreadable(str(error)) from error


def _unended(schedule_id: str, request: Request, fields: Fields, secrecy: Secrecy) -> Schedule:
    retry = unpack_attempt(fields.attempt, fields.said, secrecy) if fields.attempt else None
    return Schedule(
        schedule_id=schedule_id,
        created_at_ms=ids.created_at_ms(schedule_id),
        request=request,
        status=Status.SCHEDULED,
        executing=fields.held,
        attempts=retry.attempts if retry else 0,
        retry=retry,
    )


def _ended(
    schedule_id: str, request: Request, fields: Fields, outcome: bytes, secrecy: Secrecy
) -> Schedule:
    end = _decode_outcome(outcome[_MOMENT_BYTES:])
    status = Status(STATUSES[end.status])
    cancelled = status is Status.CANCELLED
    return Schedule(
        schedule_id=schedule_id,
        created_at_ms=ids.created_at_ms(schedule_id),
        request=request,
        status=status,
        outcome=None if cancelled else _outcome(status, end, fields.said, secrecy),
        ended_at_ms=moment_of(outcome),
        lateness_ms=end.lateness_ms,
        attempts=0 if cancelled else end.attempts,
        replayed_as=None if fields.replay is None else ids.schedule_id(fields.replay.decode()),
        body_dropped=cancelled and end.status_code == 1,
        stopped=end.retry > 0,
        callback=None if fields.callback is None else open_callback(fields.callback),
        response=_decode_response(secrecy.open(fields.response)) if fields.response else None,
    )


def _outcome(status: Status, end: _StoredOutcome, said: bytes | None, secrecy: Secrecy) -> Outcome:
    answer = None if said is None else Answer(*_decode_said(secrecy.open(said)))
    fields = (status, end.status_code, end.response_time_ms, end.error_message)
    return Outcome(*fields, phases=end.phases, answer=answer)


def moment_of(packed: bytes) -> int:
    """The one (ms) that a field begins with."""
    return int.from_bytes(packed[:_MOMENT_BYTES], "big")
