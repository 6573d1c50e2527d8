"""Signing secrets: what an account's requests are signed with. It has one from its creation on, and
for a while after a rotation several. From its first use of the QStash door on it has two keys
beside them, which sign what that door sends."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from scheduler import ids
from scheduler.callers import SigningSecret
from scheduler.errors import KeyReused, TooManySecrets, UnknownAccount, Unreadable, anew
from scheduler.models import Idempotency
from scheduler.store import keys
from scheduler.store.idempotency import ONCE_KEPT_MS, asked, once_name
from scheduler.store.secrecy import Secrecy
from scheduler.store.server import Script, Server
from scheduler.store.server.clock import StoreClock

MOST_LIVE = 3
LONGEST_KEEP_MS = 7 * 86_400_000

_ROTATE = Script("accounts/signing/signing_rotate")
_DOOR_KEYS = Script("accounts/signing/door_keys")
_SECRET_BYTES = 32
_OF_DOOR = ids.DOOR_KEY.encode()
# What the scripts answer; their headers say it at length.
_DONE_BEFORE, _NO_ACCOUNT, _TOO_MANY, _KEY_REUSED = 2, 0, -1, -2


class Rotated(NamedTuple):
    """The secrets as they are after a rotation; `replayed`: that had been done before."""

    secrets: list[SigningSecret]
    replayed: bool


class Signing:
    def __init__(self, server: Server, clock: StoreClock) -> None:
        self._server = server
        self._secrecy = server.secrecy
        self._clock = clock

    async def secrets(self, account_id: str) -> list[SigningSecret]:
        """Those that are good at this moment, the newest first. Raises NotFound, Unreadable."""
        found = await self.secrets_of([account_id])
        if account_id not in found:
            raise UnknownAccount(account_id)
        secrets = found[account_id]
        if isinstance(secrets, Unreadable):
            raise anew(secrets)
        return self._live(secrets)

    async def secrets_of(
        self, account_ids: Collection[str]
    ) -> dict[str, list[SigningSecret] | Unreadable]:
        """All secrets of these accounts, the newest first, expired ones too, and behind them their
        keys of the QStash door, in one round trip; Unreadable for an account where one cannot be
        read. Unknown accounts are left out."""
        commands: list[tuple[Any, ...]] = []
        for base in map(keys.account, account_ids):
            commands += ("EXISTS", base + keys.ACCOUNT), ("LRANGE", base + keys.SIGNING, 0, -1)
        replies = await self._server.reads(commands, damaged=True)
        found: dict[str, list[SigningSecret] | Unreadable] = {}
        for account_id, is_there, entries in zip(
            account_ids, replies[::2], replies[1::2], strict=True
        ):
            if isinstance(entries, Unreadable):
                found[account_id] = entries
            elif is_there:
                try:
                    found[account_id] = self._secrets(entries)
                except Unreadable as error:
                    found[account_id] = anew(error)
        return found

    async def rotate(
        self, account_id: str, keep_ms: int, once: Idempotency | None = None, who: str = ""
    ) -> Rotated:
        """Makes a new secret; those before are good for `keep_ms` more, but no longer than they
        were. With `once`, safe to repeat for 24 hours; without, each call makes another. Raises
        NotFound, KeyReused; TooManySecrets if more than `MOST_LIVE` would be good at a time."""
        if once is None:
            once = Idempotency(ids.new_operation(), "")
        of_once = (once_name(once), asked(once), ONCE_KEPT_MS)
        arguments = (*of_once, *new_secret(self._secrecy), keep_ms, MOST_LIVE, who)
        base = keys.account(account_id)
        code, stored = await self._server.write_until_answered(_ROTATE, base, arguments)
        if code == _NO_ACCOUNT:
            raise UnknownAccount(account_id)
        if code == _KEY_REUSED:
            raise KeyReused
        if code == _TOO_MANY:
            raise TooManySecrets(MOST_LIVE)
        return Rotated(self._live(self._secrets(stored)), code == _DONE_BEFORE)

    async def door_keys(
        self, account_id: str, *, rotate: bool = False, who: str = ""
    ) -> list[SigningSecret]:
        """The current and the next key of its QStash door, made now if it has none. With `rotate`
        the next key becomes the current one, and a new one the next; each call does that. Raises
        NotFound, Unreadable."""
        base = keys.account(account_id)
        if not rotate:
            stored = await self._server.read("LRANGE", base + keys.SIGNING, 0, -1)
            stored = [each for each in stored if each.startswith(_OF_DOOR)]
            if len(stored) == 2:
                return self._secrets(stored)
        arguments = (*_new_door_key(self._secrecy), *_new_door_key(self._secrecy), int(rotate), who)
        code, stored = await self._server.write_until_answered(_DOOR_KEYS, base, arguments)
        if code == _NO_ACCOUNT:
            raise UnknownAccount(account_id)
        return self._secrets(stored)

    def _secrets(self, entries: Sequence[bytes]) -> list[SigningSecret]:
        if not entries:
            raise Unreadable("It has no signing secret")
        return [secret_of(each, self._secrecy) for each in entries]

    def _live(self, found: list[SigningSecret]) -> list[SigningSecret]:
        now_ms = self._clock.now_ms()
        return [each for each in found if each.is_good_at(now_ms) and not each.is_of_door]


def new_secret(secrecy: Secrecy) -> tuple[str, bytes]:
    """The id of a new secret, and the secret as it is stored."""
    secret = base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()
    return ids.new_signing_secret_id(), secrecy.seal(f"whsec_{secret}".encode())


def _new_door_key(secrecy: Secrecy) -> tuple[str, bytes]:
    key = f"sig_{secrets.token_urlsafe(_SECRET_BYTES)}"
    return ids.new_door_key_id(), secrecy.seal(key.encode())


def secret_of(entry: bytes, secrecy: Secrecy) -> SigningSecret:
    """A secret as it is stored. Raises Unreadable."""
    try:
        secret_id, created, until, secret = entry.split(b" ", 3)
        return SigningSecret(
            secret_id=secret_id.decode(),
            secret=secrecy.open(secret).decode(),
            created_at_ms=int(created),
            expires_at_ms=int(until) or None,
        )
    except ValueError as error:
        raise Unreadable("It is damaged") from error
