"""What must hold in the store at every moment, looked for by reading all of it.

Reads are not atomic with what others write meanwhile, so what looks broken is looked at once more
before it is told. What is damaged is told as well, and ends no look at anything else.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from typing import Any, NamedTuple

from scheduler import ids
from scheduler.errors import Unreadable, anew
from scheduler.store import keys
from scheduler.store.operators.damage import schedule_or_none, text, told
from scheduler.store.operators.kinds import of_other_kinds
from scheduler.store.operators.reservations import is_leaving, misled
from scheduler.store.operators.standing import Letters, faults_of, stand_of
from scheduler.store.operators.unreadable import (
    damaged_chunks,
    unreadable_requests,
    unreadable_secrets,
)
from scheduler.store.operators.weights import Weights
from scheduler.store.retention import Retention
from scheduler.store.server import Argument, Server
from scheduler.store.server.clock import time_us

_LOOK_AGAIN_S = 0.3
_CHUNK = 200

# What they are called.
_PLACES = {
    keys.WAITING: "waiting schedules",
    keys.HELD: "held schedules",
    keys.FAILED: "dead letters",
    keys.TRIED: "attempts",
}


class Owner(NamedTuple):
    """An account as far as its schedules are judged by it."""

    account_id: str
    leaving: bool
    suspended: bool


class _Owners:
    """By the prefix of their keys; and the shards of which nobody knows what accounts they have."""

    def __init__(self) -> None:
        self.known: dict[str, Owner] = {}
        self.unknown: set[str] = set()

    def hides(self, name: str) -> bool:
        return name.startswith(tuple(self.unknown))


async def broken_invariants(server: Server, shards: int, kept: Retention) -> list[str]:
    """A sentence for each broken invariant, and for all that is damaged. Read-only; walks the whole
    store."""
    first = await _all(server, shards, kept)
    if not first:
        return []
    await asyncio.sleep(_LOOK_AGAIN_S)
    second = set(await _all(server, shards, kept))
    return [sentence for sentence in first if sentence in second]


async def _all(server: Server, shards: int, kept: Retention) -> list[str]:
    """Each broken invariant once, though several ways lead to it."""
    found = await of_other_kinds(server) + await misled(server)
    owners, weights = _Owners(), Weights(server)
    for shard in range(shards):
        for account_id in await _accounts(server, shard, owners, found):
            owner = await _owner(server, account_id, found)
            owners.known[keys.account(account_id)] = owner
            if owner.leaving:
                found.append(
                    f"{account_id} is being deleted: postdate account delete {account_id}"
                    " goes on with it"
                )
                continue
            with told(found, f"{account_id}: something of what it weighs"):
                await weights.begin(account_id)
            await _account(server, owner, kept, found)
    await _schedules(server, owners, kept, weights, found)
    for account_id in weights.begun:
        with told(found, f"{account_id}: something of what it weighs"):
            found += await weights.faults(account_id)
    return list(dict.fromkeys(found))


async def _accounts(server: Server, shard: int, owners: _Owners, found: list[str]) -> list[str]:
    """The ids of a shard's accounts."""
    accounts: list[str] = []
    prefix = keys.shard(shard)
    owners.unknown.add(prefix)
    with told(found, f"The list of accounts of shard {shard}"):
        for local in map(text, await server.read("ZRANGE", prefix + keys.ACCOUNTS, 0, -1)):
            account_id = ids.account_id(shard, local)
            if ids.parse_sharded(account_id, "acc") is None:
                found.append(f"Shard {shard} lists {local!r}, which can be no account")
            else:
                accounts.append(account_id)
        owners.unknown.remove(prefix)
    return accounts


async def _owner(server: Server, account_id: str, found: list[str]) -> Owner:
    suspended = False
    with told(found, f"{account_id}: something of what it is"):
        base = keys.account(account_id)
        suspended = await server.read("HEXISTS", base + keys.ACCOUNT, "suspended")
    return Owner(account_id, await is_leaving(server, account_id), bool(suspended))


