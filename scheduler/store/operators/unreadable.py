"""What lies in the store and cannot be read: for want of a key, or because it is damaged."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from scheduler import ids
from scheduler.errors import Unreadable
from scheduler.store import keys
from scheduler.store.accounts.signing import secret_of
from scheduler.store.log.entries import chunks_of, unpack_chunk
from scheduler.store.queries.reading import read_rows
from scheduler.store.server import Server
from scheduler.store.stored import schedule

_CHUNKS = 50


async def unreadable_requests(
    server: Server, account_id: str, schedules: Sequence[str]
) -> list[str]:
    """A sentence for each of these schedules of which something cannot be read."""
    found: list[str] = []
    read = 0
    while read < len(schedules):
        left = schedules[read:]
        rows = await read_rows(server, account_id, left)
        read += len(rows)
        for name, fields in zip(left, rows, strict=False):
            try:
                if fields.packed is not None:
                    schedule(ids.schedule_id(name), fields, server.secrecy)
            except Unreadable as error:
                found.append(f"{account_id}: {ids.schedule_id(name)} cannot be read: {error}")
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
