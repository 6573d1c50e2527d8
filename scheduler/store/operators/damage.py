"""Damage as a finding: a key of another kind, or with foreign content."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import msgspec

from scheduler import ids
from scheduler.errors import StoreRefused
from scheduler.store import keys
from scheduler.store.server import Server
from scheduler.store.shards import Shards

_SCAN_COUNT = 500

_DAMAGED = (StoreRefused, msgspec.MsgspecError, ValueError)


@contextmanager
def noting_damage(found: list[str], what: str) -> Iterator[None]:
    """Around a look at something: damage becomes a finding. That the store is away does not."""
    try:
        yield
    except _DAMAGED as error:
        why = str(error).partition(" script: ")[0]
        found.append(f"{what} cannot be read: {why}")


def text(stored: bytes) -> str:
    """What should be text, shown whatever it is."""
    return stored.decode(errors="backslashreplace")


def schedule_or_none(local: bytes) -> str | None:
    """A schedule as the store spells it; None if it can be none."""
    found = text(local)
    return found if ids.is_schedule_id(ids.schedule_id(found)) else None


async def accounts_of(server: Server, shards: Shards, damaged: list[str]) -> AsyncIterator[str]:
    """The ids of all accounts. Of a shard whose list is damaged, `damaged` gets a sentence."""
    for shard in range(await shards.newest()):
        key = keys.shard(shard) + keys.ACCOUNTS
        with noting_damage(damaged, f"the list of accounts of shard {shard}"):
            async for some in server.members("ZSCAN", key, _SCAN_COUNT):
                for local in some:
                    yield ids.account_id(shard, text(local))