async def _account(server: Server, owner: Owner, kept: Retention, found: list[str]) -> None:
    account_id, base = owner.account_id, keys.account(owner.account_id)
    something = f"{account_id}: something of"
    with told(found, f"{something} what it is"):
        found += await _names(server, account_id)
    with told(found, f"{something} its ledger"):
        found += await _ledger(server, account_id)
    with told(found, f"{something} when it is looked at"):
        found += await _head(server, account_id)
    for place, called in _PLACES.items():
        with told(found, f"{something} its {called}"):
            scan = "HSCAN" if place == keys.TRIED else "ZSCAN"
            async for chunk in server.members(scan, base + place, _CHUNK):
                can_be = _schedules_among(chunk, f"{account_id}: among its {called}", found)
                found += await _inspect(server, owner, can_be, kept)
    with told(found, f"{something} its dead letters"):
        found += [each async for each in _letters(server, account_id)]
    with told(found, f"{something} its log"):
        found += [each async for each in damaged_chunks(server, account_id)]
    with told(found, f"{something} its signing secrets"):
        found += await unreadable_secrets(server, account_id)


async def _names(server: Server, account_id: str) -> list[str]:
    """What is wrong with how it is found."""
    about = await server.read("HMGET", keys.account(account_id) + keys.ACCOUNT, "email", "name")
    email, name = ((each or b"").decode() for each in about)
    found = []
    if email and text(await server.read("GET", keys.email(email)) or b"") != account_id:
        found.append(f"{account_id}: its e-mail address {email!r} does not lead to it")
    if text(await server.read("GET", keys.account_name(name)) or b"") != account_id:
        found.append(f"{account_id}: its name {name!r} does not lead to it")
    return found


async def _ledger(server: Server, account_id: str) -> list[str]:
    fields = ("granted", "credits", "spent")
    about = await server.read("HMGET", keys.account(account_id) + keys.ACCOUNT, *fields)
    granted, credits, spent = (int(value or 0) for value in about)
    if granted == credits + spent and credits >= 0:
        return []
    return [
        (
            f"{account_id}: the ledger does not balance: "
            f"granted {granted}, credits {credits}, spent {spent}"
        )
    ]


def _schedules_among(members: Iterable[bytes], where: str, found: list[str]) -> list[str]:
    """Those that can be schedules, as the store spells them; the others are told."""
    schedules = []
    for member in members:
        schedule = schedule_or_none(member)
        if schedule is None:
            found.append(f"{where} is {text(member)!r}, which can be no schedule")
        else:
            schedules.append(schedule)
    return schedules


async def _letters(server: Server, account_id: str) -> AsyncIterator[str]:
    """Dead letters that are gone although older ones are there: those are forgotten first."""
    base = keys.account(account_id)
    found, place, older_are_there = [b""], 0, False
    while found:
        found = await server.read("ZRANGE", base + keys.FAILED, place, place + _CHUNK - 1)
        schedules = [each for each in map(schedule_or_none, found) if each is not None]
        there = await server.reads(
            [("EXISTS", f"{base}{keys.SCHEDULE}{each}") for each in schedules]
        )
        for schedule, is_there in zip(schedules, there, strict=True):
            if older_are_there and not is_there:
                yield (
                    f"{account_id}: {ids.schedule_id(schedule)} is a dead letter, but its"
                    " request is gone"
                )
            older_are_there = older_are_there or bool(is_there)
        place += len(found)


async def _schedules(
    server: Server,
    owners: _Owners,
    kept: Retention,
    weights: Weights,
    found: list[str],
) -> None:
    """Every schedule that is stored, by one walk through the whole store."""
    async for chunk in server.keys(keys.schedule_pattern(), _CHUNK):
        by_account: dict[Owner, list[bytes]] = {}
        for name in chunk:
            base, _, schedule = name.rpartition(keys.SCHEDULE.encode())
            owner = owners.known.get(text(base))
            if owner is not None:
                by_account.setdefault(owner, []).append(schedule)
            elif not owners.hides(text(name)):
                found.append(f"sch_{text(schedule)} belongs to no account ({text(name)})")
        for owner, stored in by_account.items():
            if not owner.leaving:
                await _stored(server, owner, stored, kept, weights, found)


