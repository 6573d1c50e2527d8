"""What an operator changes of an account: its plan, its name, whether it may go on."""

from __future__ import annotations

from typing import Any

from scheduler.errors import NameTaken, NotFound
from scheduler.models import Account, Plan
from scheduler.store import keys
from scheduler.store.accounts.accounts import Accounts
from scheduler.store.accounts.reserved import free, reserve
from scheduler.store.server import Argument, Script, Server

_SET = Script("accounts/set")
_SUSPEND = Script("accounts/suspend")
_RESUME = Script("accounts/resume")
_RENAME = Script("accounts/rename")
_SETTLE = Script("accounts/settle")


class Changes:
    """All raise NotFound, and are safe to repeat: after a crash, repeating ends what was begun."""

    def __init__(self, server: Server, accounts: Accounts) -> None:
        self._server = server
        self._accounts = accounts

    async def plan(self, account_id: str, plan: Plan) -> Account:
        """From the next request on it has that plan's rate."""
        return await self._of_account(_SET, account_id, "plan", plan)

    async def suspend(self, account_id: str) -> Account:
        """From the next request on its calls are refused, and from the next claim on what is due
        waits. What workers hold already is fired; nothing is dropped."""
        return await self._of_shard(_SUSPEND, account_id)

    async def resume(self, account_id: str) -> Account:
        """Its calls are carried out again; what came due meanwhile is due now."""
        return await self._of_shard(_RESUME, account_id)

    async def rename(self, account_id: str, name: str) -> Account:
        """Calls it by another name, and frees the one that it had. Raises NameTaken.

        The new name is noted with the account before it is reserved, and the old one until it is
        free: whatever a crash leaves, the account knows of, and the next rename clears up.
        """
        account = await self._accounts.get(account_id)
        await self._settle(account_id)
        if account.name == name:
            return account
        await self._of_account(_SET, account_id, "also", name)
        holder = await reserve(self._server, keys.account_name(name), account_id)
        done = holder == account_id and await self._done(_RENAME, account_id, name)
        await self._settle(account_id)
        if not done:
            # By us or, at this very moment, by another rename of the same account.
            if holder == account_id:
                await free(self._server, keys.account_name(name), account_id)
            raise NameTaken(f"There is an account called {name!r} already.")
        return await self._accounts.get(account_id)

    async def _settle(self, account_id: str) -> None:
        """Frees the name that an account may have besides its own."""
        name, also = await self._server.read(
            "HMGET", keys.account(account_id) + keys.ACCOUNT, "name", "also"
        )
        if also is None:
            return
        if also != name:
            await free(self._server, keys.account_name(also.decode()), account_id)
        await self._done(_SETTLE, account_id, also)

    async def _done(self, script: Script, account_id: str, *arguments: Argument) -> Any:
        base = keys.account(account_id)
        return await self._server.repeated(lambda: self._server.write(script, base, arguments))

    async def _of_account(self, script: Script, account_id: str, *arguments: Argument) -> Account:
        return await self._found(account_id, await self._done(script, account_id, *arguments))

    async def _of_shard(self, script: Script, account_id: str) -> Account:
        shard, account = keys.parts(account_id)
        prefix = keys.shard(shard)
        done = await self._server.repeated(lambda: self._server.write(script, prefix, [account]))
        return await self._found(account_id, done)

    async def _found(self, account_id: str, done: Any) -> Account:
        if not done:
            raise NotFound(f"There is no account {account_id}.")
        return await self._accounts.get(account_id)
