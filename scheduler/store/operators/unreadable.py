"""What lies encrypted in the store and cannot be read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from scheduler import ids
from scheduler.errors import Unreadable
from scheduler.store import keys
from scheduler.store.server import Server

# Each may have a quarter of a megabyte.
_AT_ONCE = 20


async def unreadable_requests(
    server: Server, account_id: str, schedules: Sequence[str]
) -> list[str]:
    """A sentence for each of these schedules whose request, or what its target said, cannot be
    opened. Without a key there is none: a process that lacks one does not start."""
    if not server.secrecy.has_key:
        return []
    found: list[str] = []
    for start in range(0, len(schedules), _AT_ONCE):
        some = [ids.schedule_id(each) for each in schedules[start : start + _AT_ONCE]]
        stored = await server.reads(
            [("HMGET", keys.schedule(account_id, schedule_id), "r", "s") for schedule_id in some]
        )
        for schedule_id, sealed in zip(some, stored, strict=True):
            why = dict.fromkeys(each for one in sealed for each in _why_not(server, one or b""))
            found += [f"{account_id}: {schedule_id} cannot be read: {each}" for each in why]
    return found


async def unreadable_secrets(server: Server, account_id: str) -> list[str]:
    """A sentence if its signing secrets cannot be opened."""
    found = (await server.reads([("LRANGE", keys.account(account_id) + keys.SIGNING, 0, -1)]))[0]
    why = [each for entry in found for each in _why_not(server, entry.split(b" ", 3)[-1])]
    return [f"{account_id}: its signing secret cannot be read: {each}" for each in why]


def _why_not(server: Server, stored: bytes) -> Iterator[str]:
    try:
        server.secrecy.open(stored)
    except Unreadable as error:
        yield str(error)