async def _stored(
    server: Server,
    owner: Owner,
    stored: list[bytes],
    kept: Retention,
    weights: Weights,
    found: list[str],
) -> None:
    account_id = owner.account_id
    something = f"{account_id}: something of"
    schedules = _schedules_among(stored, f"{account_id}: among its schedules", found)
    with told(found, f"{something} what it weighs"):
        await weights.add(account_id, schedules)
    with told(found, f"{something} where its schedules stand"):
        found += await _inspect(server, owner, schedules, kept)
    with told(found, f"{something} its schedules"):
        found += await unreadable_requests(server, account_id, schedules)


async def _head(server: Server, account_id: str) -> list[str]:
    """A head may stand at its account's turn among those with a backlog, which is never later
    than the server's time."""
    shard, local = keys.parts(account_id)
    commands = [
        ("TIME",),
        ("ZSCORE", keys.shard(shard) + keys.HEADS, local),
        ("ZRANGE", keys.account(account_id) + keys.WAITING, 0, 0, "WITHSCORES"),
    ]
    time, look_at_ms, first = await server.reads(commands, at_once=keys.shard(shard))
    if not first:
        return []
    if not look_at_ms:
        return [f"{account_id}: schedules wait, but no worker will look for them (no head)"]
    if float(look_at_ms) > max(float(first[1]), time_us(time) / 1000):
        return [f"{account_id}: the head is later than the first schedule"]
    return []


async def _inspect(
    server: Server, owner: Owner, schedules: list[str], kept: Retention
) -> list[str]:
    account_id = owner.account_id
    if not schedules:
        return []
    now_ms, oldest, rows = await _stands(server, keys.account(account_id), schedules)
    letters = Letters(float(oldest[1]) if oldest else None, kept)
    found: list[str] = []
    for schedule, row in zip(schedules, rows, strict=True):
        about, noted = f"{account_id}: {ids.schedule_id(schedule)}", row[-1]
        if not (noted or b"0").isdigit():
            found.append(f"{about} has attempts that are no number: {text(noted)!r}")
            continue
        # What is damaged is told where all of it is read.
        with suppress(Unreadable):
            stand = stand_of(row, now_ms)
            faults = faults_of(stand, letters, suspended=owner.suspended)
            found += [f"{about} {fault}" for fault in faults]
    return found


async def _stands(
    server: Server, base: str, schedules: list[str]
) -> tuple[float, list[Any], list[list[Any]]]:
    """The server's time (ms), the oldest dead letter, and a row of each schedule as `stand_of` has
    it: all at one moment."""
    commands: list[tuple[Argument, ...]] = [("TIME",)]
    commands.append(("ZRANGE", base + keys.FAILED, 0, 0, "WITHSCORES"))
    for each in schedules:
        commands += (
            ("ZSCORE", base + name, each) for name in (keys.WAITING, keys.HELD, keys.FAILED)
        )
        commands.append(("PEXPIRETIME", base + keys.SCHEDULE + each))
        commands.append(("HGET", base + keys.TRIED, each))
    commands += [("HMGET", base + keys.SCHEDULE + each, "r", "o", "a", "n") for each in schedules]
    replies = await server.reads(commands, at_once=base, damaged=True)
    time, oldest, *places = replies[: -len(schedules)]
    for reply in (oldest, *places):
        if isinstance(reply, Unreadable):
            raise anew(reply)
    # What is none of ours and has the name of a schedule is as good as nothing.
    stored = (
        [None] * 4 if isinstance(each, Unreadable) else each for each in replies[2 + len(places) :]
    )
    rows = zip(stored, *(places[n::5] for n in range(5)), strict=True)
    return time_us(time) / 1000, oldest, [[*fields, *row] for fields, *row in rows]
