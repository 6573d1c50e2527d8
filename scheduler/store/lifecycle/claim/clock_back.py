"""Leases and retries that stand in the future because the server's clock was set back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from itertools import compress

import structlog

from scheduler.errors import StoreRefused, Unreadable
from scheduler.store import keys
from scheduler.store.callback_state import moved_callback
from scheduler.store.server import Argument, Script, Server
from scheduler.store.server.clock import StoreClock
from scheduler.store.stored import moved_attempt, open_request

_CLOCK_BACK = Script("lifecycle/claim/clock_back")
_CALLBACKS_BACK = Script("lifecycle/callback/callbacks_back")
_ACCOUNTS_AT_ONCE = 100
_SCHEDULES_AT_ONCE = 200
_log = structlog.get_logger(__name__)


class ClockBack:
    """Brings them forward. A moment that a customer chose stays as it is."""

    def __init__(self, server: Server, clock: StoreClock) -> None:
        self._server = server
        self._clock = clock

    async def mend(self, shard: int, lease_ms: int) -> int:
        """To be called a lease after the clock was set back: by then each worker that is alive has
        prolonged its leases, and a lease that ends later than two from now has no owner. Returns
        how many schedules were brought forward. Safe to repeat."""
        count = 0
        async for account in self._accounts(shard):
            base = keys.shard(shard) + account + ":"
            try:
                for scan, name in (("ZSCAN", keys.HELD), ("HSCAN", keys.TRIED)):
                    async for some in self._server.members(scan, base + name, _SCHEDULES_AT_ONCE):
                        names = [each.decode() for each in some]
                        count += await self._mend(shard, account, names, lease_ms)
            except StoreRefused as error:
                _log.error("an account is damaged", account=account, error=str(error))
        return count + await self._mend_callbacks_of(shard, lease_ms)

    async def _mend_callbacks_of(self, shard: int, lease_ms: int) -> int:
        prefix, count = keys.shard(shard), 0
        heads = prefix + keys.CALLBACK_HEADS
        async for found in self._server.members("ZSCAN", heads, _ACCOUNTS_AT_ONCE):
            for account in (each.decode() for each in found):
                name = f"{prefix}{account}:{keys.CALLBACKS}"
                try:
                    async for some in self._server.members("ZSCAN", name, _SCHEDULES_AT_ONCE):
                        names = [each.decode() for each in some]
                        count += await self._mend_callbacks(shard, account, names, lease_ms)
                except StoreRefused as error:
                    _log.error("an account is damaged", account=account, error=str(error))
        return count

    async def _mend_callbacks(
        self, shard: int, account: str, some: Sequence[str], lease_ms: int
    ) -> int:
        base, now_ms = keys.shard(shard) + account + ":", self._clock.now_ms()
        states = await self._server.reads([("HGET", base + each, "c") for each in some])
        rows: list[Argument] = []
        for schedule, state in zip(some, states, strict=True):
            moved = None
            with suppress(Unreadable):
                moved = moved_callback(state, now_ms) if state else None
            rows += (schedule, state, *moved) if moved else (schedule, "", "", 0)
        now_us, count = await self._server.run(
            _CALLBACKS_BACK, keys.shard(shard), (account, 2 * lease_ms, *rows)
        )
        self._clock.observe(now_us)
        return int(count)

    async def _mend(self, shard: int, account: str, some: Sequence[str], lease_ms: int) -> int:
        base = keys.shard(shard) + account + ":"
        stored = await self._server.reads([("HMGET", base + each, "r", "n") for each in some])
        rows: list[Argument] = []
        for schedule, (packed, attempt) in zip(some, stored, strict=True):
            moved = self._moved(packed, attempt) if packed and attempt else None
            rows += (schedule, attempt, *moved) if moved else (schedule, "", "", 0)
        now_us, count = await self._server.run(
            _CLOCK_BACK, keys.shard(shard), (account, 2 * lease_ms, *rows)
        )
        self._clock.observe(now_us)
        return int(count)

    def _moved(self, packed: bytes, attempt: bytes) -> tuple[bytes, int] | None:
        """The attempt with the moments that hold now, and when the next one is due; None if it was
        not made in the future, or a customer has chosen that moment."""
        try:
            trigger_at_ms = open_request(packed, self._server.secrecy).trigger_at_ms
            return moved_attempt(attempt, self._clock.now_ms(), but_not_from_ms=trigger_at_ms)
        except Unreadable:
            return None

    async def _accounts(self, shard: int) -> AsyncIterator[str]:
        """Those that have something that is held or was attempted."""
        prefix = keys.shard(shard)
        async for found in self._server.members("ZSCAN", prefix + keys.HEADS, _ACCOUNTS_AT_ONCE):
            some = list(dict.fromkeys(each.decode().strip("!/") for each in found))
            bases = [prefix + each + ":" for each in some]
            there = await self._server.reads(
                [("EXISTS", base + keys.HELD, base + keys.TRIED) for base in bases]
            )
            for account in compress(some, there):
                yield account
