"""Leases: prolonged while the store can be reached; none is taken over soon after an outage."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import structlog

from scheduler.errors import StoreError
from scheduler.models import Invocation
from scheduler.runtime.elapsed import elapsed_s
from scheduler.runtime.reminder import Reminder
from scheduler.store import Store
from scheduler.store.server.failures import reason_of
from worker.holdings import Holdings

WATCH_EVERY_S = 1.0
_MOST_AT_ONCE = 500
_log = structlog.get_logger(__name__)


class Touch:
    """Which shards this worker is in touch with. Logs when some are lost, and once all are back.

    While a shard was away no lease there could be prolonged. So for the length of one lease after
    it this worker takes over none that has ended: its holder may be alive. A store that was started
    just now was away for all workers.
    """

    def __init__(self, lease_ms: int, store_uptime_ms: int) -> None:
        self._lease_s = lease_ms / 1000
        self.lost: set[int] = set()
        self._reminder = Reminder()
        self._grace_until_s: dict[int, float] = {}
        # A server whose clock was set back says that it starts in the future.
        grace_ms = max(0, lease_ms - max(0, store_uptime_ms))
        self._first_grace_until_s = elapsed_s() + grace_ms / 1000

    def lose(self, shards: Iterable[int], error: BaseException) -> None:
        gone = set(shards) - self.lost
        if gone and not self.lost:
            self._reminder.is_due()
            _log.warning("lost touch with the store; trying on", reason=reason_of(error))
        self.lost |= gone

    def remind(self, error: BaseException) -> None:
        """Of shards that stay lost."""
        if self._reminder.is_due():
            _log.warning(
                "still out of touch with the store", shards=len(self.lost), reason=reason_of(error)
            )

    def regain(self, shard: int) -> None:
        if shard in self.lost:
            self.lost.discard(shard)
            self._grace_until_s[shard] = elapsed_s() + self._lease_s
            if not self.lost:
                self._reminder.end()
                _log.info("in touch with the store again")

    def has_grace(self, shard: int) -> bool:
        """Whether leases that have ended are left alone for now."""
        until_s = max(self._grace_until_s.get(shard, 0.0), self._first_grace_until_s)
        return elapsed_s() < until_s


class Leases:
    """A third of a lease is the rhythm, so one extension may fail before a lease ends."""

    def __init__(self, store: Store, holdings: Holdings, touch: Touch, lease_ms: int) -> None:
        self._store = store
        self._holdings = holdings
        self._touch = touch
        self._lease_ms = lease_ms

    async def extend_all(self) -> None:
        """Prolongs held leases, shard by shard; a shard that fails counts as away."""
        for shard in self._holdings.shards() - self._touch.lost:
            try:
                await self.extend(shard)
            except StoreError as error:
                self._touch.lose([shard], error)

    async def extend(self, shard: int) -> None:
        """Prolongs leases of a shard that were not claimed just now. Raises StoreError."""
        young_s = elapsed_s() + 0.75 * self._lease_ms / 1000
        old = [each for each in self._holdings.of(shard) if each.lease_until_s <= young_s]
        await self.confirm(shard, old)

    async def confirm(self, shard: int, invocations: Sequence[Invocation]) -> list[Invocation]:
        """Prolongs these leases, and returns those that are another's by now. Raises StoreError."""
        lost: list[Invocation] = []
        async with self._holdings.asking[shard]:
            for start in range(0, len(invocations), _MOST_AT_ONCE):
                some = invocations[start : start + _MOST_AT_ONCE]
                lost += await self._store.claims.extend(shard, self._lease_ms, some)
        return lost  # acked since the list was made, or taken over; an ack compares tokens

    async def release(self, shard: int, invocations: list[Invocation]) -> None:
        """Gives these back, and empties the list as it goes. Raises StoreError."""
        while invocations:
            async with self._holdings.asking[shard]:
                await self._store.claims.release(shard, invocations[:_MOST_AT_ONCE])
            self._holdings.remove(invocations[:_MOST_AT_ONCE])
            del invocations[:_MOST_AT_ONCE]

    async def note_attempt(self, invocation: Invocation) -> None:
        """Stores that an attempt was used up here, so that none repeats its number. The next
        extension repeats it after a failure."""
        try:
            await self.confirm(invocation.shard, [invocation])
        except StoreError as error:
            self._touch.lose([invocation.shard], error)


class ClockSteps:
    """Brings forward leases and retries that a server's clock, set back, has left in the future.

    A lease after each step, when every live worker has prolonged what it holds. In all shards,
    because not every worker has seen the step."""

    def __init__(self, store: Store, lease_ms: int) -> None:
        self._store = store
        self._lease_ms = lease_ms
        self._steps = store.clock.steps_back
        self._mend_at_s: float | None = None

    async def watch(self) -> None:
        """Safe to repeat; raises StoreError if a shard cannot be reached, and begins anew then."""
        if self._steps != self._store.clock.steps_back:
            self._steps = self._store.clock.steps_back
            self._mend_at_s = elapsed_s() + self._lease_ms / 1000
            _log.warning("the store's clock was set back")
        if self._mend_at_s is None or elapsed_s() < self._mend_at_s:
            return
        count = 0
        for shard in range(self._store.shards.count):
            count += await self._store.clock_back.mend(shard, self._lease_ms)
        self._mend_at_s = None
        if count:
            _log.warning("brought forward leases and retries of before", count=count)
