"""Whether each key is of the kind that its name says: a script that meets another ends there."""

from __future__ import annotations

from scheduler.store import keys
from scheduler.store.operators.damage import text
from scheduler.store.server import Server

_SCAN_COUNT = 500

_BESIDE = {
    "meta": "hash",
    "workers": "hash",
    "apis": "hash",
    "name:": "string",
    "email:": "string",
    "attempts:": "string",
}
_OF_A_SHARD = {
    keys.HEADS: "zset",
    keys.BACKLOG: "string",
    keys.PARKED: "zset",
    keys.HOLD: "string",
    keys.ACCOUNTS: "zset",
    keys.API_KEY: "hash",
    keys.KEY_ID: "string",
    keys.SESSION: "hash",
    keys.LINK: "hash",
    keys.WAITED: "string",
}
_OF_AN_ACCOUNT = {
    keys.ACCOUNT: "hash",
    keys.LEAVING: "hash",
    keys.KEYS: "zset",
    keys.HOLDER: "hash",
    keys.SESSIONS: "zset",
    keys.WAITING: "zset",
    keys.HELD: "zset",
    keys.FAILED: "zset",
    keys.EXPIRING: "hash",
    keys.TRIED: "hash",
    keys.SCHEDULE: "hash",
    keys.LOG: "stream",
    keys.LOGGED: "hash",
    keys.INDEX: "stream",
    keys.MINUTE: "hash",
    keys.HOUR: "hash",
    keys.DAY: "hash",
    keys.ONCE: "string",
    keys.SIGNING: "list",
    keys.RATE: "string",
    keys.SCANS: "string",
    keys.OPERATION: "string",
}
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
