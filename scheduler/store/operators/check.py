"""What must hold in the store at every moment, looked for by reading all of it.

Reads are not atomic with what others write meanwhile, so what looks broken is looked at once more
before it is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, NamedTuple

from redis.exceptions import ResponseError

from scheduler import ids
from scheduler.errors import StoreRefused
from scheduler.models import Status
from scheduler.store import keys
from scheduler.store.client import Client
from scheduler.store.failures import translated
from scheduler.store.operators.unreadable import (
    UNREADABLE,
    unreadable_requests,
    unreadable_secrets,
)
from scheduler.store.operators.weights import Weights
from scheduler.store.retention import Retention
from scheduler.store.schedules.stored import ended_at_ms, ended_status, unpack_attempt
from scheduler.store.server import Script, Server

_LOOK_AGAIN_S = 0.3
_SCAN_COUNT = 500
_CHUNK = 200
# Leases end and are taken over within seconds; the longest that can be set is an hour.
_LONG_ENDED_MS = 5 * 60_000
_LONGEST_LEASE_MS = 2 * 3_600_000
# Between an end and the command that says how long it is kept.
_SLACK_MS = 1000

_PLACES = (keys.WAITING, keys.HELD, keys.FAILED)
# What a server says of a key that is of another kind than its name.
_DAMAGED = (ResponseError, StoreRefused)
_HEAD = Script("operators/head")
_INSPECT = Script("operators/inspect")


class Owner(NamedTuple):
    """An account as far as its schedules are judged by it."""

    account_id: str
    leaving: bool
    suspended: bool


class Stand(NamedTuple):
    """How a schedule stands: is it there, its outcome ("": none), how far in the future it is
    visible again among the waiting (ms; None: it is not there), whether it is held, and whether it
    was replayed; since when it is a dead letter (None: it is none), and when it will be forgotten;
    of one that is retried, how far its next attempt is in the future, and how many attempts there
    were before (None: it is not retried); how many are noted beside it.
    """

    there: bool
    outcome: bytes
    visible_in_ms: float | None
    held: bool
    replayed: bool = False
    letter_ms: float | None = None
    forgotten_ms: int = -1
    next_attempt_in_ms: float | None = None
    attempts: int | None = None
    noted_attempts: int | None = None


class Letters(NamedTuple):
    """An account's dead letters at one moment: since when the oldest is one, and how long they are
    kept."""

    oldest_ms: float | None
    kept: Retention

    def should_have(self, stand: Stand) -> bool:
        """Whether one that has failed ought to be among them: only older ones are ever dropped,
        and what is none is kept for a shorter time."""
        ended_ms = ended_at_ms(stand.outcome)
        if self.oldest_ms is not None and ended_ms > self.oldest_ms:
            return True
        kept_ms, others_ms = self.kept.failed_kept_ms, self.kept.schedule_ms
        return kept_ms > others_ms and abs(stand.forgotten_ms - ended_ms - kept_ms) < _SLACK_MS


async def broken_invariants(
    client: Client, server: Server, shards: int, kept: Retention
) -> list[str]:
    """A sentence for each broken invariant. Read-only; walks the whole store."""
    with translated():
        first = await _all(client, server, shards, kept)
        if not first:
            return []
        await asyncio.sleep(_LOOK_AGAIN_S)
        second = set(await _all(client, server, shards, kept))
    return [sentence for sentence in first if sentence in second]


async def _all(client: Client, server: Server, shards: int, kept: Retention) -> list[str]:
    """Each broken invariant once, though several ways lead to it."""
    found = [each async for each in _names(client)]
    found += [each async for each in _emails(client)]
    owners: dict[str, Owner] = {}
    weights = Weights(client, server)
    for shard in range(shards):
        for local in await client.zrange(keys.shard(shard) + keys.ACCOUNTS, 0, -1):
            owner = await _owner(client, ids.account_id(shard, local.decode()))
            owners[keys.account(owner.account_id)] = owner
            try:
                if not owner.leaving:
                    await weights.begin(owner.account_id)
                found += [each async for each in _account(client, server, shard, owner, kept)]
                found += await unreadable_secrets(server, owner.account_id)
            except _DAMAGED as error:
                found.append(_damaged(owner, error))
    found += [each async for each in _schedules(client, server, owners, kept, weights)]
    found += await weights.faults()
    return list(dict.fromkeys(found))


async def _names(client: Client) -> AsyncIterator[str]:
    async for key in client.scan_iter(match=keys.account_name("*"), count=_SCAN_COUNT):
        account_id = (await client.get(key) or b"").decode()
        name = key.decode()[len(keys.account_name("")) :]
        if not account_id or await _is_leaving(client, account_id):
            continue
        called = await client.hget(keys.account(account_id) + keys.ACCOUNT, "name")
        if called is None:
            yield (
                f"The name {name!r} is reserved for {account_id}, which does not exist; "
                "creating the account again heals it"
            )
        elif called.decode() != name:
            yield (
                f"The name {name!r} leads to {account_id}, which is called {called.decode()!r}; "
                "renaming it frees the other name"
            )


async def _is_leaving(client: Client, account_id: str) -> bool:
    return bool(await client.exists(keys.account(account_id) + keys.LEAVING))


async def _emails(client: Client) -> AsyncIterator[str]:
    async for key in client.scan_iter(match=keys.email("*"), count=_SCAN_COUNT):
        account_id = (await client.get(key) or b"").decode()
        address = key.decode()[len(keys.email("")) :]
        if not account_id or await _is_leaving(client, account_id):
            continue
        stored = await client.hget(keys.account(account_id) + keys.ACCOUNT, "email")
        if stored is None:
            yield (
                f"The e-mail address {address!r} is reserved for {account_id}, which does not"
                " exist; creating the account again heals it"
            )
        elif stored.decode() != address:
            yield f"The e-mail address {address!r} is reserved for {account_id}, which has another"


async def _owner(client: Client, account_id: str) -> Owner:
    suspended = await client.hexists(keys.account(account_id) + keys.ACCOUNT, "suspended")
    return Owner(account_id, await _is_leaving(client, account_id), bool(suspended))


async def _account(
    client: Client, server: Server, shard: int, owner: Owner, kept: Retention
) -> AsyncIterator[str]:
    account_id, base = owner.account_id, keys.account(owner.account_id)
    if owner.leaving:
        yield f"{account_id} is being deleted: postdate account delete {account_id} goes on with it"
        return
    about = await client.hmget(base + keys.ACCOUNT, "granted", "credits", "spent", "email", "name")
    granted, credits, spent = (int(value or 0) for value in about[:3])
    email, name = ((text or b"").decode() for text in about[3:])
    if granted != credits + spent or credits < 0:
        yield (
            f"{account_id}: the ledger does not balance: "
            f"granted {granted}, credits {credits}, spent {spent}"
        )
    if email and (await client.get(keys.email(email)) or b"").decode() != account_id:
        yield f"{account_id}: its e-mail address {email!r} does not lead to it"
    if (await client.get(keys.account_name(name)) or b"").decode() != account_id:
        yield f"{account_id}: its name {name!r} does not lead to it"
    async for sentence in _head(server, shard, account_id):
        yield sentence
    for members in (
        *(client.zscan_iter(base + place, count=_SCAN_COUNT) for place in _PLACES),
        client.hscan_iter(base + keys.TRIED, count=_SCAN_COUNT),
    ):
        async for chunk in _chunks(member.decode() async for member, _ in members):
            for sentence in await _inspect(server, owner, chunk, kept):
                yield sentence
    async for sentence in _letters(client, server, account_id):
        yield sentence


async def _letters(client: Client, server: Server, account_id: str) -> AsyncIterator[str]:
    """Dead letters that are gone although older ones are there: those are forgotten first."""
    base = keys.account(account_id)
    found, place, older_are_there = [b""], 0, False
    while found:
        found = await client.zrange(base + keys.FAILED, place, place + _CHUNK - 1)
        there = await server.reads(
            [("EXISTS", f"{base}{keys.SCHEDULE}{each.decode()}") for each in found]
        )
        for schedule, is_there in zip(found, there, strict=True):
            if older_are_there and not is_there:
                yield (
                    f"{account_id}: {ids.schedule_id(schedule.decode())} is a dead letter, but its"
                    " request is gone"
                )
            older_are_there = older_are_there or bool(is_there)
        place += len(found)


async def _schedules(
    client: Client, server: Server, owners: dict[str, Owner], kept: Retention, weights: Weights
) -> AsyncIterator[str]:
    """Every schedule that is stored, by one walk through the whole store."""
    names = client.scan_iter(match=keys.schedule_pattern(), count=_SCAN_COUNT)
    async for chunk in _chunks(name.decode() async for name in names):
        by_account: dict[Owner, list[str]] = {}
        for name in chunk:
            base, _, schedule = name.rpartition(keys.SCHEDULE)
            if base in owners:
                by_account.setdefault(owners[base], []).append(schedule)
            else:
                yield f"sch_{schedule} belongs to no account ({name})"
        for owner, schedules in by_account.items():
            if owner.leaving:
                continue
            try:
                await weights.add(owner.account_id, schedules)
                for sentence in await _inspect(server, owner, schedules, kept):
                    yield sentence
                for sentence in await unreadable_requests(server, owner.account_id, schedules):
                    yield sentence
            except _DAMAGED as error:
                yield _damaged(owner, error)


def _damaged(owner: Owner, error: Exception) -> str:
    why = str(error).partition(" script: ")[0]
    return f"{owner.account_id}: something of it cannot be read: {why}"


async def _chunks(items: AsyncIterator[str]) -> AsyncIterator[list[str]]:
    chunk: list[str] = []
    async for item in items:
        chunk.append(item)
        if len(chunk) == _CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


async def _head(server: Server, shard: int, account_id: str) -> AsyncIterator[str]:
    """A head may stand at its account's turn among those with a backlog, which is never later
    than the server's time."""
    local = keys.parts(account_id).local
    now_us, look_at_ms, first_due_ms = await server.run(_HEAD, keys.shard(shard), [local])
    if not first_due_ms:
        return
    if not look_at_ms:
        yield f"{account_id}: schedules wait, but no worker will look for them (no head)"
    elif float(look_at_ms) > max(float(first_due_ms), now_us / 1000):
        yield f"{account_id}: the head is later than the first schedule"


