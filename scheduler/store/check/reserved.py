"""Whether reserved names and e-mail addresses lead to their accounts. Read-only."""

from __future__ import annotations

from scheduler.store import keys
from scheduler.store.check.damage import noting_damage, text
from scheduler.store.server import Server

_SCAN_COUNT = 500


async def misled(server: Server) -> list[str]:
    """A sentence for each reserved name or e-mail address that does not lead to its account."""
    found: list[str] = []
    for field, called, prefix in (
        ("name", "name", keys.NAME),
        ("email", "e-mail address", keys.EMAIL),
    ):
        async for names in server.keys(prefix + "*", _SCAN_COUNT):
            for key in names:
                value = text(key[len(prefix) :])
                with noting_damage(found, f"What the {called} {value!r} leads to"):
                    fault = await _fault(server, field, value, key)
                    found += [f"The {called} {value!r} {fault}"] * bool(fault)
    return found


async def is_leaving(server: Server, account_id: str) -> bool:
    return bool(await server.read("EXISTS", keys.account(account_id) + keys.LEAVING))


async def _fault(server: Server, field: str, value: str, key: bytes) -> str:
    account_id = (await server.read("GET", key) or b"").decode()
    if not account_id or await is_leaving(server, account_id):
        return ""
    stored = await server.read("HGET", keys.account(account_id) + keys.ACCOUNT, field)
    if stored is None:
        return (
            f"is reserved for {account_id}, which does not exist; creating the account again"
            " heals it"
        )
    if text(stored) == value:
        return ""
    if field == "email":
        return f"is reserved for {account_id}, which has another"
    return (
        f"leads to {account_id}, which is called {text(stored)!r}; renaming it frees the other name"
    )
