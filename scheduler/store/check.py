"""What must hold in the store at every moment, looked for by reading all of it.

Reads are not atomic with what others write meanwhile, so what looks broken is looked at once more
before it is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from scheduler.store import keys
from scheduler.store.connection import Client, translated
from scheduler.store.items import Stand
from scheduler.store.scripts import Scripts

_LOOK_AGAIN_S = 0.3
_SCAN_COUNT = 500
_CHUNK = 200


async def broken_invariants(client: Client, scripts: Scripts, shards: int) -> list[str]:
    """A sentence for each broken invariant. Read-only; walks the whole store."""
    with translated():
        first = await _all(client, scripts, shards)
        if not first:
            return []
        await asyncio.sleep(_LOOK_AGAIN_S)
        second = set(await _all(client, scripts, shards))
    return [sentence for sentence in first if sentence in second]


async def _all(client: Client, scripts: Scripts, shards: int) -> list[str]:
    """Each broken invariant once, though several ways lead to it."""
    found = [each async for each in _names(client)]
    found += [each async for each in _emails(client)]
    owners: dict[str, str] = {}
    for shard in range(shards):
        for local in await client.zrange(keys.accounts(shard), 0, -1):
            account_id = f"acc_{shard:02d}_{local.decode()}"
            owners[keys.account(account_id)] = account_id
            found += [each async for each in _account(client, scripts, shard, account_id)]
    found += [each async for each in _schedules(client, scripts, owners)]
    return list(dict.fromkeys(found))


async def _names(client: Client) -> AsyncIterator[str]:
    async for key in client.scan_iter(match=keys.account_name("*"), count=_SCAN_COUNT):
        account_id = (await client.get(key) or b"").decode()
        name = key.decode()[len(keys.account_name("")) :]
        if account_id and not await client.exists(keys.account(account_id) + "account"):
            yield (
                f"The name {name!r} is reserved for {account_id}, which does not exist; "
                "creating the account again heals it"
            )


async def _emails(client: Client) -> AsyncIterator[str]:
    async for key in client.scan_iter(match=keys.email("*"), count=_SCAN_COUNT):
        account_id = (await client.get(key) or b"").decode()
        address = key.decode()[len(keys.email("")) :]
        if not account_id:
            continue
        stored = await client.hmget(keys.account(account_id) + "account", "name", "email")
        if stored[0] is None:
            yield (
                f"The e-mail address {address!r} is reserved for {account_id}, which does not"
                " exist; creating the account again heals it"
            )
        elif stored[1].decode() != address:
            yield f"The e-mail address {address!r} is reserved for {account_id}, which has another"


async def _account(
    client: Client, scripts: Scripts, shard: int, account_id: str
) -> AsyncIterator[str]:
    base = keys.account(account_id)
    ledger = await client.hmget(base + "account", "granted", "credits", "spent")
    granted, credits, spent = (int(value or 0) for value in ledger)
    if granted != credits + spent or credits < 0:
        yield (
            f"{account_id}: the ledger does not balance: "
            f"granted {granted}, credits {credits}, spent {spent}"
        )
    email = (await client.hget(base + "account", "email") or b"").decode()
    if email and (await client.get(keys.email(email)) or b"").decode() != account_id:
        yield f"{account_id}: its e-mail address {email!r} does not lead to it"
    async for sentence in _head(scripts, shard, account_id):
        yield sentence
    for place in ("waiting", "held"):
        members = client.zscan_iter(base + place, count=_SCAN_COUNT)
        async for chunk in _chunks(member.decode() async for member, _ in members):
            for sentence in await _inspect(scripts, account_id, chunk):
                yield sentence


async def _schedules(
    client: Client, scripts: Scripts, owners: dict[str, str]
) -> AsyncIterator[str]:
    """Every schedule that is stored, by one walk through the whole store."""
    names = client.scan_iter(match=keys.schedule_pattern(), count=_SCAN_COUNT)
    async for chunk in _chunks(name.decode() async for name in names):
        by_account: dict[str, list[str]] = {}
        for name in chunk:
            base, _, schedule = name.rpartition("s:")
            if base in owners:
                by_account.setdefault(owners[base], []).append(schedule)
            else:
                yield f"sch_{schedule} belongs to no account ({name})"
        for account_id, schedules in by_account.items():
            for sentence in await _inspect(scripts, account_id, schedules):
                yield sentence


async def _chunks(items: AsyncIterator[str]) -> AsyncIterator[list[str]]:
    chunk: list[str] = []
    async for item in items:
        chunk.append(item)
        if len(chunk) == _CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


async def _head(scripts: Scripts, shard: int, account_id: str) -> AsyncIterator[str]:
    """A head may stand at its account's turn among those with a backlog, which is never later
    than the server's time."""
    head = await scripts.head(shard, account_id.rpartition("_")[2])
    if head.first_due_ms is None:
        return
    if head.look_at_ms is None:
        yield f"{account_id}: schedules wait, but no worker will look for them (no head)"
    elif head.look_at_ms > max(head.first_due_ms, head.now_us / 1000):
        yield f"{account_id}: the head is later than the first schedule"


async def _inspect(scripts: Scripts, account_id: str, schedules: list[str]) -> list[str]:
    stands = await scripts.inspect(account_id, schedules)
    return [
        f"{account_id}: sch_{schedule} {fault}"
        for schedule, stand in zip(schedules, stands, strict=True)
        for fault in _faults(stand)
    ]


def _faults(stand: Stand) -> list[str]:
    """What is wrong with a schedule that stands so."""
    there, status, token, waiting, held = stand
    if not there:
        missing = ["is waiting, but its request is gone"] * waiting
        return missing or ["is held, but not among the waiting"] * held
    faults = []
    if held and not waiting:
        faults.append("is held, but not among the waiting")
    if not status and not waiting:
        faults.append("has not ended, but is not among the waiting")
    if status and waiting:
        faults.append(f"has ended ({status}), but is still among the waiting")
    if bool(token) != held:
        faults.append("has a token but is not held, or is held without a token")
    return faults
