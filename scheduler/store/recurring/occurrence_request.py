"""The stored request of an occurrence, made of its rule's one in half the time of packing it."""

from __future__ import annotations

import msgspec

from scheduler.errors import Unreadable
from scheduler.store.heads import RECURRING, with_slot
from scheduler.store.secrecy import Secrecy
from scheduler.store.stored import unpack_request

# How an array of up to 15 values begins in MessagePack, and a whole number of eight bytes, which
# one below the last has in fewer.
_SHORT_ARRAY, _LONG, _SHORTER = range(0x90, 0xA0), b"\xcf", 1 << 32
_RECURRING = bytes((RECURRING,))


def timed(packed: bytes, slot_ms: int, trigger_at_ms: int, secrecy: Secrecy) -> bytes | None:
    """What `seal_request` makes of a rule's stored request with this time and slot; None where the
    long way is to be gone: it has a lane or a reference, is unusual, or cannot be read."""
    if packed[:1] != _RECURRING or trigger_at_ms < _SHORTER:
        return None
    head, sealed = with_slot(packed, slot_ms)
    try:
        text = secrecy.open(sealed)
        if text[0] not in _SHORT_ARRAY or text[1] != 0:
            return None
        unpack_request(text)  # a damaged one makes no occurrence
    except (Unreadable, msgspec.MsgspecError, ValueError, LookupError):
        return None
    made = b"%b%b%b%b" % (text[:1], _LONG, trigger_at_ms.to_bytes(8, "big"), text[2:])
    return head + secrecy.seal(made)
