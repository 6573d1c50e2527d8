"""What was decided of a batch's items, kept with its Idempotency-Key: which of them were accepted,
and when they were judged. Pure.

Whether an item is fine can depend on the moment, and on rules that change with the settings: a
repeat that judged anew could give an item's id to its neighbour.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

_MOMENT_BYTES = 6


class Verdicts(NamedTuple):
    """`accepted` has an element for each item, in order; `judged_at_ms` is None if it does not
    matter, because all were accepted."""

    accepted: Sequence[bool]
    judged_at_ms: int | None


def pack_verdicts(accepted: Sequence[bool], judged_at_ms: int) -> bytes:
    """The moment in 6 bytes and a bit for each item; nothing at all if all were accepted."""
    if all(accepted):
        return b""
    bits = sum(1 << place for place, each in enumerate(accepted) if each)
    size_bytes = (len(accepted) + 7) // 8
    return judged_at_ms.to_bytes(_MOMENT_BYTES, "big") + bits.to_bytes(size_bytes, "little")


def unpack_verdicts(packed: bytes, count: int) -> Verdicts:
    """The verdicts on `count` items."""
    if not packed:
        return Verdicts([True] * count, None)
    bits = int.from_bytes(packed[_MOMENT_BYTES:], "little")
    accepted = [bool(bits >> place & 1) for place in range(count)]
    return Verdicts(accepted, int.from_bytes(packed[:_MOMENT_BYTES], "big"))
