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


def _by_name(**names: tuple[str, ...]) -> dict[str, str]:
    return {name: kind for kind, some in names.items() for name in some}


# The names of what lies beside the shards, up to their first colon.
_STREAMS = (keys.SERVICE_EVENTS, keys.ACTS)
_BESIDE = _by_name(
    hash=("meta", "workers", "apis", "filling"),
    string=("name:", "email:", "attempts:"),
    stream=tuple(each.removeprefix(keys.ROOT).partition(":")[0] + ":" for each in _STREAMS),
)
_OF_A_SHARD = _by_name(
    zset=(
        keys.HEADS,
        keys.PARKED,
        keys.ACCOUNTS,
        keys.RESUMED,
        keys.CALLBACK_HEADS,
        keys.RULES_DUE,
        keys.BULK_DUE,
    ),
    string=(keys.BACKLOG, keys.HOLD, keys.KEY_ID, keys.WAITED),
    hash=(keys.API_KEY, keys.SESSION, keys.LINK),
)
_OF_AN_ACCOUNT = _by_name(
    hash=(
        *(keys.ACCOUNT, keys.LEAVING, keys.MEMBER, keys.EXPIRING, keys.TRIED, keys.SCHEDULE),
        *(keys.LOGGED, keys.MINUTE, keys.HOUR, keys.DAY, keys.LANE, keys.CALLBACK),
        *(keys.RULE, keys.RULE_NAMES, keys.BULK),
    ),
    zset=(
        *(keys.KEYS, keys.MEMBERS, keys.INVITED, keys.SESSIONS),
        *(keys.WAITING, keys.HELD, keys.FAILED),
        *(keys.REFERENCES, keys.FAILED_REFERENCES, keys.LANED, keys.LANES),
        *(keys.LANE_HEADS, keys.LANE_QUEUE, keys.LANES_PAUSED),
        *(keys.CALLBACKS, keys.CALLING, keys.FAILED_CALLBACKS),
        *(keys.RULES, keys.RULE_STATES, keys.BULKS),
    ),
    stream=(keys.LOG, keys.INDEX, keys.EVENTS),
    string=(keys.ONCE, keys.RATE, keys.RESENDS, keys.SCANS, keys.NOTED, keys.OPERATION),
    list=(keys.SIGNING, keys.ROTATIONS, keys.BULK_MADE, keys.RULES_DELETED),
)
_GONE = "none"


async def of_other_kinds(server: Server) -> list[str]:
    """A sentence for each key whose kind is not its name's. Read-only; scans all names."""
    found: list[str] = []
    async for chunk in server.keys(keys.ROOT + "*", _SCAN_COUNT):
        known = [(key, kind) for key in map(text, chunk) if (kind := kind_of(key)) is not None]
        replies = await server.reads([("TYPE", key) for key, _ in known])
        for (key, expected), reply in zip(known, replies, strict=True):
            kind = reply.decode() if isinstance(reply, bytes) else str(reply)
            if kind not in (expected, _GONE):
                found.append(f"{key} is a {kind}, and should be a {expected}")
    return found


def kind_of(key: str) -> str | None:
    """The kind of a key that is so named; None if it is none of ours."""
    if not key.startswith(keys.ROOT):
        return None
    if not key.startswith(keys.ROOT + "{"):
        return _kind(key.removeprefix(keys.ROOT), _BESIDE)
    _, _, of_shard = key.partition("}")
    _, colon, of_account = of_shard.partition(":")
    if ids.is_schedule_id(ids.schedule_id(of_account)):
        return _OF_AN_ACCOUNT[keys.SCHEDULE]
    return _kind(of_shard, _OF_A_SHARD) or (_kind(of_account, _OF_AN_ACCOUNT) if colon else None)


def _kind(name: str, kinds: dict[str, str]) -> str | None:
    """By the whole name, or by how it begins up to a colon."""
    head, colon, _ = name.partition(":")
    return kinds.get(head + colon)
