"""How a schedule looks in the store: msgpack, opaque to the scripts but for its status.

`r` is the request. `o`, once it has ended, is the moment (six bytes, ms, by the server) and then
the outcome; `a`, once it was replayed, the schedule that was made of it. Its creation is not
stored: its id tells it.
"""

from __future__ import annotations

import msgspec

from scheduler import ids
from scheduler.models import BodyKind, Delivery, Outcome, Request, Schedule, Status

_encode = msgspec.msgpack.Encoder().encode
_decode_request = msgspec.msgpack.Decoder(Request).decode

# Statuses by number. The order is the stored format.
STATUSES = (Status.SCHEDULED, Status.COMPLETED, Status.FAILED, Status.CANCELLED)
NUMBERS = {status: number for number, status in enumerate(STATUSES)}
# What the scripts know of a packed outcome: its second byte is the number of its status.
FAILED, CANCELLED = NUMBERS[Status.FAILED], NUMBERS[Status.CANCELLED]
# The place of the status code says whether there was a body, which is not kept.
CANCELLATION = _encode([CANCELLED])
CANCELLATION_WITH_BODY = _encode([CANCELLED, 1])

_MOMENT_BYTES = 6


class _StoredOutcome(msgspec.Struct, array_like=True):
    status: int
    status_code: int = 0
    response_time_ms: int = 0
    error_message: str = ""
    lateness_ms: int | None = None


_decode_outcome = msgspec.msgpack.Decoder(_StoredOutcome).decode


def pack_request(request: Request) -> bytes:
    """What most leave out is left out at the end of the array too."""
    usual = request.delivery is Delivery.AT_LEAST_ONCE and request.method_given
    usual = usual and request.body_kind is BodyKind.JSON and request.replay_of is None
    if usual and request.expires_at_ms is None:
        what = (request.trigger_at_ms, request.method, request.url, request.headers, request.body)
        return _encode(what)
    return _encode(request)


def pack_cancelled(request: Request) -> tuple[bytes, bytes]:
    """The outcome of a cancellation, and what is kept of the request: nobody will fire it, and a
    body of a quarter of a megabyte would lie there for no credit."""
    if request.body is None:
        return CANCELLATION, pack_request(request)
    kept = msgspec.structs.replace(request, body=None, body_kind=BodyKind.JSON)
    return CANCELLATION_WITH_BODY, pack_request(kept)


def unpack_request(packed: bytes) -> Request:
    return _decode_request(packed)


def pack_outcome(outcome: Outcome, lateness_ms: int | None = None) -> bytes:
    """The moment is not in it: the server puts it before."""
    status, code = NUMBERS[outcome.status], outcome.status_code
    return _encode((status, code, outcome.response_time_ms, outcome.error_message, lateness_ms))


def ended_at_ms(outcome: bytes) -> int:
    """The moment in an `o` field."""
    return int.from_bytes(outcome[:_MOMENT_BYTES], "big")


def ended_status(outcome: bytes) -> Status:
    """The status in an `o` field."""
    return STATUSES[_decode_outcome(outcome[_MOMENT_BYTES:]).status]


def schedule(
    schedule_id: str,
    request: Request,
    outcome: bytes | None = None,
    replay: bytes | None = None,
    *,
    executing: bool = False,
) -> Schedule:
    """What the fields of a stored schedule mean; `replay` is `a`."""
    waiting = Schedule(
        schedule_id=schedule_id,
        created_at_ms=ids.created_at_ms(schedule_id),
        request=request,
        status=Status.SCHEDULED,
        executing=executing,
    )
    if outcome is None:
        return waiting
    end = _decode_outcome(outcome[_MOMENT_BYTES:])
    status = STATUSES[end.status]
    return msgspec.structs.replace(
        waiting,
        status=status,
        executing=False,
        outcome=None
        if status is Status.CANCELLED
        else Outcome(status, end.status_code, end.response_time_ms, end.error_message),
        ended_at_ms=ended_at_ms(outcome),
        lateness_ms=end.lateness_ms,
        replayed_as=None if replay is None else ids.schedule_id(replay.decode()),
        body_dropped=status is Status.CANCELLED and end.status_code == 1,
    )
