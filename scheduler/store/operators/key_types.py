"""Whether each key is of the kind that its name says: a script that meets another ends there."""

from __future__ import annotations

from scheduler.store import keys
from scheduler.store.operators.damage import text
from scheduler.store.server import Server

_SCAN_COUNT = 500


def _by_name(**names: tuple[str, ...]) -> dict[str, str]:
    return {name: kind for kind, some in names.items() for name in some}


_BESIDE = _by_name(hash=("meta", "workers", "apis"), string=("name:", "email:", "attempts:"))
_OF_A_SHARD = _by_name(
    zset=(keys.HEADS, keys.PARKED, keys.ACCOUNTS),
    string=(keys.BACKLOG, keys.HOLD, keys.KEY_ID, keys.WAITED),
    hash=(keys.API_KEY, keys.SESSION, keys.LINK),
)
_OF_AN_ACCOUNT = _by_name(
    hash=(
        *(keys.ACCOUNT, keys.LEAVING, keys.HOLDER, keys.EXPIRING, keys.TRIED, keys.SCHEDULE),
        *(keys.LOGGED, keys.MINUTE, keys.HOUR, keys.DAY),
    ),
    zset=(keys.KEYS, keys.SESSIONS, keys.WAITING, keys.HELD, keys.FAILED),
    stream=(keys.LOG, keys.INDEX),
    string=(keys.ONCE, keys.RATE, keys.SCANS, keys.OPERATION),
    list=(keys.SIGNING,),
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
    _, _, of_shard = key.partition("}:")
    _, colon, of_account = of_shard.partition(":")
    return _kind(of_shard, _OF_A_SHARD) or (_kind(of_account, _OF_AN_ACCOUNT) if colon else None)


def _kind(name: str, kinds: dict[str, str]) -> str | None:
    """By the whole name, or by how it begins up to a colon."""
    head, colon, _ = name.partition(":")
    return kinds.get(head + colon)