async def _inspect(
    server: Server, owner: Owner, schedules: list[str], kept: Retention
) -> list[str]:
    account_id = owner.account_id
    now_us, oldest, values = await server.run(_INSPECT, keys.account(account_id), schedules)
    rows = zip(schedules, *(values[n::9] for n in range(9)), strict=True)
    letters = Letters(float(oldest) if oldest else None, kept)
    found: list[str] = []
    for schedule, *row in rows:
        # What is damaged is told where all of it is read.
        with suppress(*UNREADABLE):
            stand = _stand(row, now_us / 1000)
            about = f"{account_id}: {ids.schedule_id(schedule)}"
            faults = _faults(stand, letters, suspended=owner.suspended)
            found += [f"{about} {fault}" for fault in faults]
    return found


def _stand(row: list[Any], now_ms: float) -> Stand:
    there, outcome, visible_at_ms, held, replay, letter_ms, forgotten_ms, attempt, noted = row
    retry = unpack_attempt(attempt) if attempt else None
    return Stand(
        there=bool(there),
        outcome=outcome,
        visible_in_ms=float(visible_at_ms) - now_ms if visible_at_ms else None,
        held=bool(held),
        replayed=bool(replay),
        letter_ms=float(letter_ms) if letter_ms else None,
        forgotten_ms=forgotten_ms,
        next_attempt_in_ms=retry.due_at_ms - now_ms if retry else None,
        attempts=retry.attempts if retry else None,
        noted_attempts=int(noted) if noted else None,
    )


