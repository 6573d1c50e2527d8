"""The sessions of browsers, and the one-time links that sign in, set a password or invite: secrets
of 256 random bits that name their shard, as API keys do, and are stored by hash. And the attempts
to sign in with a password."""

from __future__ import annotations

import hashlib
import secrets
from enum import StrEnum
from typing import NamedTuple

from scheduler import ids
from scheduler.callers import OPERATOR, OPERATORS_LINK, Role
from scheduler.errors import NotFound, StoreError
from scheduler.store import keys
from scheduler.store.server import Argument, Script, Server
from scheduler.store.shards import Shards
from scheduler.texts import normal_email

SESSION_TTL_MS = 7 * 24 * 3_600_000
LINK_TTL_MS = 3_600_000

# Of a member; and of an account, of all who came by an operator's link.
MOST_SESSIONS = 50

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
_ROLES = {each.encode(): each for each in Role}


class Purpose(StrEnum):
    """What a one-time link is good for: to sign in as the account, or to set a member's password,
    or to become a member."""

    SIGN_IN = "sign-in"
    SET_PASSWORD = "set-password"  # noqa: S105
    INVITE = "invite"


class Session(NamedTuple):
    """A signed-in browser. Its writes carry `csrf`; `said` is for its next page, once. Without a
    `member_id` an operator's link opened it, and it may do everything."""

    account_id: str
    sha256: str
    csrf: str
    said: str = ""
    member_id: str = ""
    email: str = ""
    role: Role = Role.OWN

    @property
    def who(self) -> str:
        """As the account's history names them."""
        return self.email or OPERATORS_LINK


class Linked(NamedTuple):
    """What a link is for, its account, and the member whose password it sets ('': none)."""

    purpose: Purpose
    account_id: str
    member_id: str
    email: str = ""
    role: Role = Role.OWN


class Opened(NamedTuple):
    """A session and its secret, which is not stored and cannot be shown again."""

    session: Session
    secret: str


class Sessions:
    def __init__(self, server: Server, shards: Shards) -> None:
        self._server = server
        self._shards = shards

    async def open(self, account_id: str, member_id: str = "", *, password: str = "") -> Opened:
        """A new session of a member, or of the account itself, for a week. With the hash of a new
        `password`, also sets that, closes all other sessions of the member and voids their links.
        Raises NotFound."""
        secret, csrf = ids.new_secret(keys.parts(account_id).shard), secrets.token_urlsafe(32)
        sha256 = ids.hash_secret(secret)
        what = (member_id, sha256, csrf, SESSION_TTL_MS, MOST_SESSIONS, password)
        await self._write(_OPEN, account_id, *what)
        return await self._opened(secret)

    async def find(self, secret: str) -> Session | None:
        """With the member's role at this moment; None if there is no such session or member."""
        shard = await self._shard(secret)
        if shard is None:
            return None
        sha256, prefix = ids.hash_secret(secret), keys.shard(shard)
        stored = await self._server.read(
            "HMGET", prefix + keys.SESSION + sha256, "account", "csrf", "said", "member"
        )
        if stored[0] is None:
            return None
        account, csrf, said, member = ((each or b"").decode() for each in stored)
        session = Session(ids.account_id(shard, account), sha256, csrf, said)
        if not member:
            return session
        about = f"{prefix}{account}:{keys.MEMBER}{member}"
        email, role = await self._server.read("HMGET", about, "email", "role")
        if email is None or role not in _ROLES:
            return None
        return session._replace(member_id=member, email=email.decode(), role=_ROLES[role])

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
        await self._write(_CLOSE, session.account_id, session.member_id, session.sha256, "")

    async def close_all(self, session: Session) -> None:
        """Closes every session of a member, or all of operators' links; links that were not used
        are void. Safe to repeat."""
        await self._write(_CLOSE, session.account_id, session.member_id, "", session.who)

    async def count(self, account_id: str, member_id: str = "") -> int:
        """How many are open; one that ended a moment ago may still count."""
        key = keys.account(account_id) + keys.SESSIONS + member_id
        return int(await self._server.read("ZCARD", key))

    async def make_link(self, account_id: str, member_id: str = "", by: str = OPERATOR) -> str:
        """The secret of a new link, good once and for an hour: it signs in as the account, or sets
        the member's password, in place of an earlier link of the member. It is void when the owner
        who made it (`by`) is one no longer. Raises NotFound."""
        secret = ids.new_secret(keys.parts(account_id).shard)
        purpose = Purpose.SET_PASSWORD if member_id else Purpose.SIGN_IN
        what = (member_id, ids.hash_secret(secret), purpose, LINK_TTL_MS, by)
        await self._write(_LINK_MAKE, account_id, *what)
        return secret

    async def leads_to(self, link: str) -> Linked | None:
        """Where a link leads that could be redeemed now; None if it could not. Read-only."""
        shard = await self._shard(link)
        if shard is None:
            return None
        prefix = keys.shard(shard)
        key = prefix + keys.LINK + ids.hash_secret(link)
        stored = await self._server.read("HMGET", key, "account", "member", "purpose", "epoch")
        if None in stored:
            return None
        account, member, found, epoch = (each.decode() for each in stored)
        base = f"{prefix}{account}:"
        about, there = await self._server.reads(
            [
                ("HMGET", base + keys.MEMBER + member, "epoch", "email", "role", "until"),
                ("EXISTS", base + keys.ACCOUNT),
            ]
        )
        now, email, role, until = about
        is_theirs = not member or (email is not None and role in _ROLES)
        purpose, is_invited = Purpose(found), until is not None
        good = there and epoch == (now or b"0").decode() and is_theirs
        if not good or is_invited != (purpose == Purpose.INVITE):
            return None
        account_id = ids.account_id(shard, account)
        if not member:
            return Linked(purpose, account_id, "")
        return Linked(purpose, account_id, member, email.decode(), _ROLES[role])

    async def redeem(self, link: str, purpose: Purpose, password: str = "") -> Opened | None:
        """Spends a link and opens a session; with a password's hash, sets that and closes the
        member's others. None if the link is spent, too old, void or unknown. An invitation's
        address must be reserved: `Members.join`."""
        shard = await self._shard(link)
        if shard is None:
            return None
        secret, csrf = ids.new_secret(shard), secrets.token_urlsafe(32)
        what = (ids.hash_secret(link), purpose, password, ids.hash_secret(secret), csrf)
        found = await self._server.write_until_answered(
            _LINK_REDEEM, keys.shard(shard), (*what, SESSION_TTL_MS, MOST_SESSIONS)
        )
        return await self._opened(secret) if found else None

    async def _opened(self, secret: str) -> Opened:
        """Raises NotFound if it was closed since: the member, say, was removed."""
        session = await self.find(secret)
        if session is None:
            raise NotFound("There is no such session")
        return Opened(session, secret)

    async def _write(self, script: Script, account_id: str, *arguments: Argument) -> None:
        shard, account = keys.parts(account_id)
        what = (account, *arguments)
        if not await self._server.write_until_answered(script, keys.shard(shard), what):
            raise NotFound("There is no such account or member.")

    async def _shard(self, secret: str) -> int | None:
        shard = ids.secret_shard(secret)
        return shard if shard is not None and await self._shards.has(shard) else None


class Attempts:
    """Counts who tries to sign in with a password."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def count(self, email: str, address: str) -> int:
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
