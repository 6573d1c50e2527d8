"""Occurrences of recurring schedules: before one may be sent, its rule stands on a later slot."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import nullcontext

import structlog

from scheduler.errors import StoreError, StoreRefused
from scheduler.models import Invocation
from scheduler.runtime.reminder import Reminder
from scheduler.stages import Stage
from scheduler.store import Store
from scheduler.store.lifecycle.claim.claim import UnreadClaim
from worker.fair_share import FairQueue
from worker.leases import Touch
from worker.occurrences.unreadable import Unreadables
from worker.unsure import Unsure
from worker.upkeep import Background

# While 20,000 are due at one moment, this makes one-off schedules 5 ms late at the 99th percentile,
# and twice the number 8 ms (`benchmarks.recurring crowd`).
_MOST_AT_ONCE = 64
# So many wait for their turn, of all accounts: of more, claims bring none of those with the most.
_MOST_WAITING = 512
_FEW = 8
_MOST_PASSED_OVER = 64
# One that is later may have missed times, which take 0.1 ms to count, near a change of the clocks
# up to 30 ms.
_LATE_MS = 60_000
# So many accounts advance late ones at once, on a cluster of each shard, and so many of each: the
# store has time for claims.
_LATE_ACCOUNTS = 8
_MOST_LATE = 16
_log = structlog.get_logger(__name__)
# What advances together: a shard of a cluster, and an account if they are late.
_Group = tuple[int, str]
# With the clock's reading of their claim.
_Queue = FairQueue[tuple[Invocation, int]]


class Occurrences:
    """Advances the rules of claimed occurrences: some at a time of each group, round-robin over
    accounts, however many wait. The event loop and the store have time for others in between.
    `ready` gets those that may be sent, with the clock's reading of their claim; `unsure` those
    that the store did not answer for. `advanced` counts the occurrences that it did answer for."""

    def __init__(
        self,
        store: Store,
        touch: Touch,
        unreadables: Unreadables,
        unsure: Unsure,
        background: Background,
        *,
        ready: Callable[[list[Invocation], int], None],
    ) -> None:
        self._store = store
        self._touch = touch
        self._unreadables = unreadables
        self._ready = ready
        self._unsure = unsure
        self._background = background
        self._reminder = Reminder()
        self._queues: dict[_Group, _Queue] = {}
        self._waiting = Counter[str]()
        self._late = defaultdict[int, asyncio.Semaphore](lambda: asyncio.Semaphore(_LATE_ACCOUNTS))
        self.advanced = 0

    def put(self, invocations: Sequence[Invocation], reading: int) -> None:
        """Advances these in their turn. Those that have not to, as attempts of an occurrence that
        failed, do not wait for it."""
        now_ms = self._store.clock.now_ms()
        if others := [each for each in invocations if not _is_to_advance(each)]:
            self._ready(others, reading)
        for each in filter(_is_to_advance, invocations):
            each.enter(Stage.QUEUED)
            group = self._group(each, now_ms)
            queue = self._queues.get(group)
            if queue is None:
                queue = self._queues[group] = FairQueue()
                self._background.start(self._advance_all(group, queue))
            queue.add(each.account_id, (each, reading))
            self._waiting[each.account_id] += 1

    def crowding(self) -> list[str]:
        """Accounts of which enough wait: claims are to leave the worker's room to others."""
        if self._waiting.total() <= _MOST_WAITING:
            return []
        share = max(_FEW, _MOST_WAITING // len(self._waiting))
        fullest = self._waiting.most_common(_MOST_PASSED_OVER)
        return [account_id for account_id, count in fullest if count > share]

    def clear(self) -> None:
        """Forgets those whose turn has not come."""
        for queue in self._queues.values():
            queue.clear()
        self._waiting.clear()

    async def advance(self, invocations: Sequence[Invocation]) -> list[Invocation]:
        """Of claimed ones of one server, those that may be sent: their rules have advanced, or have
        not to. Those of which that fails go back to the store. Safe to repeat."""
        waiting = [each for each in invocations if _is_to_advance(each)]
        if not waiting:
            return list(invocations)
        held_back = set[Invocation]()
        for start in range(0, len(waiting), _MOST_AT_ONCE):
            some = waiting[start : start + _MOST_AT_ONCE]
            try:
                held_back |= await self._advance(some)
            except StoreError as error:
                self._touch.lose({each.shard for each in some}, error)
                held_back |= {*waiting[start:]}
                for each in waiting[start:]:
                    self._unsure.put(each)
                break
            self.advanced += len(some)
        return [each for each in invocations if each not in held_back]

    def _group(self, invocation: Invocation, now_ms: int) -> _Group:
        """Late ones of an account are not to hold up others, nor is a node of a cluster."""
        occurrence = invocation.request.recurring
        slot_ms = occurrence and occurrence.slot_ms
        is_late = slot_ms is not None and slot_ms + _LATE_MS <= now_ms
        shard = invocation.shard if self._store.server.routed else -1
        return shard, invocation.account_id if is_late else ""

    async def _advance_all(self, group: _Group, queue: _Queue) -> None:
        is_late = group[1] != ""
        while queue:
            async with self._late[group[0]] if is_late else nullcontext():
                await self._advance_some(queue, _MOST_LATE if is_late else _MOST_AT_ONCE)
        del self._queues[group]

    async def _advance_some(self, queue: _Queue, most: int) -> None:
        readings = self._next_of(queue, most)
        by_reading: dict[int, list[Invocation]] = {}
        try:
            for each in await self.advance(list(readings)):
                by_reading.setdefault(readings[each], []).append(each)
        except Exception:  # those behind them go on, and these are asked for again
            _log.exception("recurring schedules cannot advance")
            for each in readings:
                self._unsure.put(each)
        for reading, theirs in by_reading.items():
            self._ready(theirs, reading)

    def _next_of(self, queue: _Queue, most: int) -> dict[Invocation, int]:
        """With their readings. None of lost shards, which would keep the others waiting."""
        found = dict[Invocation, int]()
        while queue and len(found) < most:
            invocation, reading = queue.pop()
            self._waiting[invocation.account_id] -= 1
            if not self._waiting[invocation.account_id]:
                del self._waiting[invocation.account_id]
            if invocation.shard in self._touch.lost:
                self._unsure.put(invocation)
            else:
                invocation.enter(Stage.CLAIMED)
                found[invocation] = reading
        return found

    async def _advance(self, some: list[Invocation]) -> set[Invocation]:
        """Returns those that go back. Raises StoreError."""
        try:
            await self._store.recurring.advance(some)
        except Exception as error:
            if isinstance(error, StoreError) and not isinstance(error, StoreRefused):
                raise
            if len(some) > 1:  # one of them: the others are not to wait for it
                return {each for part in _parts(some) for each in await self._advance(part)}
            if self._reminder.is_due():
                _log.exception("a recurring schedule cannot advance", schedule=some[0].schedule_id)
            why = f"its recurring schedule cannot advance: {error}"
            self._unreadables.put([UnreadClaim(some[0], why, "")])
            return {*some}
        return set()


def _parts(invocations: list[Invocation]) -> list[list[Invocation]]:
    """Those of each shard; each by itself if there is only one."""
    by_shard: dict[int, list[Invocation]] = {}
    for each in invocations:
        by_shard.setdefault(each.shard, []).append(each)
    return [*by_shard.values()] if len(by_shard) > 1 else [[each] for each in invocations]


def _is_to_advance(invocation: Invocation) -> bool:
    """An attempt that failed was sent, so its rule has advanced."""
    occurrence = invocation.request.recurring
    return occurrence is not None and occurrence.slot_ms is not None and invocation.retry is None
