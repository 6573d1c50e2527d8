"""Signatures of requests, as Standard Webhooks has them (https://www.standardwebhooks.com), made of
secrets that were read a moment ago. Messages of the QStash door have that door's signature too."""

from __future__ import annotations

import hashlib
import math
from base64 import b64decode
from binascii import b2a_base64
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress

import structlog

from scheduler.callers import SigningSecret
from scheduler.errors import NotFound, StoreError, Unreadable
from scheduler.models import Invocation
from scheduler.qstash.sent import sent_lines
from scheduler.qstash.signing import Tokens
from scheduler.runtime.elapsed import elapsed_s
from scheduler.store import Store
from scheduler.store.keys import parts
from worker.holdings import Holdings
from worker.leases import Touch

# So long secrets are used: a rotation holds everywhere after that.
GOOD_FOR_S = 5.0
# Those of accounts that something is held of are read anew so often.
READ_EVERY_S = 2.0
_MOST_ACCOUNTS = 16_384
_MOST_AT_ONCE = 500
_BLOCK_BYTES = 64
_MOMENT_LINES = b"\r\nwebhook-timestamp: %d\r\nwebhook-signature: v1,"
_log = structlog.get_logger(__name__)
_INNER, _OUTER = (bytes(byte ^ pad for byte in range(256)) for pad in (0x36, 0x5C))


class Hmac:
    """HMAC-SHA256 under one key, padded and hashed once: a third of hmac.digest's time."""

    __slots__ = ("_inner", "_outer")

    def __init__(self, key: bytes) -> None:
        if len(key) > _BLOCK_BYTES:
            key = hashlib.sha256(key).digest()
        block = key.ljust(_BLOCK_BYTES, b"\0")
        self._inner = hashlib.sha256(block.translate(_INNER))
        self._outer = hashlib.sha256(block.translate(_OUTER))

    def base64(self, text: bytes) -> bytes:
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(text)
        outer.update(inner.digest())
        return b2a_base64(outer.digest(), newline=False)


class Signer:
    """Signs for one account, by secrets that were asked for at `asked_s` (`elapsed_s`)."""

    __slots__ = ("_keys", "_moment_lines", "_seconds", "_signed_moment", "_until_ms", "asked_s")

    def __init__(self, secrets: Sequence[SigningSecret], asked_s: float) -> None:
        self._keys = [
            (
                each.expires_at_ms or math.inf,
                Hmac(b64decode(each.secret.removeprefix("whsec_"), validate=True)),
            )
            for each in secrets
        ]
        self._until_ms = min(until_ms for until_ms, _ in self._keys)
        self._seconds = 0
        self._signed_moment = self._moment_lines = b""
        self.asked_s = asked_s

    def header_lines(
        self, message_id: bytes, moment_ms: int, invocation: Invocation
    ) -> bytes | None:
        """Header lines for a request sent now; None if every secret has ended."""
        seconds = moment_ms // 1000
        if seconds != self._seconds or moment_ms >= self._until_ms:
            self._turn_to(seconds, moment_ms)
        if not self._keys:
            return None
        signed = message_id + self._signed_moment + (invocation.request.body or b"")
        signatures = b" v1,".join([key.base64(signed) for _, key in self._keys])
        return b"".join((b"webhook-id: ", message_id, self._moment_lines, signatures, b"\r\n"))

    def _turn_to(self, seconds: int, moment_ms: int) -> None:
        self._seconds = seconds
        self._signed_moment = b".%d." % seconds
        self._moment_lines = _MOMENT_LINES % seconds
        self._keys = [each for each in self._keys if each[0] > moment_ms]
        self._until_ms = min((until_ms for until_ms, _ in self._keys), default=math.inf)


class DoorSigner(Signer):
    """Of an account that has used the QStash door, by its current `key` there."""

    __slots__ = ("_tokens",)

    def __init__(self, secrets: Sequence[SigningSecret], asked_s: float, key: str) -> None:
        super().__init__(secrets, asked_s)
        self._tokens = Tokens(Hmac(key.encode()).base64)

    def header_lines(
        self, message_id: bytes, moment_ms: int, invocation: Invocation
    ) -> bytes | None:
        lines = super().header_lines(message_id, moment_ms, invocation)
        request = invocation.request
        if lines is None or request.door is None:
            return lines
        token = self._tokens.token(request.url, request.body, moment_ms)
        return lines + sent_lines(invocation, token)


