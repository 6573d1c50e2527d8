"""Who signs in: holders of accounts, by e-mail address and password, of which only the text of its
argon2id hash comes here. And their browsers' sessions, and the one-time links that sign in or set a
password: secrets of 256 random bits that name their shard, as API keys do, and are stored by hash.
"""

from __future__ import annotations

import hashlib
import secrets
from enum import StrEnum
from typing import NamedTuple

from scheduler import ids
from scheduler.errors import StoreError, UnknownAccount
from scheduler.store import keys
from scheduler.store.server import Argument, Script, Server
from scheduler.store.shards import Shards
from scheduler.texts import normal_email

SESSION_TTL_MS = 7 * 24 * 3_600_000
LINK_TTL_MS = 3_600_000

_MOST_SESSIONS = 50

# Failed attempts within a quarter of an hour: from one network address at one e-mail address, and
# at all of them, as an office shares it. Attempts from elsewhere do not lock a holder out; beyond
# ATTEMPTS_PER_EMAIL from many places, only places that signed in before may.
ATTEMPTS_WINDOW_MS = 15 * 60_000
ATTEMPTS_PER_BOTH = 10
ATTEMPTS_PER_ADDRESS = 100
ATTEMPTS_PER_EMAIL = 1000
KNOWN_FOR_MS = 90 * 24 * 3_600_000

_ATTEMPT = Script("accounts/sign_in/attempt")
_OPEN = Script("accounts/sign_in/session_open")
_CLOSE = Script("accounts/sign_in/session_close")
_SET = Script("accounts/set")
_UNSET = Script("accounts/unset")
_LINK_MAKE = Script("accounts/sign_in/link_make")
_LINK_REDEEM = Script("accounts/sign_in/link_redeem")


class Purpose(StrEnum):
    """What a one-time link is good for."""

    SIGN_IN = "sign-in"
    SET_PASSWORD = "set-password"  # noqa: S105


class Session(NamedTuple):
    """A signed-in browser. Its writes carry `csrf`; `said` is for its next page, once."""

    account_id: str
    sha256: str
    csrf: str
    said: str = ""


class Opened(NamedTuple):
    """A session and its secret, which is not stored and cannot be shown again."""

    session: Session
    secret: str


class Sessions:
    def __init__(self, server: Server, shards: Shards) -> None:
        self._server = server
        self._shards = shards

    async def open(self, account_id: str, *, password: str = "") -> Opened:
        """A new session of an account, for a week. With the hash of a new `password`, also sets
        that, closes all other sessions of the account and voids its links. Raises NotFound."""
        secret, csrf = ids.new_secret(keys.parts(account_id).shard), secrets.token_urlsafe(32)
        sha256 = ids.hash_secret(secret)
        what = (sha256, csrf, SESSION_TTL_MS, _MOST_SESSIONS, password)
        await self._write(_OPEN, account_id, *what)
        return Opened(Session(account_id, sha256, csrf), secret)

    async def find(self, secret: str) -> Session | None:
        shard = await self._shard(secret)
        if shard is None:
            return None
        sha256 = ids.hash_secret(secret)
        stored = await self._server.read(
            "HMGET", keys.shard(shard) + keys.SESSION + sha256, "account", "csrf", "said"
        )
        if stored[0] is None:
            return None
        account, csrf, said = ((each or b"").decode() for each in stored)
        return Session(ids.account_id(shard, account), sha256, csrf, said)

    async def say(self, session: Session, words: str) -> None:
        """Leaves words for this browser's next page. Safe to repeat; a closed session gets none."""
        await self._server.write_until_answered(_SET, _key(session), ("said", words))

    async def hear(self, session: Session) -> str:
        """Takes the words left for this browser: one caller gets them, two if a reply is lost."""
        if not session.said:
            return ""
        try:
            heard = await self._server.write(_UNSET, _key(session), ("said", session.said))
        except StoreError:
            return session.said
        return session.said if heard else ""

    async def close(self, session: Session) -> None:
        """Safe to repeat."""
        await self._write(_CLOSE, session.account_id, session.sha256)

    async def close_all(self, account_id: str) -> None:
        """Closes every session of an account; links that were not used are void. Safe to repeat."""
        await self._write(_CLOSE, account_id, "")

    async def count(self, account_id: str) -> int:
        """How many are open; one that ended a moment ago may still count."""
        return int(await self._server.read("ZCARD", keys.account(account_id) + keys.SESSIONS))

    async def make_link(self, account_id: str, purpose: Purpose) -> str:
        """The secret of a new link, good once and for an hour. Raises NotFound."""
        secret = ids.new_secret(keys.parts(account_id).shard)
        sha256 = ids.hash_secret(secret)
        await self._write(_LINK_MAKE, account_id, sha256, purpose, LINK_TTL_MS)
        return secret

    async def leads_to(self, link: str, purpose: Purpose) -> str | None:
        """The account of a link that could be redeemed now; None if it could not. Read-only."""
        shard = await self._shard(link)
        if shard is None:
            return None
        prefix = keys.shard(shard)
        key = prefix + keys.LINK + ids.hash_secret(link)
        account, found, epoch = await self._server.read("HMGET", key, "account", "purpose", "epoch")
        if account is None or found is None or found.decode() != purpose:
            return None
        base = f"{prefix}{account.decode()}:"
        now, there = await self._server.reads(
            [("HGET", base + keys.HOLDER, "epoch"), ("EXISTS", base + keys.ACCOUNT)]
        )
        good = there and epoch == (now or b"0")
        return ids.account_id(shard, account.decode()) if good else None

    async def redeem(self, link: str, purpose: Purpose, password: str = "") -> Opened | None:
        """Spends a link and opens a session; with a password's hash, sets that and closes the
        others. None if the link is spent, too old, void or unknown."""
        shard = await self._shard(link)
        if shard is None:
            return None
        secret, csrf = ids.new_secret(shard), secrets.token_urlsafe(32)
        sha256 = ids.hash_secret(secret)
        what = (ids.hash_secret(link), purpose, password, sha256, csrf)
        local = await self._server.write_until_answered(
            _LINK_REDEEM, keys.shard(shard), (*what, SESSION_TTL_MS, _MOST_SESSIONS)
        )
        if not local:
            return None
        return Opened(Session(ids.account_id(shard, local.decode()), sha256, csrf), secret)

    async def _write(self, script: Script, account_id: str, *arguments: Argument) -> None:
        shard, account = keys.parts(account_id)
        what = (account, *arguments)
        if not await self._server.write_until_answered(script, keys.shard(shard), what):
            raise UnknownAccount(account_id)

    async def _shard(self, secret: str) -> int | None:
        shard = ids.secret_shard(secret)
        return shard if shard is not None and await self._shards.has(shard) else None


