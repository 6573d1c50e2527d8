"""What an operator changes of an account: its plan, its name, whether it may go on."""

from __future__ import annotations

from typing import Any

from scheduler.errors import NotFound, Taken
from scheduler.models import Account, Plan
from scheduler.store import keys
from scheduler.store.accounts.accounts import Accounts, free, reserve
from scheduler.store.server import Script, Server

_SET = Script("accounts/set")
_UNSET = Script("accounts/unset")
_SUSPEND = Script("accounts/suspend")
_RENAME = Script("accounts/rename")


class Changes:
    """All raise NotFound, and are safe to repeat: after a crash, a repeat finishes the change."""

    def __init__(self, server: Server, accounts: Accounts) -> None:
        self._server = server
        self._accounts = accounts

    async def plan(self, account_id: str, plan: Plan) -> Account:
        """From the next request on it has that plan's rate."""
        return await self._set(account_id, "plan", plan)

    async def suspend(self, account_id: str) -> Account:
        """Refuses its calls from now on; due schedules wait. Workers still fire held ones."""
        return await self._suspend(account_id, 1)

    async def resume(self, account_id: str) -> Account:
        """Its calls are carried out again; what came due meanwhile is due now."""
        return await self._suspend(account_id, 0)

    async def rename(self, account_id: str, name: str) -> Account:
        """Renames it, and frees the old name. Raises Taken. The account notes both names until this
        is done: the next rename clears up after a crash."""
        account = await self._accounts.get(account_id)
        await self._settle(account_id)
        if account.name == name:
            return account
        await self._set(account_id, "also", name)
        holder = await reserve(self._server, keys.NAME + name, account_id)
        done = holder == account_id and await self._server.write_until_answered(
            _RENAME, keys.account(account_id), [name]
        )
        await self._settle(account_id)
        if not done:
            # By us or, at this very moment, by another rename of the same account.
            if holder == account_id:
                await free(self._server, keys.NAME + name, account_id)
            raise Taken(f"There is an account called {name!r} already.")
        return await self._accounts.get(account_id)

    async def _settle(self, account_id: str) -> None:
        """Frees the name that an account may have besides its own."""
        account = keys.account(account_id) + keys.ACCOUNT
        name, also = await self._server.read("HMGET", account, "name", "also")
        if also is None:
            return
        if also != name:
            await free(self._server, keys.NAME + also.decode(), account_id)
        await self._server.write_until_answered(_UNSET, account, ("also", also))

    async def _set(self, account_id: str, field: str, value: str) -> Account:
        account = keys.account(account_id) + keys.ACCOUNT
        done = await self._server.write_until_answered(_SET, account, (field, value))
        return await self._found(account_id, done)

    async def _suspend(self, account_id: str, suspended: int) -> Account:
        shard, account = keys.parts(account_id)
        what = (account, suspended)
        done = await self._server.write_until_answered(_SUSPEND, keys.shard(shard), what)
        return await self._found(account_id, done)

    async def _found(self, account_id: str, done: Any) -> Account:
        if not done:
            raise NotFound(f"There is no account {account_id}.")
        return await self._accounts.get(account_id)
