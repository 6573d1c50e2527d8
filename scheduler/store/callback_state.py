"""How the callback of an ended schedule stands, as its field `c`: a letter (`p`ending, `d`elivered,
`f`ailed), the moment when that was noted (ms by the server, six bytes) and, once it was attempted,
a msgpack array."""

from __future__ import annotations

import msgspec

from scheduler.callbacks import CallbackAttempt, CallbackState, CallbackStatus
from scheduler.errors import Unreadable
from scheduler.times import are_moments

STATUSES = {each[0].encode(): each for each in CallbackStatus}
_HEAD_BYTES = 1 + 6


class _Stored(msgspec.Struct, array_like=True):
    """Of the last attempt; its number as a retry, from 0, and when the next one is due (ms); and,
    if there are any, the attempts before it."""

    attempts: int = 0
    status_code: int = 0
    response_time_ms: int = 0
    error_message: str = ""
    retry: int = 0
    next_at_ms: int | None = None
    earlier: tuple[CallbackAttempt, ...] = ()


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Stored).decode


def pack_callback(state: CallbackState) -> tuple[str, bytes]:
    """The letter and the array of a `c` field; the server puts its moment between."""
    last = (state.attempts, state.status_code, state.response_time_ms, state.error_message)
    what = (*last, state.retry, state.next_attempt_at_ms)
    return state.status[0], _encode((*what, state.earlier) if state.earlier else what)


def open_callback(packed: bytes) -> CallbackState:
    """How a callback stands by a `c` field. Raises Unreadable."""
    try:
        status, at_ms = STATUSES[packed[:1]], int.from_bytes(packed[1:_HEAD_BYTES], "big")
        if len(packed) == _HEAD_BYTES:
            return CallbackState(status, next_attempt_at_ms=at_ms)
        s = _decode(packed[_HEAD_BYTES:])
        last = (s.attempts, s.status_code, s.response_time_ms, s.error_message, at_ms)
        if not are_moments(at_ms, s.next_at_ms, *(each.at_ms for each in s.earlier)):
            raise ValueError("it has what is no moment")
        return CallbackState(status, *last, s.next_at_ms, s.retry, s.earlier)
    except (msgspec.MsgspecError, ValueError, LookupError) as error:
        raise Unreadable(str(error)) from error


def moved_callback(packed: bytes, now_ms: int) -> tuple[bytes, int] | None:
    """The part of a `c` field after its moment, with the moments that hold now, and when the next
    attempt is due; None if it was not noted in the future. Raises Unreadable."""
    state, noted_ms = open_callback(packed), int.from_bytes(packed[1:_HEAD_BYTES], "big")
    if state.next_attempt_at_ms is None or noted_ms <= now_ms:
        return None
    due_ms = state.next_attempt_at_ms - (noted_ms - now_ms)
    if len(packed) == _HEAD_BYTES:
        return b"", due_ms
    return pack_callback(msgspec.structs.replace(state, next_attempt_at_ms=due_ms))[1], due_ms