class Holder(NamedTuple):
    """Who may sign in to an account; `password` is None until one has been set."""

    account_id: str
    password: str | None


class Users:
    """Finds who signs in, keeps their passwords, and counts who tries."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def find(self, email: str) -> Holder | None:
        """The holder with this address, in any spelling; None if there is none."""
        try:
            address = normal_email(email)
        except ValueError:
            return None
        account_id = await self._server.read("GET", keys.EMAIL + address)
        if account_id is None:
            return None
        # Reserved, but its account was never made.
        base = keys.account(account_id.decode())
        if await self._server.read("HGET", base + keys.ACCOUNT, "email") != address.encode():
            return None
        return await self.of(account_id.decode())

    async def of(self, account_id: str) -> Holder:
        key = keys.account(account_id) + keys.HOLDER
        password = await self._server.read("HGET", key, "password")
        return Holder(account_id, password.decode() if password else None)

    async def attempt(self, email: str, address: str) -> int:
        """Counts an attempt to sign in before it is made; seconds until one may be (0: now)."""
        who, where = _email(email), _address(address)
        both = f"{who} {where}"
        # By network address first: an address without attempts left makes no more counters.
        for whose, most in (
            (where, ATTEMPTS_PER_ADDRESS),
            (both, ATTEMPTS_PER_BOTH),
            (who, ATTEMPTS_PER_EMAIL),
        ):
            count, left_ms = await self._server.run(
                _ATTEMPT, counter_of(whose), [ATTEMPTS_WINDOW_MS]
            )
            if count > most and not (whose == who and await self._is_known(both)):
                return max(1, int(-(-left_ms // 1000)))
        return 0

    async def forgive(self, email: str, address: str) -> None:
        """After a success: counts anew here, knows the browser's place for a while, and takes this
        attempt off the network address."""
        both = f"{_email(email)} {_address(address)}"
        await self._server.call("DEL", counter_of(both))
        await self._server.call("DECR", counter_of(_address(address)))
        await self._server.call("SET", counter_of(f"known {both}"), "", "PX", KNOWN_FOR_MS)

    async def _is_known(self, both: str) -> bool:
        return bool(await self._server.read("EXISTS", counter_of(f"known {both}")))


def counter_of(whose: str) -> str:
    """The key of somebody's attempts, by digest: strangers choose the text and its length."""
    return keys.ATTEMPTS + hashlib.sha256(whose.encode()).hexdigest()[:32]


def _key(session: Session) -> str:
    return keys.shard(keys.parts(session.account_id).shard) + keys.SESSION + session.sha256


def _email(email: str) -> str:
    try:
        return "email:" + normal_email(email)
    except ValueError:
        return "email:none"  # all that is no address counts together


def _address(address: str) -> str:
    return "address:" + address
