"""Whether reserved names and e-mail addresses lead to the accounts that have them."""

from __future__ import annotations

from collections.abc import AsyncIterator

from scheduler.store import keys
from scheduler.store.operators.damage import text, told
from scheduler.store.server import Server

_SCAN_COUNT = 500


async def misled(server: Server) -> list[str]:
    """A sentence for each that leads elsewhere, or nowhere. Read-only."""
    found: list[str] = []
    async for name, key in _reserved(server, keys.account_name("")):
        with told(found, f"What the name {name!r} leads to"):
            found += await _name(server, name, key)
    async for address, key in _reserved(server, keys.email("")):
        with told(found, f"What the e-mail address {address!r} leads to"):
            found += await _email(server, address, key)
    return found


async def is_leaving(server: Server, account_id: str) -> bool:
    return bool(await server.read("EXISTS", keys.account(account_id) + keys.LEAVING))


async def _reserved(server: Server, prefix: str) -> AsyncIterator[tuple[str, bytes]]:
    async for names in server.keys(prefix + "*", _SCAN_COUNT):
        for key in names:
            yield text(key[len(prefix) :]), key


async def _name(server: Server, name: str, key: bytes) -> list[str]:
    account_id = (await server.read("GET", key) or b"").decode()
    if not account_id or await is_leaving(server, account_id):
        return []
    called = await server.read("HGET", keys.account(account_id) + keys.ACCOUNT, "name")
    if called is None:
        return [
            (
                f"The name {name!r} is reserved for {account_id}, which does not exist; "
                "creating the account again heals it"
            )
        ]
    if text(called) != name:
        return [
            (
                f"The name {name!r} leads to {account_id}, which is called {text(called)!r}; "
                "renaming it frees the other name"
            )
        ]
    return []


async def _email(server: Server, address: str, key: bytes) -> list[str]:
    account_id = (await server.read("GET", key) or b"").decode()
    if not account_id or await is_leaving(server, account_id):
        return []
    stored = await server.read("HGET", keys.account(account_id) + keys.ACCOUNT, "email")
    if stored is None:
        return [
            (
                f"The e-mail address {address!r} is reserved for {account_id}, which does not"
                " exist; creating the account again heals it"
            )
        ]
    if text(stored) != address:
        return [f"The e-mail address {address!r} is reserved for {account_id}, which has another"]
    return []
