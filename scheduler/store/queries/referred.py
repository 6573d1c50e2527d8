"""Reading on among the schedules that have a reference, of those that have not ended or of dead
letters: by reference, then by id. A cursor holds the member to read on after, which need not exist
any more."""

from __future__ import annotations

import base64

from scheduler import ids
from scheduler.errors import FieldError, InvalidRequest
from scheduler.references import is_reference, matches
from scheduler.store.heads import split_member
from scheduler.store.server import Server


async def read_referred(
    server: Server, index: str, wanted: str, after: bytes | None, most: int, *, down: bool
) -> list[bytes]:
    """The next members of a reference in an index, or of all that begin as `wanted` does before its
    `*`. Read-only."""
    if wanted.endswith("*"):
        low, high = wanted[:-1].encode(), wanted[:-1].encode() + b"\x7f"
    else:
        low, high = wanted.encode() + b"\0", wanted.encode() + b"\1"
    first, last = b"[" + low, b"(" + high
    if after is not None and down:
        last = b"(" + after
    elif after is not None:
        first = b"(" + after
    bounds = (last, first, "BYLEX", "REV") if down else (first, last, "BYLEX")
    page = ("ZRANGE", index, *bounds, "LIMIT", 0, most)
    members: list[bytes] = await server.read(*page)
    return members


def schedule_of(member: bytes) -> str:
    """Its local id; of a damaged member, the name of no schedule."""
    return member.rpartition(b"\0")[2].decode(errors="replace")


def encode_member(member: bytes) -> str:
    return base64.urlsafe_b64encode(member).rstrip(b"=").decode()


def decode_member(cursor: str | None, wanted: str) -> bytes | None:
    """Raises InvalidRequest unless it is a cursor of the list of `wanted`."""
    if cursor is None:
        return None
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        member = base64.urlsafe_b64decode(padded)
        reference, schedule = split_member(member)
        sound = is_reference(reference) and ids.is_schedule_id(ids.schedule_id(schedule))
        if sound and matches(wanted, reference):
            return member
    except ValueError:
        pass
    raise InvalidRequest([FieldError("cursor", "not a cursor from nextCursor")])
