"""Accounts: made, paid into, changed and deleted; and the movements of their credits by day."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

import structlog

from scheduler import ids
from scheduler.errors import NotFound, StoreRefused, Taken, TooMany, UnknownAccount
from scheduler.models import Account, Plan
from scheduler.rollups import CREATED, DAY_MS
from scheduler.store import keys
from scheduler.store.accounts.sign_in.members import (
    free,
    free_addresses,
    is_dead,
    reserve,
    reserve_address,
)
from scheduler.store.accounts.signing.signing import new_secret
from scheduler.store.retention import Retention
from scheduler.store.server import Argument, Script, Server, pairs
from scheduler.store.server.clock import StoreClock
from scheduler.store.shards import Shards
from scheduler.texts import normal_email

_CREATE = Script("accounts/create")
_GRANT = Script("accounts/grant")
_LEAVE = Script("accounts/leave")
_LEFT = Script("accounts/left")
_RENAME = Script("accounts/rename")
_SET = Script("accounts/set")
_STORED = Script("accounts/stored")
_SUSPEND = Script("accounts/suspend")
_UNSET = Script("accounts/unset")

_LEAVING = -1
_TOO_MANY = -1

# Accounts that are read side by side.
_READ_AT_ONCE = 50
_SCAN_COUNT = 500
_log = structlog.get_logger(__name__)
# Spent credits are noted by their hour.
_MOVEMENTS = ("granted", "refunded", *(f"{hour}{CREATED}" for hour in range(24)))


class Deleted(NamedTuple):
    """An account that was, and how many of its schedules had not ended."""

    account_id: str
    name: str
    unended: int


class Movements(NamedTuple):
    """Credits that moved on one day (UTC), which begins at `day_ms`."""

    day_ms: int
    granted: int
    spent: int
    refunded: int

    @property
    def change(self) -> int:
        return self.granted - self.spent + self.refunded


class Holdings(NamedTuple):
    """What an account has: its schedules weigh so many bytes, as its plan's quota counts them."""

    account: Account
    stored_bytes: int
    lanes: int
    recurring: int


