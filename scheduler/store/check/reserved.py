"""Whether reserved names and e-mail addresses lead to their accounts and members, and these to
them. Read-only."""

from __future__ import annotations

from collections.abc import AsyncIterator

from scheduler.callers import Role
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


async def faults_of_members(server: Server, account_id: str) -> AsyncIterator[str]:
    """Members without a role or an address that leads to them, and keys of none."""
    base = keys.account(account_id)
    for member in await server.read("ZRANGE", base + keys.MEMBERS, 0, -1):
        name = text(member)
        email, role = await server.read("HMGET", base + keys.MEMBER + name, "email", "role")
        if email is None or text(role or b"") not in set(Role):
            yield f"its member {name!r} has no address or role; remove and invite them again"
        elif text(await server.read("GET", keys.EMAIL + text(email)) or b"") != (
            f"{account_id} {name}"
        ):
            yield f"the e-mail address {text(email)!r} does not lead to its member"


async def _fault(server: Server, field: str, value: str, key: bytes) -> str:
    held = text(await server.read("GET", key) or b"")
    account_id, _, member = held.partition(" ")
    if not account_id or await is_leaving(server, account_id):
        return ""
    base = keys.account(account_id)
    name = await server.read("HGET", base + keys.ACCOUNT, "name")
    if name is None:
        return (
            f"is reserved for {account_id}, which does not exist; creating the account again"
            " heals it"
        )
    if field == "email":
        stored = await server.read("HGET", base + keys.MEMBER + member, "email")
        if stored is not None and text(stored) == value:
            return ""
        return f"is reserved for no member of {account_id}; inviting the address frees it"
    if text(name) == value:
        return ""
    return (
        f"leads to {account_id}, which is called {text(name)!r}; renaming it frees the other name"
    )
