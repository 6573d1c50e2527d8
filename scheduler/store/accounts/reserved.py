"""Names and e-mail addresses: each is a key in a slot of its own that leads to an account, and no
script can change it together with that account."""

from __future__ import annotations

from scheduler.store.server import Script, Server
from scheduler.store.server.client import Client
from scheduler.store.server.failures import translated

_FREE = Script("accounts/free")


async def reserve(client: Client, key: str, account_id: str) -> str:
    """The id of the account that the key leads to: this one, if it led to none. Safe to repeat."""
    while True:
        with translated():
            await client.set(key, account_id, nx=True)
            holder = await client.get(key)
        if holder is not None:  # else it was freed in between
            return holder.decode()


async def free(server: Server, key: str, account_id: str) -> None:
    """Gives the key up, if it leads to this account. Safe to repeat."""
    await server.repeated(lambda: server.write(_FREE, key, [account_id]))