class Accounts:
    def __init__(
        self, server: Server, clock: StoreClock, shards: Shards, retention: Retention
    ) -> None:
        self._server = server
        self._clock = clock
        self._retention = retention
        self._shards = shards

    async def create(
        self, name: str, *, credits: int, plan: Plan, email: str = "", operator: bool = False
    ) -> Account:
        """Makes an account, with an address also its first member, an owner. Raises Taken;
        ValueError for a bad e-mail address. Name and address are reserved first: after a crash
        creating it again completes them."""
        address = normal_email(email) if email else ""
        if address and (other := await self._other_with(address, name)):
            raise _taken(address, other)
        sizes = await self._sizes()  # a new one comes to the emptiest shard
        new_id = ids.new_account_id(sizes.index(min(sizes)))
        account_id = await reserve(self._server, keys.NAME + name, new_id)
        if await self._read(account_id) is not None:
            raise Taken(f"There is an account called {name!r} already.")
        member = ""
        if address:
            ours = f"{account_id} {ids.new_member_id()}"
            owner, _, member = (await reserve_address(self._server, address, ours)).partition(" ")
            if owner != account_id:
                raise _taken(address, owner)
        shard, local = keys.parts(account_id)
        arguments: list[Argument] = [local, ids.new_operation(), name, plan, credits]
        arguments += (address, member, int(operator), self._retention.log_ms)
        arguments += new_secret(self._server.secrecy)
        made = await self._server.write_until_answered(_CREATE, keys.shard(shard), arguments)
        if made == _LEAVING:
            raise Taken(
                f"The account called {name!r} is being deleted: postdate account delete once more"
            )
        if not made:
            raise Taken(f"There is an account called {name!r} already.")
        # Once more: where its id is one whose deletion has just ended, the name was freed.
        await reserve(self._server, keys.NAME + name, account_id)
        return await self.get(account_id)

    async def find(self, name_or_id: str) -> Account:
        """The account of a name or an id. Raises NotFound."""
        return await self.get(await self.id_of(name_or_id))

    async def id_of(self, name_or_id: str) -> str:
        """The id that a name leads to, even while its account is being deleted. Raises NotFound."""
        if ids.parse_sharded(name_or_id, "acc") is not None:
            return name_or_id
        account_id = await self._server.read("GET", keys.NAME + name_or_id)
        if account_id is None:
            raise UnknownAccount(f"called {name_or_id!r}")
        return str(account_id.decode())

    async def leaving_id_of(self, name_or_id: str) -> str:
        """`id_of`, also of a name that was freed by a deletion that was cut off after that: then it
        looks at all accounts. Raises NotFound."""
        try:
            return await self.id_of(name_or_id)
        except NotFound:
            async for account_id in self._left_by(name_or_id):
                return account_id
            raise

    async def get(self, account_id: str) -> Account:
        """Raises NotFound."""
        account = await self._read(account_id)
        if account is None:
            raise UnknownAccount(account_id)
        return account

    async def stored_bytes(self, account_id: str) -> int:
        """What its schedules weigh, as its plan's quota counts it. Read-only."""
        return int(await self._server.look_up(_STORED, keys.account(account_id), ()))

    async def holdings(self, account_id: str) -> Holdings:
        """Raises NotFound. Read-only, and cheap: all is counted already."""
        base = keys.account(account_id)
        counted = [("ZCARD", base + name) for name in (keys.LANES, keys.RULES)]
        account, stored_bytes, (lanes, recurring) = await asyncio.gather(
            self.get(account_id), self.stored_bytes(account_id), self._server.reads(counted)
        )
        return Holdings(account, stored_bytes, lanes, recurring)

    async def first(self) -> str | None:
        """The id of the account that `up` made at its first start, if it did; it may be gone."""
        noted = await self._server.read("HGET", keys.META, "first")
        return None if noted is None else str(noted.decode())

    async def note_first(self, account_id: str) -> None:
        """Safe to repeat: the first one that was noted stays."""
        await self._server.call("HSETNX", keys.META, "first", account_id)

    async def some(self, most: int = 2**53) -> tuple[list[Account], int]:
        """The first `most` accounts, by shard and age, without damaged ones, which are logged; and
        the number of all."""
        found: list[str] = []
        for shard in range(self._shards.count):
            if left := most - len(found):
                key = keys.shard(shard) + keys.ACCOUNTS
                locals_ = await self._server.read("ZRANGE", key, 0, left - 1)
                found += [ids.account_id(shard, local.decode()) for local in locals_]
        accounts: list[Account | None] = []
        for i in range(0, len(found), _READ_AT_ONCE):
            accounts += await asyncio.gather(*map(self._read_sound, found[i : i + _READ_AT_ONCE]))
        return [each for each in accounts if each is not None], sum(await self._sizes())

    async def grant(self, account_id: str, credits: int, operation: str | None = None) -> Account:
        """Adds credits, exactly once even if a reply is lost; with the name of an `operation`, once
        for all calls of that name within a day. Raises NotFound; TooMany if all that was ever
        granted came to more than 2**53."""
        arguments = (operation or ids.new_operation(), credits, self._retention.log_ms)
        base = keys.account(account_id)
        granted = await self._server.write_until_answered(_GRANT, base, arguments)
        if not granted:
            raise UnknownAccount(account_id)
        if granted == _TOO_MANY:
            raise TooMany("So many credits cannot be counted.")
        return await self.get(account_id)

    async def movements(self, account_id: str) -> list[Movements]:
        """The days on which something moved, the latest first, as far back as they are kept."""
        today = self._clock.now_ms() // DAY_MS
        days = range(today, today - self._retention.promised_log_ms // DAY_MS, -1)
        base = keys.account(account_id)
        replies = await self._server.reads(
            [("HMGET", f"{base}{keys.DAY}{day}", *_MOVEMENTS) for day in days]
        )
        found = []
        for day, reply in zip(days, replies, strict=True):
            granted, refunded, *spent = (int(value or 0) for value in reply)
            found.append(Movements(day * DAY_MS, granted, sum(spent), refunded))
        return [each for each in found if each.granted or each.spent or each.refunded]

    async def _left_by(self, name: str) -> AsyncIterator[str]:
        """Accounts of that name whose deletion has begun."""
        for shard in range(self._shards.count):
            prefix = keys.shard(shard)
            async for some in self._server.members("ZSCAN", prefix + keys.ACCOUNTS, _SCAN_COUNT):
                locals_ = [each.decode(errors="backslashreplace") for each in some]
                left = [f"{prefix}{each}:{keys.LEAVING}" for each in locals_]
                commands = [("HGET", each, "name") for each in left]
                names = await self._server.reads(commands, damaged=True)
                for local, found in zip(locals_, names, strict=True):
                    if found == name.encode():
                        yield ids.account_id(shard, local)

    async def _other_with(self, address: str, name: str) -> str:
        """The account that has the address already, if it is none of this name; '': there is none.
        A look before anything is reserved."""
        holder, named = await self._server.reads(
            [("GET", keys.EMAIL + address), ("GET", keys.NAME + name)]
        )
        if holder is None or holder.partition(b" ")[0] == named:
            return ""
        is_free = await is_dead(self._server, holder.decode())
        return "" if is_free else str(holder.decode().partition(" ")[0])

    async def _sizes(self) -> list[int]:
        prefixes = map(keys.shard, range(self._shards.count))
        return await self._server.reads([("ZCARD", prefix + keys.ACCOUNTS) for prefix in prefixes])

    async def _read(self, account_id: str) -> Account | None:
        stored = await self._server.read("HGETALL", keys.account(account_id) + keys.ACCOUNT)
        if not stored:
            return None
        values = {name.decode(): value.decode() for name, value in pairs(stored).items()}
        return Account(
            account_id=account_id,
            name=values["name"],
            plan=Plan(values["plan"]),
            credits=int(values["credits"]),
            granted=int(values["granted"]),
            spent=int(values["spent"]),
            created_at_ms=int(values["created"]),
            operator=values["operator"] == "1",
            suspended="suspended" in values,
        )

    async def _read_sound(self, account_id: str) -> Account | None:
        """None if it is damaged as well, which the log names."""
        try:
            return await self._read(account_id)
        except (StoreRefused, KeyError, ValueError) as error:
            _log.error("an account is damaged", account=account_id, error=str(error))
            return None


def _taken(address: str, account_id: str) -> Taken:
    """For operators, who alone make accounts: owners can give any address to a member."""
    return Taken(f"{address} is a member of {account_id}, and of one account at most.")


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

    async def delete(self, name_or_id: str) -> Deleted:
        """Removes an account and all that it has, its waiting schedules unfired. Raises NotFound.
        Safe to repeat: after a failure the same call goes on; until then the name stays
        reserved. Scans the names of all keys: a second for some hundred thousand."""
        account_id = await self._accounts.leaving_id_of(name_or_id)
        shard, account = keys.parts(account_id)
        prefix = keys.shard(shard)
        found = await self._server.write_until_answered(_LEAVE, prefix, [account])
        if not found:
            raise UnknownAccount(account_id)
        unended, (name, also) = found[0], (text.decode() for text in found[1:])
        await free_addresses(self._server, account_id)
        await self._remove_keys(prefix, account_id)
        await self._remove_data(account_id)
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
        return await self._changed(account_id, _SET, account, (field, value))

    async def _suspend(self, account_id: str, suspended: int) -> Account:
        shard, account = keys.parts(account_id)
        return await self._changed(account_id, _SUSPEND, keys.shard(shard), (account, suspended))

    async def _changed(
        self, account_id: str, script: Script, key: str, arguments: Sequence[Argument]
    ) -> Account:
        if not await self._server.write_until_answered(script, key, arguments):
            raise UnknownAccount(account_id)
        return await self._accounts.get(account_id)