class Signatures:
    """The signers of the accounts that this worker fires for.

    Nothing is sent unsigned, nor signed by secrets that were read longer than `GOOD_FOR_S` ago.
    """

    def __init__(self, store: Store, holdings: Holdings, touch: Touch) -> None:
        self._store = store
        self._clock = store.clock
        self._holdings = holdings
        self._touch = touch
        self._signers: dict[str, Signer] = {}
        self.faults: dict[str, tuple[str, str]] = {}
        """By account: why its secrets cannot be read here, and the missing key ("": damaged)."""

    def header_lines(self, invocation: Invocation) -> bytes | None:
        """Whole lines; None if its account's secrets have to be read first."""
        signer = self._signers.get(invocation.account_id)
        if signer is None or signer.asked_s < elapsed_s() - GOOD_FOR_S:
            return None
        kind = b"cbk_" if invocation.is_callback else b"inv_"
        message_id = kind + invocation.schedule_id[4:].encode("ascii")
        lines = signer.header_lines(message_id, self._clock.now_ms(), invocation)
        if lines is None:
            del self._signers[invocation.account_id]
        return lines

    def missing(self, invocations: Iterable[Invocation]) -> set[str]:
        """The accounts whose secrets are to be read before these are sent, which is soon."""
        since_s = elapsed_s() - READ_EVERY_S
        missing = {
            account_id
            for account_id in {each.account_id for each in invocations}
            if (signer := self._signers.get(account_id)) is None or signer.asked_s < since_s
        }
        messages = [each for each in invocations if each.request.door is not None]
        return missing | self._without_key(messages) if messages else missing

    def _without_key(self, invocations: Iterable[Invocation]) -> set[str]:
        """The accounts among them of which there is a message, and no key of the QStash door."""
        return {
            each.account_id
            for each in invocations
            if each.request.door is not None
            and not isinstance(self._signers.get(each.account_id), DoorSigner)
        }

    async def read_for(self, invocations: list[Invocation]) -> list[Invocation]:
        """Reads the secrets for these, of one server, if it can. Drops those of deleted accounts
        and returns the others."""
        gone: set[str] = set()
        try:
            gone = await self.read(self.missing(invocations))
            if without := self._without_key(invocations) & self._signers.keys():
                # These are the first messages of the account: nobody has asked for its keys yet.
                for account_id in without:
                    with suppress(NotFound, Unreadable):
                        await self._store.signing.door_keys(account_id)
                gone |= await self.read(without)
        except StoreError as error:
            self._touch.lose({each.shard for each in invocations}, error)
        except Exception:
            _log.exception("secrets were not read")
        if not gone:
            return invocations
        self._holdings.remove([each for each in invocations if each.account_id in gone])
        return [each for each in invocations if each.account_id not in gone]

    async def read(self, account_ids: Collection[str]) -> set[str]:
        """Reads their secrets; returns the accounts that are gone. Raises StoreError."""
        asked_s = elapsed_s()
        found = await self._store.signing.secrets_of(account_ids)
        for account_id in account_ids:
            # Anew at the end: who was read longest ago is the first to go.
            self._signers.pop(account_id, None)
            if account_id in found:
                self._learn(account_id, found[account_id], asked_s)
        while len(self._signers) > _MOST_ACCOUNTS:
            del self._signers[next(iter(self._signers))]
        return {each for each in account_ids if each not in found}

    async def read_all(self) -> None:
        """Reads those of all accounts that something is held of, which may wait for long."""
        by_shard: defaultdict[int, list[str]] = defaultdict(list)
        for account_id in self.missing(self._holdings):
            by_shard[parts(account_id).shard].append(account_id)
        for shard in by_shard.keys() - self._touch.lost:
            account_ids = by_shard[shard]
            try:
                for start in range(0, len(account_ids), _MOST_AT_ONCE):
                    await self.read(account_ids[start : start + _MOST_AT_ONCE])
            except StoreError as error:
                self._touch.lose([shard], error)

    def _learn(
        self, account_id: str, secrets: Sequence[SigningSecret] | Unreadable, asked_s: float
    ) -> None:
        try:
            if isinstance(secrets, Unreadable):
                raise secrets
            now_ms = self._clock.now_ms()
            good = [each for each in secrets if each.is_good_at(now_ms) and not each.is_of_door]
            if not good:
                raise ValueError("None of its signing secrets is good any more")
            key = next((each.secret for each in secrets if each.is_of_door), None)
            signer = Signer(good, asked_s) if key is None else DoorSigner(good, asked_s, key)
            self._signers[account_id] = signer
            self.faults.pop(account_id, None)
        except (ValueError, Unreadable) as error:
            if account_id not in self.faults:
                _log.error("a signing secret cannot be used", account=account_id, error=str(error))
            key_id = error.key_id if isinstance(error, Unreadable) else ""
            self.faults[account_id] = (str(error), key_id)
            while len(self.faults) > _MOST_ACCOUNTS:
                del self.faults[next(iter(self.faults))]
