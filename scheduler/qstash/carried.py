"""What a message of QStash carries beside its request: the value `door` of
`scheduler.models.Request`. Pure."""

from __future__ import annotations

import msgspec

MOST_BYTES = 512


class CallbackWay(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """How a callback of a message is sent: `Upstash-Callback-*`, or `Upstash-Failure-Callback-*`.
    `retries`: None, as often as the message; `timeout_s`: None, the longest. `headers` are those
    to forward, named in small letters."""

    method: str = "POST"
    retries: int | None = None
    delay_ms: int = 0
    timeout_s: int | None = None
    headers: dict[str, str] = {}


class Carried(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Stored as one msgpack array in the order of the fields: new ones go to the end, with a
    default. `retry_delay` is the expression that the waits were computed from, `flow_value` the
    text of `Upstash-Flow-Control-Value`, `redacted` that of `Upstash-Redact-Fields`,
    `schedule_id` that of `Upstash-Schedule-Id`."""

    caller_ip: str = ""
    retry_delay: str = ""
    flow_value: str = ""
    redacted: str = ""
    callback: CallbackWay | None = None
    failure_callback: CallbackWay | None = None
    schedule_id: str = ""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Carried).decode
_NOTHING, _DAMAGED = Carried(), Carried(redacted="body,header")


def pack(carried: Carried) -> bytes:
    """The `door` value. Raises ValueError if it is too long."""
    packed = _encode(carried)
    if len(packed) > MOST_BYTES:
        raise ValueError(f"What is kept of it has {len(packed):,} bytes, of at most {MOST_BYTES}.")
    return packed


def opened(door: bytes | None) -> Carried:
    """What a `door` value says: nothing if the schedule is no message. Nothing of a damaged one
    counts, and all that it may have redacted is hidden."""
    try:
        return _NOTHING if door is None else _decode(door)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return _DAMAGED
