"""What a schedule that was made as a QStash message carries, beside its request: the value `door`
of `scheduler.models.Request`. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

MOST_BYTES = 512


class CallbackWay(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """How a callback of a message is sent: `Upstash-Callback-*`, or `Upstash-Failure-Callback-*`.
    None: as Postdate sends its own. `headers` are those to forward."""

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
_DEFAULTS: tuple[Any, ...] = Carried.__struct_defaults__


def pack(carried: Carried) -> bytes:
    """The `door` value. Defaults at its end are left out. Raises ValueError if it is too long."""
    what = msgspec.structs.astuple(carried)
    count = len(what)
    while count and what[count - 1] == _DEFAULTS[count - 1]:
        count -= 1
    packed = _encode(what[:count])
    if len(packed) > MOST_BYTES:
        raise ValueError(f"What is kept of it has {len(packed):,} bytes, of at most {MOST_BYTES}.")
    return packed


def opened(door: bytes | None) -> Carried | None:
    """What a `door` value says; None: the schedule is no message. Raises ValueError."""
    try:
        return None if door is None else _decode(door)
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from error
