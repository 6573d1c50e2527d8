"""Tends recurring schedules whose next occurrence is not as it should be."""

from __future__ import annotations

import structlog

from scheduler.errors import StoreError, StoreRefused
from scheduler.runtime.reminder import Reminder
from scheduler.store import Store
from worker.leases import Touch
from worker.presence import Presence

TEND_EVERY_S = 1.0
RENEW_EVERY_S = 60.0
# Of one shard in a turn: others wait no longer for theirs.
_MOST_CALLS = 10
_log = structlog.get_logger(__name__)


class Tends:
    """A process that cancels an occurrence advances its rule at once, unless it dies in between
    or loses touch. The workers see to the rest, each to its own shards. `tended` counts rules."""

    def __init__(self, store: Store, presence: Presence, touch: Touch) -> None:
        self._store = store
        self._presence = presence
        self._touch = touch
        self._reminder = Reminder()
        self.tended = 0
        self._steps_back = -1  # a clock may have been set back while no worker ran

    async def step(self) -> None:
        """Tends overdue rules of own shards that are not on hold. Safe to repeat."""
        own = sorted(self._presence.shards - self._touch.lost)
        for shard, overdue in (await self._store.recurring.overdue(own)).items():
            try:
                if isinstance(overdue, StoreError):
                    raise overdue
                if overdue:
                    await self._tend(shard)
            except Exception as error:
                self._note(shard, error)

    async def renew(self) -> None:
        """Computes times anew by a tzdata that is newer, and by a clock that was set back, once.
        Safe to repeat."""
        recurring = self._store.recurring
        before = recurring.computed_anew
        for shard in sorted(self._presence.shards - self._touch.lost):
            try:
                await self._store.renewal.renew(shard)
            except Exception as error:
                self._note(shard, error)
        if count := recurring.computed_anew - before:
            _log.info("times of recurring schedules renewed", rules=count)

        await self._bring_back()

    async def _bring_back(self) -> None:
        """After the store's clock was set back. In all shards, because not every worker has seen
        that."""
        steps, count, is_done = self._store.clock.steps_back, 0, True
        if steps == self._steps_back:
            return
        for shard in range(self._store.shards.count):
            try:
                count += await self._store.renewal.bring_back(shard)
            except Exception as error:
                self._note(shard, error)
                is_done = False  # and again in a minute
        if is_done:
            self._steps_back = steps
        if count:
            _log.warning("brought recurring schedules back to the store's clock", rules=count)

    def _note(self, shard: int, error: Exception) -> None:
        """The other shards are not to wait for this one."""
        if isinstance(error, StoreError) and not isinstance(error, StoreRefused):
            self._touch.lose([shard], error)
        elif self._reminder.is_due():
            _log.exception("recurring schedules cannot be tended", shard=shard)

    async def _tend(self, shard: int) -> None:
        for _ in range(_MOST_CALLS):
            tended = await self._store.recurring.tend_due(shard)
            self.tended += tended
            if not tended:
                break
