"""The stored request of an occurrence, made of its rule's one in half the time of packing it."""

from __future__ import annotations

import msgspec

from scheduler.errors import Unreadable
from scheduler.models import Occurrence
from scheduler.store.heads import RECURRING, heads_of, recurring_head
from scheduler.store.secrecy import Secrecy
from scheduler.store.stored import unpack_request

# How an array of up to 15 values begins in MessagePack, and a whole number of eight bytes, which
# one below the last has in fewer.
_SHORT_ARRAY, _LONG, _SHORTER = range(0x90, 0xA0), b"\xcf", 1 << 32


def timed(packed: bytes, mark: Occurrence, trigger_at_ms: int, secrecy: Secrecy) -> bytes | None:
    """What `seal_request` makes of a rule's stored request with this time and mark; None where the
    long way is to be gone: it has a lane or a reference, is unusual, or cannot be read."""
    if packed[:1] != bytes((RECURRING,)) or trigger_at_ms < _SHORTER:
        return None
    try:
        text = secrecy.open(heads_of(packed).request)
        if text[0] not in _SHORT_ARRAY or text[1] != 0:
            return None
        unpack_request(text)  # a damaged one makes no occurrence
    except (Unreadable, msgspec.MsgspecError, ValueError, LookupError):
        return None
    made = b"%b%b%b%b" % (text[:1], _LONG, trigger_at_ms.to_bytes(8, "big"), text[2:])
    return recurring_head(mark) + secrecy.seal(made)
