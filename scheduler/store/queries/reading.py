"""Reading many schedules: in a few round trips, and within bounds of number and bytes."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import NamedTuple

import structlog

from scheduler import ids
from scheduler.errors import Damaged, NotFound, Unreadable
from scheduler.models import Schedule
from scheduler.store import keys, stored
from scheduler.store.queries.timeline import Found, Place, Span
from scheduler.store.scans import Scan
from scheduler.store.secrecy import SEALED, Secrecy
from scheduler.store.server import Server
from scheduler.store.stored import FIELDS, Fields

# How many members one page may look at, and how many one round trip brings; and how many bytes of
# requests. A page that is over one of these is short.
CHUNK_BYTES = 1024 * 1024
_BUDGET = 2000
_CHUNK = 200
_MOST_BYTES = 4 * 1024 * 1024
_UNKNOWN = "There is no such schedule"

_log = structlog.get_logger(__name__)

# The next ones of a stretch, of which at most so many are looked at; and how many bytes were read.
Chunk = Callable[[Span, int], Awaitable[tuple[Found[Schedule], int]]]


class Stored(NamedTuple):
    """A schedule, and its request as it is packed in the store."""

    schedule: Schedule
    packed: bytes


async def read_on(
    chunk: Chunk, stretch: Span, limit: int, wanted: Callable[[Schedule], bool]
) -> Found[Schedule]:
    """At least `limit` wanted ones, if the budget reaches so far. Read-only."""
    found: list[tuple[Place, Schedule]] = []
    reached: Place | None = stretch.after
    looked_at, read_bytes, most = 0, 0, min(limit, _CHUNK)
    while (
        reached is not None
        and len(found) < limit
        and looked_at < _BUDGET
        and read_bytes < _MOST_BYTES
    ):
        chunk_found, chunk_bytes = await chunk(stretch._replace(after=reached), most)
        found += [each for each in chunk_found.entries if wanted(each[1])]
        looked_at, read_bytes = looked_at + most, read_bytes + chunk_bytes
        left = limit - len(found)
        most = min(_CHUNK, math.ceil(left * looked_at / len(found)) if found else _CHUNK)
        reached = chunk_found.reached
    return Found(found, reached)


@contextmanager
def whole(schedule_id: str) -> Iterator[None]:
    """Around what reads one of them. Raises Damaged of what nobody can read, and tells of it;
    Unreadable of what another process can, which has another key."""
    try:
        yield
    except Unreadable as error:
        if error.key_id:
            raise
        _log.error("it is damaged and cannot be read", schedule=schedule_id, error=str(error))
        raise Damaged(schedule_id) from error


async def read_one(server: Server, account_id: str, schedule_id: str) -> Fields:
    """Raises NotFound; Unreadable if something else lies there. Read-only."""
    if not ids.is_schedule_id(schedule_id):
        raise NotFound(_UNKNOWN)
    key, held = keys.schedule(account_id, schedule_id), keys.account(account_id) + keys.HELD
    row, since = await server.reads(
        [("HMGET", key, *FIELDS), ("ZSCORE", held, ids.local(schedule_id))]
    )
    if row[0] is None:
        raise NotFound(_UNKNOWN)
    return Fields(*row)._replace(held=since is not None)


async def read_rows(
    server: Server, base: str, schedules: Sequence[str], *, light: bool = False
) -> list[Fields]:
    """Fields of schedules below an account's prefix: of as many as are within the bytes of a chunk,
    and of the first whatever it weighs; of all where they are known to be `light`. Where another
    type of key lies, the request is empty. Read-only."""
    names = [base + keys.SCHEDULE + each for each in schedules]
    if not light:
        sizes = await server.reads([("HSTRLEN", name, "r") for name in names], damaged=True)
        weights = accumulate(0 if isinstance(size, Unreadable) else size for size in sizes)
        names = names[: bisect_left(list(weights), CHUNK_BYTES) + 1]
    rows = await server.reads([("HMGET", name, *FIELDS) for name in names], damaged=True)
    return [Fields(b"") if isinstance(row, Unreadable) else Fields(*row) for row in rows]


async def read_by_id(
    server: Server, account_id: str, schedule_ids: Sequence[str]
) -> AsyncIterator[list[Stored | Damaged | None]]:
    """Schedules in the order of their ids, None for unknown ones, Damaged for those that nobody can
    read; as many at a time as are within the bytes of a chunk. Read-only."""
    base, read = keys.account(account_id), 0
    while read < len(schedule_ids):
        wanted = schedule_ids[read : read + _CHUNK]
        rows = await read_rows(server, base, list(map(ids.local, wanted)))
        some = zip(wanted, rows, strict=False)
        found = [_stored_or_damaged(name, fields, server.secrecy) for name, fields in some]
        read += len(found)
        yield found


async def read_list(
    server: Server,
    account_id: str,
    members: Found[bool],
    part: bytes,
    scan: Scan,
    *,
    light: bool,
) -> tuple[Found[Schedule], int]:
    """The schedules that stand at some places, each with whether a worker holds it; and how many
    bytes were read. Left out are those that are damaged, and those that cannot have `part` (from
    `kept_part`) in their URL. Read-only."""
    names = [place.tie for place, _ in members.entries]
    rows = await read_rows(server, keys.account(account_id), names, light=light)
    found: list[tuple[Place, Schedule]] = []
    unpacked = 0
    for (place, held), fields in zip(members.entries, rows, strict=False):
        if fields.packed and _may_have(fields.packed, part):
            unpacked += 1
            name = ids.schedule_id(place.tie)
            each = _stored_or_damaged(name, fields._replace(held=held), server.secrecy)
            if isinstance(each, Stored):
                found.append((place, each.schedule))
    read_bytes = sum(len(each.packed or b"") + len(each.said or b"") for each in rows)
    scan.add(len(names), unpacked, read_bytes)
    reached = members.reached if len(rows) == len(names) else members.entries[len(rows) - 1][0]
    return Found(found, reached), read_bytes


def _may_have(packed: bytes, part: bytes) -> bool:
    return not part or packed.startswith(SEALED) or part in packed.lower()


def _stored_or_damaged(
    schedule_id: str, fields: Fields, secrecy: Secrecy
) -> Stored | Damaged | None:
    """Raises Unreadable where a key is missing, which others have."""
    if fields.packed is None:
        return None
    try:
        with whole(schedule_id):
            return Stored(stored.schedule(schedule_id, fields, secrecy), fields.packed)
    except Damaged as damaged:
        return damaged
