"""Reading schedules by id: many in a few round trips, within bounds of number and bytes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import NamedTuple

import structlog

from scheduler import ids
from scheduler.errors import Damaged, UnknownSchedule, Unreadable
from scheduler.models import Schedule
from scheduler.runtime.pause import collected
from scheduler.store import keys, stored
from scheduler.store.secrecy import Secrecy
from scheduler.store.server import Server
from scheduler.store.stored import FIELDS, RESPONSE, Fields

# How many schedules one round trip brings, and how many bytes of requests.
CHUNK = 50
CHUNK_BYTES = 1024 * 1024

_log = structlog.get_logger(__name__)


class Stored(NamedTuple):
    """A schedule, and what the store has of it."""

    schedule: Schedule
    fields: Fields

    @property
    def packed(self) -> bytes:
        return self.fields.packed or b""

    @property
    def etag(self) -> str:
        """Names all that is stored of it."""
        return stored.etag_of(self.fields)


@contextmanager
def whole(schedule_id: str) -> Iterator[None]:
    """Wraps the reading of one schedule. Raises Damaged if it is unreadable, and logs it;
    Unreadable if only a process with another key can read it."""
    try:
        yield
    except Unreadable as error:
        if error.key_id:
            raise
        _log.error("it is damaged and cannot be read", schedule=schedule_id, error=str(error))
        raise Damaged(schedule_id) from error


async def read_one(server: Server, account_id: str, schedule_id: str) -> Fields:
    """Raises UnknownSchedule; Unreadable if something else lies there. Read-only."""
    if not ids.is_schedule_id(schedule_id):
        raise UnknownSchedule
    key, held = keys.schedule(account_id, schedule_id), keys.account(account_id) + keys.HELD
    row, since = await server.reads(
        [("HMGET", key, *FIELDS), ("ZSCORE", held, ids.local(schedule_id))]
    )
    if row[0] is None:
        raise UnknownSchedule
    return Fields(*row)._replace(held=since is not None)


async def read_stored(server: Server, account_id: str, schedule_id: str) -> Stored:
    """As it stands. Raises NotFound, Damaged; Unreadable where another process has the key."""
    with whole(schedule_id):
        found = await read_one(server, account_id, schedule_id)
        return Stored(stored.schedule(schedule_id, found, server.secrecy), found)


async def read_rows(
    server: Server,
    base: str,
    schedules: Sequence[str],
    *,
    light: bool = False,
    fields: Sequence[str] = FIELDS,
    kind: str = keys.SCHEDULE,
) -> list[Fields]:
    """`fields`, the first ones of FIELDS, or all with RESPONSE behind them, of schedules below an
    account's prefix: of as many as are within the bytes of a chunk (requests, and answers for
    callbacks), and of the first whatever it weighs; of all where they are known to be `light`.
    Where another type of key lies, the request is empty. With RULE for `kind`, of
    recurring schedules, which have only the request in common. Read-only."""
    names = [base + kind + each for each in schedules]
    if not light:
        long = [each for each in ("r", RESPONSE) if each in fields]
        asked = [("HSTRLEN", name, each) for name in names for each in long]
        sizes = await server.reads(asked, damaged=True)
        sums = list(accumulate(0 if isinstance(size, Unreadable) else size for size in sizes))
        names = names[: bisect_left(sums[len(long) - 1 :: len(long)], CHUNK_BYTES) + 1]
    rows = await server.reads([("HMGET", name, *fields) for name in names], damaged=True)
    return [Fields(b"") if isinstance(row, Unreadable) else Fields(*row) for row in rows]


async def read_by_id(
    server: Server, account_id: str, schedule_ids: Sequence[str]
) -> AsyncIterator[list[Stored | Damaged | None]]:
    """Schedules in the order of their ids, None for unknown ones, Damaged for those that are not
    readable; as many at a time as are within the bytes of a chunk. Read-only."""
    base, read = keys.account(account_id), 0
    while read < len(schedule_ids):
        wanted = schedule_ids[read : read + CHUNK]
        rows = await read_rows(server, base, list(map(ids.local, wanted)))
        some = zip(wanted, rows, strict=False)
        found = await collected(stored_or_damaged(*each, server.secrecy) for each in some)
        read += len(found)
        yield found


def stored_or_damaged(
    schedule_id: str, fields: Fields, secrecy: Secrecy
) -> Stored | Damaged | None:
    """Raises Unreadable where a key is missing, which others have."""
    if fields.packed is None:
        return None
    try:
        with whole(schedule_id):
            return Stored(stored.schedule(schedule_id, fields, secrecy), fields)
    except Damaged as damaged:
        return damaged