def _faults(stand: Stand, letters: Letters, *, suspended: bool) -> list[str]:
    """What is wrong with a schedule that stands so. What a lost worker held of a suspended account
    waits, as all that it has."""
    there, outcome, visible_in_ms, held, *_ = stand
    waiting = visible_in_ms is not None
    if not there:
        missing = ["is waiting, but its request is gone"] * waiting
        return missing or ["is held, but not among the waiting"] * held or _retry_faults(stand)
    faults = _letter_faults(stand, letters)
    if held and not waiting:
        faults.append("is held, but not among the waiting")
    if not outcome and not waiting:
        faults.append("has not ended, but is not among the waiting")
    if outcome and waiting:
        faults.append(f"has ended ({ended_status(outcome)}), but is still among the waiting")
    if held and visible_in_ms is not None:
        if visible_in_ms < -_LONG_ENDED_MS and not suspended:
            faults.append("is held under a lease that ended long ago, and nobody takes it over")
        elif visible_in_ms > _LONGEST_LEASE_MS:
            faults.append("is held for longer than any lease can be")
    return faults + _retry_faults(stand)


def _retry_faults(stand: Stand) -> list[str]:
    """What is wrong with its attempts."""
    faults = []
    waiting, retried = stand.visible_in_ms is not None, stand.attempts is not None
    if stand.noted_attempts is not None and not waiting:
        faults.append("is not among the waiting, but its attempts are still noted")
    if stand.outcome and retried:
        faults.append("has ended, but is still to be retried")
    elif stand.attempts is not None:
        if (stand.noted_attempts or 0) < stand.attempts:
            faults.append("is retried, but not all of its attempts are noted")
        # Later than that waits what a worker could not read, until one comes that can.
        early = stand.visible_in_ms is not None and (
            stand.visible_in_ms < (stand.next_attempt_in_ms or 0.0)
        )
        if early and not stand.held:
            faults.append("does not wait for the moment that its next attempt is to be at")
    return faults


def _letter_faults(stand: Stand, letters: Letters) -> list[str]:
    """What is wrong with a schedule as a dead letter, or because it is none."""
    failed = bool(stand.outcome) and ended_status(stand.outcome) is Status.FAILED
    if stand.letter_ms is None:
        missed = failed and not stand.replayed and letters.should_have(stand)
        return ["has failed, but is no dead letter"] * missed
    if not failed:
        return ["is a dead letter, but has not failed"]
    if stand.replayed:
        return ["is a dead letter, but was replayed"]
    if stand.letter_ms != ended_at_ms(stand.outcome):
        return ["is a dead letter of another moment than that of its end"]
    return []
