"""Who signs in: the holder of an account, found by e-mail address, known by a password, of which
only the text of its argon2id hash comes here."""

from __future__ import annotations

from typing import NamedTuple

from scheduler.store import keys
from scheduler.store.server import Script, Server
from scheduler.texts import normal_email

# Failed attempts within a quarter of an hour: from one network address at one e-mail address, and
# at all of them, as an office shares it. Attempts from elsewhere do not lock a holder out; beyond
# ATTEMPTS_PER_EMAIL from many places, only places that signed in before may.
ATTEMPTS_WINDOW_MS = 15 * 60_000
ATTEMPTS_PER_BOTH = 10
ATTEMPTS_PER_ADDRESS = 100
ATTEMPTS_PER_EMAIL = 1000
KNOWN_FOR_MS = 90 * 24 * 3_600_000

_ATTEMPT = Script("accounts/attempt")


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
        # By network address first: who has used that up makes no more counters.
        for whose, most in (
            (where, ATTEMPTS_PER_ADDRESS),
            (both, ATTEMPTS_PER_BOTH),
            (who, ATTEMPTS_PER_EMAIL),
        ):
            count, left_ms = await self._server.run(
                _ATTEMPT, keys.ATTEMPTS + whose, [ATTEMPTS_WINDOW_MS]
            )
            if count > most and not (whose == who and await self._is_known(both)):
                return max(1, int(-(-left_ms // 1000)))
        return 0

    async def forgive(self, email: str, address: str) -> None:
        """After a success: counts anew here, knows the browser's place for a while, and takes this
        attempt off the network address."""
        both = f"{_email(email)} {_address(address)}"
        await self._server.call("DEL", keys.ATTEMPTS + both)
        await self._server.call("DECR", keys.ATTEMPTS + _address(address))
        known = keys.ATTEMPTS + f"known {both}"
        await self._server.call("SET", known, "", "PX", KNOWN_FOR_MS)

    async def _is_known(self, both: str) -> bool:
        return bool(await self._server.read("EXISTS", keys.ATTEMPTS + f"known {both}"))


def _email(email: str) -> str:
    try:
        return "email:" + normal_email(email)
    except ValueError:
        return "email:none"  # all that is no address counts together


def _address(address: str) -> str:
    return "address:" + address
