"""Accounts, their ledger and their API keys."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from scheduler import ids
from scheduler.emails import normal_email
from scheduler.errors import EmailTaken, NameTaken, NotFound, StoreError, TooMany
from scheduler.models import Account, ApiKey, Caller, Plan, Rate
from scheduler.store import keys
from scheduler.store.accounts.reserved import reserve
from scheduler.store.accounts.signing import new_secret
from scheduler.store.accounts.users import email_is_free, reserve_email
from scheduler.store.client import Client
from scheduler.store.coalesce import Coalescer
from scheduler.store.failures import translated
from scheduler.store.operators.shards import Shards
from scheduler.store.retention import Retention
from scheduler.store.server import Argument, Script, Server, flat

_MOST_KEYS_AT_ONCE = 512

_CREATE = Script("accounts/create")
_GRANT = Script("accounts/grant")
_ADMIT = Script("accounts/admit")
_STORED = Script("accounts/stored")
_KEY_CREATE = Script("accounts/key_create")
_KEY_DEACTIVATE = Script("accounts/key_deactivate")

_LEAVING = -1
_TOO_MANY = -1

MOST_ACTIVE_KEYS = 100
_MOST_KEYS = 300

# Accounts that are read side by side.
_READ_AT_ONCE = 50


class Accounts:
    """Makes, finds and pays into accounts; makes, checks and deactivates their keys."""

    def __init__(
        self,
        client: Client,
        server: Server,
        shards: Shards,
        retention: Retention,
        rates: Mapping[Plan, int],
    ) -> None:
        self._client = client
        self._server = server
        self._rates = [len(rates), *flat((str(plan), rate) for plan, rate in rates.items())]
        self._retention = retention
        self._shards = shards
        self._admitting: dict[int, Coalescer[str, list[Any]]] = {}

    async def admit(self, api_key: str) -> Caller | None:
        """Who holds this key, as the store knows it now; None if it is invalid or inactive.

        Counts as one request against the account's rate, unless its rate is used up already.
        """
        shard = ids.api_key_shard(api_key)
        if shard is None or not await self._exists(shard):
            return None
        coalescer = self._admitting.get(shard)
        if coalescer is None:
            coalescer = Coalescer(lambda hashes: self._admit(shard, hashes), _MOST_KEYS_AT_ONCE)
            self._admitting[shard] = coalescer
        found = await coalescer.submit(ids.hash_api_key(api_key))
        if not found:
            return None
        account, key, plan, suspended = (part.decode() for part in found[:4])
        return Caller(
            ids.account_id(shard, account),
            ids.key_id(shard, key),
            Plan(plan),
            Rate(*found[4:]) if len(found) > 4 else None,
            suspended == "1",
        )

    async def create(
        self, name: str, *, credits: int, plan: Plan, email: str = "", operator: bool = False
    ) -> Account:
        """Makes an account. Raises NameTaken, EmailTaken, or ValueError for what is no e-mail
        address.

        Name and e-mail address are reserved first; what a crash between the steps leaves is a
        name whose account does not exist, and the next attempt at the name fills it.
        """
        address = normal_email(email) if email else ""
        if address and not await email_is_free(self._client, address, name):
            raise EmailTaken(f"{address} belongs to another account already.")
        account_id = await self._reserve(name)
        if await self._read(account_id) is not None:
            raise NameTaken(f"There is an account called {name!r} already.")
        if address and not await reserve_email(self._client, address, account_id):
            raise EmailTaken(f"{address} belongs to another account already.")
        shard, local = _parts(account_id, "acc")
        arguments: list[Argument] = [local, ids.new_operation(), name, plan, credits, address]
        arguments += (int(operator), self._retention.log_ms, *new_secret(self._server.secrecy))
        made = await self._server.repeated(
            lambda: self._server.write(_CREATE, keys.shard(shard), arguments)
        )
        if made == _LEAVING:
            raise NameTaken(
                f"The account called {name!r} is being deleted: postdate account delete once more"
            )
        if not made:
            raise NameTaken(f"There is an account called {name!r} already.")
        # Once more: where its id is one whose deletion has just ended, the name was freed.
        await reserve(self._client, keys.account_name(name), account_id)
        return await self.get(account_id)

    async def find(self, name_or_id: str) -> Account:
        """The account of a name or an id. Raises NotFound."""
        if ids.parse_sharded(name_or_id, "acc") is not None:
            return await self.get(name_or_id)
        with translated():
            account_id = await self._client.get(keys.account_name(name_or_id))
        if account_id is None:
            raise NotFound(f"There is no account called {name_or_id!r}.")
        return await self.get(account_id.decode())

    async def get(self, account_id: str) -> Account:
        """Raises NotFound."""
        account = await self._read(account_id)
        if account is None:
            raise NotFound(f"There is no account {account_id}.")
        return account

    async def stored_bytes(self, account_id: str) -> int:
        """What its schedules weigh, as its plan's quota counts it. Read-only."""
        return int(await self._server.run(_STORED, keys.account(account_id), ()))

    async def first(self) -> str | None:
        """The id of the account that `up` made at its first start, if it did; it may be gone."""
        with translated():
            noted = await self._client.hget(keys.META, "first")
        return None if noted is None else str(noted.decode())

    async def note_first(self, account_id: str) -> None:
        """Safe to repeat: the first one that was noted stays."""
        with translated():
            await self._client.hsetnx(keys.META, "first", account_id)

    async def list_accounts(self) -> list[Account]:
        """All accounts, by shard and then by age."""
        found = []
        for shard in range(self._shards.count):
            with translated():
                locals_ = await self._client.zrange(keys.shard(shard) + keys.ACCOUNTS, 0, -1)
            for local in locals_:
                account = await self._read(ids.account_id(shard, local.decode()))
                if account is not None:
                    found.append(account)
        return found

    async def some(self, most: int) -> tuple[list[Account], int]:
        """The first of all accounts, as `list_accounts` has them, and how many there are."""
        found: list[str] = []
        count = 0
        for shard in range(self._shards.count):
            key = keys.shard(shard) + keys.ACCOUNTS
            with translated():
                count += await self._client.zcard(key)
                locals_ = (
                    await self._client.zrange(key, 0, most - len(found) - 1)
                    if len(found) < most
                    else []
                )
            found += [ids.account_id(shard, local.decode()) for local in locals_]
        accounts: list[Account | None] = []
        for i in range(0, len(found), _READ_AT_ONCE):
            accounts += await asyncio.gather(*map(self._read, found[i : i + _READ_AT_ONCE]))
        return [each for each in accounts if each is not None], count

    async def credits(self, account_id: str) -> int:
        """What is left to spend. Raises NotFound."""
        with translated():
            credits = await self._client.hget(keys.account(account_id) + keys.ACCOUNT, "credits")
        if credits is None:
            raise NotFound(f"There is no account {account_id}.")
        return int(credits)

    async def grant(self, account_id: str, credits: int, operation: str | None = None) -> Account:
        """Adds credits, exactly once even if a reply is lost. Raises NotFound; TooMany if all that
        was ever granted came to more than 2**53.

        With the name of an `operation`, once for all calls of that name within a day.
        """
        arguments = (operation or ids.new_operation(), credits, self._retention.log_ms)
        granted = await self._server.repeated(
            lambda: self._server.write(_GRANT, keys.account(account_id), arguments)
        )
        if not granted:
            raise NotFound(f"There is no account {account_id}.")
        if granted == _TOO_MANY:
            raise TooMany("So many credits cannot be counted.")
        return await self.get(account_id)

    async def create_key(self, account_id: str, name: str) -> tuple[ApiKey, str]:
        """A new API key and its value, which is not stored and cannot be shown again.

        Raises NotFound, TooMany. Beyond 300 keys, the oldest inactive one is forgotten.
        """
        shard, account = _parts(account_id, "acc")
        key_id, value = ids.new_key_id(shard), ids.new_api_key(shard)
        local = _parts(key_id, "key")[1]
        sha256 = ids.hash_api_key(value)
        begins = ids.api_key_prefix(value)
        arguments = (account, local, sha256, name, begins, MOST_ACTIVE_KEYS, _MOST_KEYS)
        made = await self._server.repeated(
            lambda: self._server.write(_KEY_CREATE, keys.shard(shard), arguments)
        )
        if not made:
            raise NotFound(f"There is no account {account_id}.")
        if made == _TOO_MANY:
            raise TooMany(
                f"The account has {MOST_ACTIVE_KEYS} active API keys; deactivate one first."
            )
        return await self._read_key(shard, sha256), value

    async def list_keys(self, account_id: str) -> list[ApiKey]:
        """An account's keys, oldest first, deactivated ones among them. Raises NotFound."""
        await self.get(account_id)
        shard, _ = _parts(account_id, "acc")
        with translated():
            locals_ = await self._client.zrange(keys.account(account_id) + keys.KEYS, 0, -1)
            hashes = [
                await self._client.get(keys.shard(shard) + keys.KEY_ID + local.decode())
                for local in locals_
            ]
        return [await self._read_key(shard, sha256.decode()) for sha256 in hashes if sha256]

    async def deactivate_key(self, key_id: str) -> ApiKey:
        """From the next request on the key is refused. Raises NotFound; safe to repeat."""
        parts = ids.parse_sharded(key_id, "key")
        sha256 = b""
        if parts is not None and await self._exists(parts.shard):
            prefix, local = keys.shard(parts.shard), parts.local
            sha256 = await self._server.repeated(
                lambda: self._server.write(_KEY_DEACTIVATE, prefix, [local])
            )
        if parts is None or not sha256:
            raise NotFound(f"There is no API key {key_id}.")
        return await self._read_key(parts.shard, sha256.decode())

    async def _admit(self, shard: int, hashes: list[str]) -> list[list[Any]]:
        arguments = [*self._rates, *hashes]
        callers: list[list[Any]] = await self._server.repeated(
            lambda: self._server.run(_ADMIT, keys.shard(shard), arguments)
        )
        return callers

    async def _exists(self, shard: int) -> bool:
        """Whether the store has this shard; there may have come to be more since the start."""
        return shard < self._shards.count or shard < await self._shards.newest()

    async def _reserve(self, name: str) -> str:
        """The account id that this name stands for, reserved now or before."""
        shard = await self._emptiest_shard()
        return await reserve(self._client, keys.account_name(name), ids.new_account_id(shard))

    async def _emptiest_shard(self) -> int:
        with translated():
            sizes = [
                await self._client.zcard(keys.shard(shard) + keys.ACCOUNTS)
                for shard in range(self._shards.count)
            ]
        return sizes.index(min(sizes))

    async def _read(self, account_id: str) -> Account | None:
        with translated():
            stored = await self._client.hgetall(keys.account(account_id) + keys.ACCOUNT)
        return _account(account_id, stored) if stored else None

    async def _read_key(self, shard: int, sha256: str) -> ApiKey:
        with translated():
            stored = await self._client.hgetall(keys.shard(shard) + keys.API_KEY + sha256)
        if not stored:
            raise StoreError("The store lost an API key that it had just written")
        return _api_key(shard, stored)


def _parts(text: str, prefix: str) -> ids.Sharded:
    parts = ids.parse_sharded(text, prefix)
    if parts is None:
        raise NotFound(f"There is no {text!r}.")
    return parts


def _account(account_id: str, stored: dict[bytes, bytes]) -> Account:
    values: dict[str, Any] = {name.decode(): value.decode() for name, value in stored.items()}
    return Account(
        account_id=account_id,
        name=values["name"],
        plan=Plan(values["plan"]),
        credits=int(values["credits"]),
        granted=int(values["granted"]),
        spent=int(values["spent"]),
        created_at_ms=int(values["created"]),
        email=values["email"],
        operator=values["operator"] == "1",
        suspended="suspended" in values,
    )


def _api_key(shard: int, stored: dict[bytes, bytes]) -> ApiKey:
    values = {name.decode(): value.decode() for name, value in stored.items()}
    return ApiKey(
        key_id=ids.key_id(shard, values["id"]),
        account_id=ids.account_id(shard, values["account"]),
        name=values["name"],
        prefix=values["prefix"],
        active=values["active"] == "1",
        created_at_ms=int(values["created"]),
        last_used_at_ms=int(values["used"]) if "used" in values else None,
    )
