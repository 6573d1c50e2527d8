"""API keys: who may call, and at what rate."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache, partial
from typing import Any

from scheduler import ids
from scheduler.callers import ApiKey, Caller, KnownKey, Rate
from scheduler.errors import NotFound, StoreError, TooMany, UnknownAccount, Unreadable
from scheduler.models import Plan
from scheduler.store import keys
from scheduler.store.accounts.accounts import Accounts
from scheduler.store.server import Script, Server, flat, pairs
from scheduler.store.server.coalescing import Coalescer
from scheduler.store.shards import Shards

MOST_ACTIVE_KEYS = 100
_MOST_KEYS = 300
_MOST_KEYS_AT_ONCE = 512
_MOST_KNOWN = 4096
_TOO_MANY = -1

_ADMIT = Script("accounts/admit")
_KEY_CREATE = Script("accounts/key_create")
_KEY_DEACTIVATE = Script("accounts/key_deactivate")


class ApiKeys:
    def __init__(
        self, server: Server, shards: Shards, accounts: Accounts, rates: Mapping[Plan, int]
    ) -> None:
        self._server = server
        self._shards = shards
        self._accounts = accounts
        self._rates = [len(rates), *flat((str(plan), rate) for plan, rate in rates.items())]
        self._admitter = cache(self._new_admitter)
        # By SHA-256: keys whose holders might go on when they were looked up last.
        self._known: dict[str, KnownKey] = {}

    async def admit(self, api_key: str) -> Caller | None:
        """The key's holder now; None if it is invalid or inactive. Counts as a request against the
        account's rate, unless that is used up. Raises Unreadable if something of it is damaged."""
        shard = ids.api_key_shard(api_key)
        if shard is None or not await self._shards.has(shard):
            return None
        sha256 = ids.hash_secret(api_key)
        found = await self._admitter(shard).submit(sha256)
        if not found:
            return None
        if len(found) == 1:
            account_id = ids.account_id(shard, found[0].decode()) if found[0] else "an API key"
            raise Unreadable(f"Something of {account_id} is damaged")
        rate, suspended = Rate(*found[4:]) if len(found) > 4 else None, found[3] == b"1"
        caller = Caller(*_holder(shard, *found[:3]), rate, suspended)
        if not suspended and (rate is None or not rate.wait_s):
            self._remember(KnownKey(shard, sha256, caller.account_id))
        return caller

    def known(self, api_key: str) -> KnownKey | None:
        """The key if it was good when this process looked it up last: worth a try, no proof."""
        return self._known.get(ids.hash_secret(api_key))

    def forget(self, key: KnownKey) -> None:
        """It is not known from here on, until it is admitted again. Safe to repeat."""
        self._known.pop(key.sha256, None)

    def _remember(self, key: KnownKey) -> None:
        self._known[key.sha256] = key
        if len(self._known) > _MOST_KNOWN:
            del self._known[next(iter(self._known))]

    async def create(self, account_id: str, name: str, who: str = "") -> tuple[ApiKey, str]:
        """A new API key and its value, which is not stored. Raises NotFound, TooMany. Beyond 300
        keys, the oldest inactive one is forgotten."""
        shard, account = keys.parts(account_id)
        local, value = ids.new_key_id(shard).rpartition("_")[2], ids.new_api_key(shard)
        sha256 = ids.hash_secret(value)
        begins = ids.api_key_prefix(value)
        most = (MOST_ACTIVE_KEYS, _MOST_KEYS)
        arguments = (account, local, sha256, name, begins, *most, who)
        made = await self._server.write_until_answered(_KEY_CREATE, keys.shard(shard), arguments)
        if not made:
            raise UnknownAccount(account_id)
        if made == _TOO_MANY:
            raise TooMany(
                f"The account has {MOST_ACTIVE_KEYS} active API keys; deactivate one first."
            )
        # Not read again: if that failed, a key would be active whose value nobody has.
        return ApiKey(ids.key_id(shard, local), account_id, name, begins, True, made), value

    async def of_account(self, account_id: str) -> list[ApiKey]:
        """An account's keys, oldest first, deactivated ones among them. Raises NotFound."""
        await self._accounts.get(account_id)
        shard = keys.parts(account_id).shard
        locals_ = await self._server.read("ZRANGE", keys.account(account_id) + keys.KEYS, 0, -1)
        hashes = await self._server.reads(
            [("GET", keys.shard(shard) + keys.KEY_ID + local.decode()) for local in locals_]
        )
        return [await self._read_key(shard, sha256.decode()) for sha256 in hashes if sha256]

    async def name_of(self, key_id: str) -> str:
        """Raises NotFound. Read-only."""
        parts = ids.parse_sharded(key_id, "key")
        if parts is not None:
            prefix = keys.shard(parts.shard)
            sha256 = await self._server.read("GET", prefix + keys.KEY_ID + parts.local)
            if sha256 is not None:
                return (await self._read_key(parts.shard, sha256.decode())).name
        raise NotFound(f"There is no API key {key_id}.")

    async def deactivate(self, key_id: str, who: str = "") -> ApiKey:
        """From the next request on the key is refused. Raises NotFound; safe to repeat."""
        parts = ids.parse_sharded(key_id, "key")
        if parts is not None and await self._shards.has(parts.shard):
            sha256 = await self._server.write_until_answered(
                _KEY_DEACTIVATE, keys.shard(parts.shard), [parts.local, who]
            )
            if sha256:
                return await self._read_key(parts.shard, sha256.decode())
        raise NotFound(f"There is no API key {key_id}.")

    def _new_admitter(self, shard: int) -> Coalescer[str, list[Any]]:
        return Coalescer(partial(self._admit, shard), _MOST_KEYS_AT_ONCE)

    async def _admit(self, shard: int, hashes: list[str]) -> list[list[Any]]:
        arguments = [*self._rates, *hashes]
        callers: list[list[Any]] = await self._server.look_up(_ADMIT, keys.shard(shard), arguments)
        return callers

    async def _read_key(self, shard: int, sha256: str) -> ApiKey:
        stored = await self._server.read("HGETALL", keys.shard(shard) + keys.API_KEY + sha256)
        if not stored:
            raise StoreError("The store lost an API key that it had just written")
        values = {name.decode(): value.decode() for name, value in pairs(stored).items()}
        return ApiKey(
            key_id=ids.key_id(shard, values["id"]),
            account_id=ids.account_id(shard, values["account"]),
            name=values["name"],
            prefix=values["prefix"],
            active=values["active"] == "1",
            created_at_ms=int(values["created"]),
            last_used_at_ms=int(values["used"]) if "used" in values else None,
        )


@lru_cache(maxsize=4096)
def _holder(shard: int, account: bytes, key: bytes, plan: bytes) -> tuple[str, str, Plan]:
    """What the store's words for a key's holder stand for; cached, for each asks many times."""
    held = ids.account_id(shard, account.decode()), ids.key_id(shard, key.decode())
    return *held, Plan(plan.decode())
