"""The heads of a stored request, in clear for scripts: its lane, its reference, its rule.

Of a lane: LANED, its length in a byte, its characters, then what a claim has to know of a request
that it may not start yet: a byte, "1" for at-most-once and "0" otherwise, and when it expires (ms,
six bytes; 0: never). Of a reference: REFERRED, its length in a byte, and its characters. Of an
occurrence of a recurring schedule: RECURRING, the 26 characters of the rule's local id, and the
slot (ms, six bytes; 0: none).
"""

from __future__ import annotations

from typing import NamedTuple

from scheduler import ids
from scheduler.lanes import is_lane
from scheduler.models import Delivery, Occurrence
from scheduler.references import is_reference

# No array and no sealed request begins with one of them, or with any byte of ASCII.
LANED, REFERRED, RECURRING = ord("#"), ord("@"), ord("~")
# Weight of a member of an account's `references`, beside its own bytes.
REFERENCE_BYTES = 64
# Weight of the further member that a schedule with a lane needs until it ends.
LANE_BYTES = 96
_NOT_ASCII = b"\x80"
# What such a member has beside the reference: a NUL and the schedule.
_MEMBER_BYTES = 27
# Of a lane's head, beside its characters.
_LANE_HEAD_BYTES = 9
_MOMENT_BYTES = 6
# Of an occurrence's head: its sign and the rule, which the slot follows.
_BEFORE_SLOT_BYTES = 1 + 26
_RECURRING_HEAD_BYTES = _BEFORE_SLOT_BYTES + _MOMENT_BYTES


class Heads(NamedTuple):
    """The three heads (b"": it has none), and the request behind them."""

    lane: bytes
    reference: bytes
    recurring: bytes
    request: bytes


class Names(NamedTuple):
    """How the row of a schedule ends: lane and reference ("": none), and what these make it weigh
    beside its own bytes."""

    lane: str
    reference: str
    weight_bytes: int


NO_NAMES = Names("", "", 0)


class LaneHead(NamedTuple):
    lane: str
    delivery: Delivery
    expires_at_ms: int | None


def lane_head(lane: str, delivery: Delivery, expires_at_ms: int | None) -> bytes:
    """The head of a request with this lane."""
    once = b"1" if delivery is Delivery.AT_MOST_ONCE else b"0"
    expires = (expires_at_ms or 0).to_bytes(6, "big")
    return bytes((LANED, len(lane))) + lane.encode("ascii") + once + expires


def reference_head(reference: str) -> bytes:
    """The head of a request with this reference, behind the lane's."""
    return bytes((REFERRED, len(reference))) + reference.encode("ascii")


def names_of(lane: str | None, reference: str | None) -> Names:
    """Their weight is what `heads_of` of `heads.inc.lua` says, too."""
    if lane is None and reference is None:
        return NO_NAMES
    weight = LANE_BYTES if lane is not None else 0
    if reference is not None:
        weight += REFERENCE_BYTES + len(reference) + _MEMBER_BYTES
    return Names(lane or "", reference or "", weight)


def recurring_head(occurrence: Occurrence) -> bytes:
    """The head of an occurrence, behind the others."""
    rule = ids.local(occurrence.recurring_id).encode("ascii")
    slot = (occurrence.slot_ms or 0).to_bytes(_MOMENT_BYTES, "big")
    return bytes((RECURRING,)) + rule + slot


def with_slot(stored: bytes, slot_ms: int) -> tuple[bytes, bytes]:
    """Of a stored request whose only head is RECURRING: that head with another slot, and the
    request behind it."""
    head = stored[:_BEFORE_SLOT_BYTES] + slot_ms.to_bytes(_MOMENT_BYTES, "big")
    return head, stored[_RECURRING_HEAD_BYTES:]


def heads_of(stored: bytes) -> Heads:
    if not has_head(stored):
        return Heads(b"", b"", b"", stored)
    start = middle = 0
    if stored[0] == LANED:
        start = middle = _LANE_HEAD_BYTES + _length(stored, 0)
    if stored[start : start + 1] == b"@":
        middle = start + 2 + _length(stored, start)
    end = middle
    if stored[middle : middle + 1] == b"~":
        end = middle + _RECURRING_HEAD_BYTES
    return Heads(stored[:start], stored[start:middle], stored[middle:end], stored[end:])


def has_head(stored: bytes) -> bool:
    return b"" < stored[:1] < _NOT_ASCII


def head_of(stored: bytes) -> tuple[bytes, bytes]:
    """The heads of a stored request, and the request itself."""
    lane, reference, recurring, request = heads_of(stored)
    return lane + reference + recurring, request


def _length(stored: bytes, start: int) -> int:
    """Of a name, by the head that begins there."""
    return (stored[start + 1 : start + 2] or b"\0")[0]


def lane_of(stored: bytes) -> str | None:
    """The lane of a stored request, which is not opened. Raises ValueError for a damaged head."""
    return read_lane(heads_of(stored).lane).lane if stored[:1] == b"#" else None


def is_in_lane(stored: bytes, lane: str) -> bool:
    """Whether a stored request, which is not opened, has this lane."""
    return stored.startswith(bytes((LANED, len(lane))) + lane.encode("ascii"))


def is_occurrence_of(stored: bytes, recurring_id: str) -> bool:
    """Whether a stored request, which is not opened, has this rule."""
    return heads_of(stored).recurring[1:-_MOMENT_BYTES] == ids.local(recurring_id).encode()


def read_lane(head: bytes) -> LaneHead:
    """The contents of a lane's head. Raises ValueError."""
    lane, once = head[2:-7].decode("ascii"), head[-7:-6]
    if not is_lane(lane) or once not in (b"0", b"1"):
        raise ValueError("its lane can be none")
    delivery = Delivery.AT_MOST_ONCE if once == b"1" else Delivery.AT_LEAST_ONCE
    return LaneHead(lane, delivery, int.from_bytes(head[-6:], "big") or None)


def read_reference(head: bytes) -> str:
    """The reference in a head. Raises ValueError."""
    reference = head[2:].decode("ascii")
    if not is_reference(reference):
        raise ValueError("its reference can be none")
    return reference


def read_recurring(head: bytes) -> Occurrence:
    """The contents of an occurrence's head. Raises ValueError."""
    rule, slot = head[1:-_MOMENT_BYTES].decode("ascii"), head[-_MOMENT_BYTES:]
    if not ids.is_recurring_id(recurring_id := ids.recurring_id(rule)):
        raise ValueError("its rule can be none")
    return Occurrence(recurring_id, int.from_bytes(slot, "big") or None)


def reference_member(reference: str, schedule: str) -> bytes:
    """The schedule, by its local id, in `references`: the order is by reference, then by id."""
    return f"{reference}\0{schedule}".encode("ascii")


def letter_member(reference: str | None, schedule: str) -> str:
    """The member of `failed` for a schedule, by its local id. A script that trims `failed` finds
    the reference in it."""
    return schedule if reference is None else f"{schedule}\0{reference}"


def split_letter(member: bytes) -> tuple[bytes, bytes]:
    """The schedule of a member of `failed`, and what that is in `failed_references` (b"": no
    reference)."""
    schedule, nul, reference = member.partition(b"\0")
    return schedule, reference + nul + schedule if nul else b""


def split_member(member: bytes) -> tuple[str, str]:
    """Its reference and schedule. Raises ValueError."""
    reference, schedule = member.decode("ascii").split("\0")
    return reference, schedule
