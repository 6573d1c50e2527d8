"""What must hold in the store at every moment, looked for by reading all of it.

Reads are not atomic with what others write meanwhile, so what looks broken is looked at once more
before it is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from scheduler.store import keys
from scheduler.store.connection import Client, translated
from scheduler.store.scripts import Scripts

_LOOK_AGAIN_S = 0.3
_SCAN_COUNT = 500


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
    found = [each async for each in _names(client)]
    found += [each async for each in _emails(client)]
    for shard in range(shards):
        for local in await client.zrange(keys.accounts(shard), 0, -1):
            account_id = f"acc_{shard:02d}_{local.decode()}"
            found += [each async for each in _account(client, scripts, shard, account_id)]
    return found


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
    waiting = {m: s async for m, s in client.zscan_iter(base + "waiting", count=_SCAN_COUNT)}
    held = {m async for m, _ in client.zscan_iter(base + "held", count=_SCAN_COUNT)}
    async for sentence in _head(scripts, shard, account_id):
        yield sentence
    stored = {}
    async for key in client.scan_iter(match=_escaped(base) + "s:*", count=_SCAN_COUNT):
        stored[key[len(base) + 2 :]] = await client.hmget(key, "s", "t")
    for sentence in _compare(waiting, held, stored):
        yield f"{account_id}: {sentence}"


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


def _compare(
    waiting: dict[bytes, float], held: set[bytes], stored: dict[bytes, list[bytes | None]]
) -> list[str]:
    gone, astray = sorted(waiting.keys() - stored.keys()), sorted(held - waiting.keys())
    found = [f"sch_{each.decode()} is waiting, but its request is gone" for each in gone]
    found += [f"sch_{each.decode()} is held, but not among the waiting" for each in astray]
    for schedule, (status, token) in sorted(stored.items()):
        name = f"sch_{schedule.decode()}"
        if status is None and schedule not in waiting:
            found.append(f"{name} has not ended, but is not among the waiting")
        if status is not None and schedule in waiting:
            found.append(f"{name} has ended ({status.decode()}), but is still among the waiting")
        if bool(token) != (schedule in held):
            found.append(f"{name} has a token but is not held, or is held without a token")
    return found


def _escaped(pattern: str) -> str:
    """Glob characters in a tag or an account's name would match others; braces do not count."""
    return "".join("\\" + c if c in "*?[]\\" else c for c in pattern)
