"""Schedules that this worker claimed and cannot read, until it has given them back.

A key is missing here, or it is damaged, or of a newer version. The attempt is given back with the
lease, so that no at-most-once schedule is lost.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

import structlog

from scheduler.errors import StoreError
from scheduler.models import Invocation
from scheduler.runtime.reminder import Reminder
from scheduler.stages import Stage
from scheduler.store import Store
from scheduler.store.lifecycle.claim.claim import UnreadClaim
from worker.leases import Leases, Touch
from worker.presence import Presence

# It comes again after half of the time for which it has been unreadable: soon where a key has just
# been forgotten, and so seldom later that thousands cost nothing.
_SOONEST_S, _LATEST_S = 1.0, 60.0
_KEYS_READ_EVERY_S = 5.0
_MOST_CAUSES = 64
# Entries still there come again sooner.
_OVER_AFTER_S = 300.0
# What it is counted as.
KEY, DAMAGED, ACCOUNT = "key", "damaged", "account"
_log = structlog.get_logger(__name__)


class _Cause:
    """Why something cannot be read: since when that has been so, when it was met last, and how
    often since the last line of the log."""

    def __init__(self, now_s: float) -> None:
        self.since_s = now_s
        self.met_s = now_s
        self.reminder = Reminder()
        self.unlogged = 0

    def is_over(self, now_s: float) -> bool:
        return now_s - self.met_s > _OVER_AFTER_S


class Unreadables:
    """What lies here is held, and its lease prolonged, until the store has it back (`settle`)."""

    def __init__(self, store: Store, leases: Leases, touch: Touch, presence: Presence) -> None:
        self._store = store
        self._leases = leases
        self._touch = touch
        self._presence = presence
        self._causes: dict[str, _Cause] = {}
        self._shards: dict[int, list[Invocation]] = {}
        self._key_missed = False
        self._keys_read_s = -_KEYS_READ_EVERY_S
        self.counted: Counter[str] = Counter({KEY: 0, DAMAGED: 0, ACCOUNT: 0})

    def put(self, unread: Sequence[UnreadClaim]) -> None:
        """Takes these, which are held. Logs each cause once a minute."""
        now_s, now_ms = time.monotonic(), self._store.clock.now_ms()
        for invocation, why, key_id in unread:
            self.counted[KEY if key_id else DAMAGED] += 1
            self._key_missed |= bool(key_id) and not self._store.sealing_keys.missing
            cause = self._cause(key_id, now_s)
            invocation.enter(Stage.UNREADABLE)
            invocation.due_at_ms = now_ms + round(1000 * self._wait_s(cause, now_s))
            self._shards.setdefault(invocation.shard, []).append(invocation)
            self._tell(cause, schedule=invocation.schedule_id, error=why)

    def note_broken(self, account_ids: Sequence[str]) -> None:
        """Nothing can be claimed of these accounts; they wait in the store."""
        now_s = time.monotonic()
        for account_id in account_ids:
            self.counted[ACCOUNT] += 1
            self._tell(self._cause(ACCOUNT, now_s), account=account_id)

    async def settle(self) -> None:
        """Gives these back, due again after a while. Keeps those that fail. Safe to repeat."""
        await self._learn_of_keys()
        for shard in self._shards.keys() - self._touch.lost:
            theirs = self._shards.pop(shard, [])
            try:
                await self._leases.release(shard, theirs)
            except StoreError as error:
                self._touch.lose([shard], error)
            finally:
                if theirs:
                    self._shards.setdefault(shard, []).extend(theirs)

    async def _learn_of_keys(self) -> None:
        """Reads now, and not within ten seconds, whether others have the key that is missing, so
        that this worker yields to them."""
        now_s = time.monotonic()
        if not self._key_missed or now_s - self._keys_read_s < _KEYS_READ_EVERY_S:
            return
        self._key_missed, self._keys_read_s = False, now_s
        with suppress(StoreError):
            await self._store.sealing_keys.read()

    def clear(self) -> None:
        self._shards.clear()

    def _cause(self, name: str, now_s: float) -> _Cause:
        """Forgets ended causes: one that comes again begins anew."""
        cause = self._causes.get(name)
        if cause is None or cause.is_over(now_s):
            kept = {each: there for each, there in self._causes.items() if not there.is_over(now_s)}
            self._causes = kept
            cause = kept.setdefault(name if len(kept) < _MOST_CAUSES else "", _Cause(now_s))
        cause.met_s = now_s
        return cause

    def _wait_s(self, cause: _Cause, now_s: float) -> float:
        if self._presence.yields:
            return _SOONEST_S
        return min(max((now_s - cause.since_s) / 2, _SOONEST_S), _LATEST_S)

    def _tell(self, cause: _Cause, **what: str) -> None:
        cause.unlogged += 1
        if cause.reminder.is_due():
            _log.error("cannot be read here, and is put off", count=cause.unlogged, **what)
            cause.unlogged = 0
