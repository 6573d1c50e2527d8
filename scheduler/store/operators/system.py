"""What operators look at: shards, and the servers of the store."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from scheduler.errors import StoreError, anew
from scheduler.store import keys
from scheduler.store.lifecycle.claim.claim import Claims
from scheduler.store.server import Server
from scheduler.store.shards import Shards

_KEYS = re.compile(r"keys=(\d+)")
_REWRITE_SETTING = "auto-aof-rewrite-percentage"
_PATIENCE_S = 600.0
_LOOK_EVERY_S = 0.2
# What keeps the data, and where the server tells whether it went well the last time.
PERSISTENCE = {
    "aof_write": ("aof_last_write_status", "The last write to its append-only file failed."),
    "aof_rewrite": (
        "aof_last_bgrewrite_status",
        "The last rewrite of its append-only file failed.",
    ),
    "snapshot": ("rdb_last_bgsave_status", "Its last snapshot failed."),
}


class ShardState(NamedTuple):
    """`next_look_ms`, `backlog_since_ms`: by the server's clock; None if there is nothing. Of
    `busy_accounts` one with schedules both in lanes and outside them counts twice, and one more
    stands for the callbacks of all."""

    number: int
    accounts: int
    busy_accounts: int
    next_look_ms: float | None
    backlog_since_ms: float | None


class ServerStatus(NamedTuple):
    """One Redis or Valkey. `most_bytes` is 0 if it has no limit, `machine_bytes` if it does not
    tell, `log_bytes`, of its append-only file on disk, without one; `saved_at_s` is when its last
    snapshot was written; `failed` names what of its persistence failed the last time."""

    name: str
    version: str
    used_bytes: int
    peak_bytes: int
    most_bytes: int
    machine_bytes: int
    log_bytes: int
    keys: int
    clients: int
    saved_at_s: int
    failed: list[str]
    warnings: list[str]


class Spent(NamedTuple):
    """Of all servers: memory without clients' buffers, and the CPU time used so far."""

    used_bytes: int
    cpu_s: float


class System:
    """Reads all of it; nothing here is an account holder's."""

    def __init__(self, server: Server, claims: Claims, shards: Shards) -> None:
        self._server = server
        self._claims = claims
        self._shards = shards

    async def shards(self) -> list[ShardState]:
        numbers = range(await self._shards.newest())
        looks = await self._claims.look(numbers)
        counts = await self._server.reads(
            [
                command
                for prefix in map(keys.shard, numbers)
                for command in (
                    ("ZCARD", prefix + keys.ACCOUNTS),
                    ("ZCOUNT", prefix + keys.HEADS, "(-inf", "+inf"),
                )
            ]
        )
        states = []
        for number in numbers:
            look = looks[number]
            if isinstance(look, StoreError):
                raise anew(look)
            states.append(ShardState(number, counts[2 * number], counts[2 * number + 1], *look))
        return states

    async def servers(self) -> list[ServerStatus]:
        """Each server of the store, and what an operator should know of it."""
        infos = await self._server.infos()
        return [_server(name, info) for name, info in sorted(infos.items())]

    async def spent(self) -> Spent:
        nodes = (await self._server.infos()).values()
        return Spent(
            sum(int(each["used_memory"]) - int(each["mem_clients_normal"]) for each in nodes),
            sum(float(each["used_cpu_sys"]) + float(each["used_cpu_user"]) for each in nodes),
        )

    @asynccontextmanager
    async def rewrites_held_back(self) -> AsyncIterator[None]:
        """On a server of our own, holds back rewrites of the append-only files, for a copy, whose
        torn end is cut off as after a crash. Raises StoreError; TimeoutError if a running rewrite
        does not end. If this process is killed, it lasts until the server restarts."""
        _, before = await self._server.ask("CONFIG", "GET", _REWRITE_SETTING)
        await self._server.ask("CONFIG", "SET", _REWRITE_SETTING, 0)
        try:
            async with asyncio.timeout(_PATIENCE_S):
                # The server has no event for it.
                while (await self._server.info("persistence"))["aof_rewrite_in_progress"] != "0":  # noqa: ASYNC110
                    await asyncio.sleep(_LOOK_EVERY_S)
            yield
        finally:
            await self._server.ask("CONFIG", "SET", _REWRITE_SETTING, before)


def _server(name: str, info: Mapping[str, Any]) -> ServerStatus:
    # db0:keys=3,expires=0,…
    databases = [_KEYS.match(value) for key, value in info.items() if key.startswith("db")]
    return ServerStatus(
        name=name,
        version=version_of(info),
        used_bytes=int(info.get("used_memory", 0)),
        peak_bytes=int(info.get("used_memory_peak", 0)),
        most_bytes=int(info.get("maxmemory", 0)),
        machine_bytes=int(info.get("total_system_memory", 0)),
        log_bytes=int(info.get("aof_current_size", 0)),
        keys=sum(int(found[1]) for found in databases if found),
        clients=int(info.get("connected_clients", 0)),
        saved_at_s=int(info.get("rdb_last_save_time", 0)),
        failed=[what for what, (field, _) in PERSISTENCE.items() if info.get(field, "ok") != "ok"],
        warnings=server_warnings(info),
    )


def version_of(info: Mapping[str, Any]) -> str:
    if "valkey_version" in info:
        return f"Valkey {info['valkey_version']}"
    return f"Redis {info.get('redis_version', 'of no known version')}"


# Branches whose makers mend no faults any more, and since when (redis.io, product lifecycle).
_ENDED = {"Redis 7.0": "July 2024", "Redis 7.2": "February 2026"}


def ended_branch(version: str) -> str | None:
    """What to say of a server's version (`Redis 7.0.15`) whose branch has ended. Pure."""
    branch = ".".join(version.split(".")[:2])
    ended = _ENDED.get(branch)
    return ended and (
        f"{branch} has had no security fixes from its makers since {ended}: run a newer one, such"
        " as Valkey 9, or a package whose distribution still mends it"
    )


def server_warnings(info: Mapping[str, Any]) -> list[str]:
    """Present and coming faults of a server. Pure."""
    found = []
    most, used = int(info.get("maxmemory", 0)), int(info.get("used_memory", 0))
    if most and used >= most:
        found.append("Memory is full: nothing can be scheduled until there is room.")
    elif most and used > 0.9 * most:
        found.append(f"Memory is {100 * used // most} % full; at 100 % nothing can be scheduled.")
    if info.get("maxmemory_policy", "noeviction") != "noeviction":
        found.append(f"It evicts keys ({info['maxmemory_policy']}), so it may forget schedules.")
    if str(info.get("aof_enabled", "1")) != "1":
        found.append("It keeps no append-only file: a crash of it loses schedules.")
    found += [why for field, why in PERSISTENCE.values() if info.get(field, "ok") != "ok"]
    if info.get("master_link_status", "up") != "up":
        found.append("It is a replica and has lost its primary.")
    return found
