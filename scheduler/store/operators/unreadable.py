"""What lies in the store and cannot be read: for want of a key, or because it is damaged."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence

from scheduler import ids
from scheduler.errors import Unreadable
from scheduler.store import keys
from scheduler.store.accounts.signing import secret_of
from scheduler.store.log.entries import chunks_of, unpack_chunk
from scheduler.store.queries.reading import FIELDS, read_rows, stored_of
from scheduler.store.secrecy import Secrecy
from scheduler.store.server import Server

_CHUNKS = 50


async def unreadable_requests(
    server: Server, account_id: str, schedules: Sequence[str]
) -> list[str]:
    """A sentence for each of these schedules of which something cannot be read."""
    found: list[str] = []
    read = 0
    while read < len(schedules):
        left = schedules[read:]
        rows = await read_rows(server, account_id, left, FIELDS)
        read += len(rows)
        for schedule, fields in zip(left, rows, strict=False):
            what = ids.schedule_id(schedule)
            why = _why_not(server.secrecy, what, *fields)
            found += [f"{account_id}: {what} cannot be read: {each}" for each in why]
    return found


async def damaged_chunks(server: Server, account_id: str) -> AsyncIterator[str]:
    """A sentence for each chunk of its log that cannot be read."""
    log, after, page = keys.account(account_id) + keys.LOG, "-", [(b"", b"")]
    while page:
        [found] = await server.reads([("XRANGE", log, after, "+", "COUNT", _CHUNKS)])
        page = chunks_of(found)
        for stream_id, packed in page:
            after = f"({stream_id.decode()}"
            try:
                unpack_chunk(packed)
            except Unreadable as error:
                yield f"{account_id}: {stream_id.decode()} of its log cannot be read: {error}"


async def unreadable_secrets(server: Server, account_id: str) -> list[str]:
    """A sentence if it has no signing secret, or one that cannot be opened."""
    found = (await server.reads([("LRANGE", keys.account(account_id) + keys.SIGNING, 0, -1)]))[0]
    told: list[str] = []
    for entry in found or [b""]:
        try:
            secret_of(entry, server.secrecy)
        except Unreadable as error:
            told.append(f"{account_id}: its signing secret cannot be read: {error}")
    return told


def _why_not(secrecy: Secrecy, schedule_id: str, *fields: bytes | None) -> Iterator[str]:
    try:
        stored_of(secrecy, schedule_id, *fields)
    except Unreadable as error:
        yield str(error)
