"""The end of an account: at once for all that it can do, bit by bit for all that it has."""

from __future__ import annotations

from typing import NamedTuple

from scheduler.errors import NotFound
from scheduler.store import keys
from scheduler.store.accounts.accounts import Accounts, free
from scheduler.store.server import Script, Server

_SCAN_COUNT = 500

_LEAVE = Script("accounts/leave")
_LEFT = Script("accounts/left")


class Deleted(NamedTuple):
    """An account that was, and how many of its schedules had not ended."""

    account_id: str
    name: str
    unended: int


class Deletion:
    """Deletes accounts."""

    def __init__(self, server: Server, accounts: Accounts) -> None:
        self._server = server
        self._accounts = accounts

    async def delete(self, name_or_id: str) -> Deleted:
        """Removes an account and all that it has, its waiting schedules unfired. Safe to repeat:
        after a failure the same call goes on. Name and e-mail address stay reserved until it is
        through. Scans the names of all keys: a second for some hundred thousand. Raises NotFound.
        """
        account_id = await self._accounts.id_of(name_or_id)
        shard, account = keys.parts(account_id)
        prefix = keys.shard(shard)
        found = await self._server.write_until_answered(_LEAVE, prefix, [account])
        if not found:
            raise NotFound(f"There is no account {account_id}.")
        unended, (name, also, email) = found[0], (text.decode() for text in found[1:])
        await self._remove_keys(prefix, account_id)
        await self._remove_data(account_id)
        if email:
            await free(self._server, keys.EMAIL + email, account_id)
        for each in (also, name):
            await free(self._server, keys.NAME + each, account_id)
        await self._server.write_until_answered(_LEFT, prefix, [account])
        return Deleted(account_id, name, unended)

    async def _remove_keys(self, prefix: str, account_id: str) -> None:
        """Its API keys, of which there are some hundred at most."""
        of_account = await self._server.read("ZRANGE", keys.account(account_id) + keys.KEYS, 0, -1)
        names = [prefix + keys.KEY_ID + local.decode() for local in of_account]
        hashes = await self._server.reads([("GET", name) for name in names], damaged=True)
        names += [
            prefix + keys.API_KEY + each.decode() for each in hashes if isinstance(each, bytes)
        ]
        if names:
            await self._server.call("UNLINK", *names)

    async def _remove_data(self, account_id: str) -> None:
        """All below the account's prefix but the mark that it is being deleted."""
        base = keys.account(account_id)
        leaving = (base + keys.LEAVING).encode()
        async for found in self._server.keys(base + "*", _SCAN_COUNT):
            if names := [name for name in found if name != leaving]:
                await self._server.call("UNLINK", *names)
