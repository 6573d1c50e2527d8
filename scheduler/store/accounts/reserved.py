"""Names and e-mail addresses: each is a key in a slot of its own that leads to an account, and no
script can change it together with that account."""

from __future__ import annotations

from scheduler.store.server import Script, Server

_FREE = Script("accounts/free")


async def reserve(server: Server, key: str, account_id: str) -> str:
    """The id of the account that the key leads to: this one, if it led to none. Safe to repeat."""
    while True:
        await server.call("SET", key, account_id, "NX")
        holder = await server.read("GET", key)
        if holder is not None:  # else it was freed in between
            return str(holder.decode())


async def free(server: Server, key: str, account_id: str) -> None:
    """Gives the key up, if it leads to this account. Safe to repeat."""
    await server.write_until_answered(_FREE, key, [account_id])
