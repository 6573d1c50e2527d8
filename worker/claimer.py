"""Claims schedules a little ahead of their time; sleeps until then, and looks in between."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

import structlog

from scheduler.errors import StoreError, StoreUnavailable
from scheduler.runtime.elapsed import elapsed_s, until_tick_s
from scheduler.runtime.settings import Settings
from scheduler.store import Store
from scheduler.store.lifecycle.claim.claim import Batch, ClaimOrder, Look, together
from worker.holdings import ClaimRoom, Holdings
from worker.leases import Touch
from worker.presence import Presence

REALIGN_EVERY_S = 3600.0
_MOST_ACCOUNTS = 16
# Looks, claims and acks that are not urgent wait for the next tick: a wake-up with a script costs
# some 330 us. A look finds schedules created with an earlier time than all others; no message is
# needed.
TICK_S = 0.02
_LOOK_EVERY_MS = TICK_S * 1000
# Other workers' shards: looked at with jitter, so that replicas do not come together, and only for
# schedules that are late by so much.
_LOOK_ABROAD_EVERY_MS = (150, 350)
_LATE_MS = 200
# As long as a lost worker counts as alive. The starts that a rate spaces are never so late, so its
# lanes would start one schedule a look until then.
_ADOPTED_MS = 10_000
# A look that takes this part of a lease means that the store hung, and a step that comes so late
# that the process stood still: leases may have ended.
_SLOW_PART_OF_A_LEASE = 4
_AFTER_AN_ERROR_MS = 500
_ASK_ON_HOLD_EVERY_MS = 500.0
# A claim that brought nothing, though something seemed due, is not repeated at once.
_AFTER_NOTHING_MS = 5.0
# Claims that are ahead by less than this many ticks do not wait for one.
_TICKS_AHEAD = 2
_log = structlog.get_logger(__name__)


class ClaimSoon:
    """What makes the claimer claim before its next look."""

    def __init__(self) -> None:
        self.wakes = asyncio.Event()
        self.waits_for_room = False  # the worker holds as much as it may
        self.shards: set[int] = set()  # to be claimed from at once, as if they were our own

    def note_room(self) -> None:
        """The worker holds less, which matters where there was no room."""
        if self.waits_for_room:
            self.wakes.set()

    def note_place(self, shard: int) -> None:
        """A place or a slot of a lane came free there: its next schedule is to start at once."""
        self.shards.add(shard)
        self.wakes.set()


class Taker(Protocol):
    """Takes what claims bring."""

    holdings: Holdings
    soon: ClaimSoon

    def take(self, batch: Batch) -> None: ...

    def looked(self) -> None:
        """There is a fresh reading of the store's clock."""

    def crowding(self) -> list[str]:
        """Accounts of which enough waits here."""


class Claimer:
    """One loop over all shards, at most one claim on its way for each; those that are due together
    share a call. Lost shards are left alone until the worker has regained them."""

    def __init__(
        self, store: Store, taker: Taker, presence: Presence, touch: Touch, settings: Settings
    ) -> None:
        self._store = store
        self._taker = taker
        self._holdings = taker.holdings
        self._soon = taker.soon
        self._presence = presence
        self._touch = touch
        self._lease_ms, self._ahead_ms = settings.lease_ms, settings.claim_ahead_ms
        # Between two claims, so that each brings many; after a claim that left due ones behind the
        # next one follows at once.
        self._rest_ms = min(_LOOK_EVERY_MS, self._ahead_ms) / 2
        self._due_ms: dict[int, float] = {}
        # Its rhythm goes by this machine's clock: the store's may be set back by an hour.
        self._rested_ms: dict[int, float] = {}
        self._backlogged: set[int] = set()
        self._adopted: dict[
            int, float
        ] = {}  # until when another's shard is claimed from as our own
        self._claims: dict[int, asyncio.Task[None]] = {}
        self._look_ms = self._look_abroad_ms = 0.0
        self._stopping = False
        self._on_hold: set[int] = set()
        self._clock_steps = -1
        self._awake_s = math.inf  # when it was to wake up
        self.claims = self.claimed = self.taken_over = 0

    def wake(self) -> None:
        self._soon.wakes.set()

    @property
    def _own(self) -> frozenset[int]:
        """Shards that this worker looks after: those that it prefers, and those of lanes with a
        rate that were found late, whose worker may be lost."""
        if self._adopted:
            own_ms = _own_ms()
            self._adopted = {each: ms for each, ms in self._adopted.items() if ms > own_ms}
        return self._presence.shards | self._adopted.keys()

    async def stop(self) -> None:
        """Claims no more. Returns once the claims on their way were answered."""
        self._stopping = True
        self.wake()
        while self._claims:
            await asyncio.wait(list(self._claims.values()))

    async def step(self) -> None:
        """Looks if it is time to, starts the claims that are due, and sleeps until the next."""
        if self._stopping:
            await self._sleep(_LOOK_EVERY_MS)
            return
        if self._clock_steps != self._store.clock.steps_back:
            # At the start, and after the server's clock was set back: turns may lie in the future.
            steps = self._store.clock.steps_back
            await self._realign(range(self._store.shards.count))
            self._clock_steps = steps
        self._notice_pause()
        own_ms = _own_ms()
        if own_ms >= self._look_ms:
            await self._look()
        if own_ms >= self._look_abroad_ms:
            await self._look_abroad()
        self._start_claims()
        await self._sleep(self._idle_ms())

    def _notice_pause(self) -> None:
        """After a pause of this process its leases may have ended. They are prolonged before it
        claims, or it would take them over from itself, and its outcomes would be refused."""
        paused_s = elapsed_s() - self._awake_s
        self._awake_s = math.inf
        if paused_s * 1000 > self._lease_ms / _SLOW_PART_OF_A_LEASE:
            paused = StoreUnavailable("This process stood still")
            self._touch.lose(range(self._store.shards.count), paused)

    async def realign(self) -> None:
        """From time to time: finds what no claim would look at. Safe to repeat."""
        await self._realign(sorted(self._presence.shards - self._touch.lost))

    async def _realign(self, shards: Iterable[int]) -> None:
        for shard in shards:
            try:
                await self._store.claims.realign(shard)
            except StoreError as error:
                self._touch.lose([shard], error)

    async def _look(self) -> None:
        self._look_ms = _own_ms() + until_tick_s(TICK_S) * 1000
        own = self._own - self._claims.keys() - self._touch.lost
        for shard, look in (await self._looks(own, backlogs=False)).items():
            if shard not in self._claims:
                self._due_ms[shard] = math.inf if look.next_look_ms is None else look.next_look_ms
        self._taker.looked()

    async def _look_abroad(self) -> None:
        """At the shards that others prefer: is something late there, or a backlog growing?"""
        self._look_abroad_ms = _own_ms() + random.uniform(*_LOOK_ABROAD_EVERY_MS)  # noqa: S311
        everywhere = frozenset(range(self._store.shards.count))
        late_ms = self._now_ms() - _LATE_MS
        abroad = everywhere - self._own - self._touch.lost
        for shard, look in (await self._looks(abroad)).items():
            due = [ms for ms in look if ms is not None and ms <= late_ms]
            if look.backlog_since_ms in due:
                self._backlogged.add(shard)
            if shard not in self._claims:
                self._due_ms[shard] = min(due, default=math.inf)

    async def _looks(self, shards: frozenset[int], *, backlogs: bool = True) -> dict[int, Look]:
        """Looks at shards; those that fail, or are so slow that leases may have ended, are lost."""
        asked_ms = self._now_ms()
        found = await self._store.claims.look(sorted(shards), backlogs=backlogs)
        if self._now_ms() - asked_ms > self._lease_ms / _SLOW_PART_OF_A_LEASE:
            slow = StoreUnavailable("The store was slow to answer")
            found = dict.fromkeys(found, slow)
        looks = {}
        for shard, look in found.items():
            if isinstance(look, Look):
                looks[shard] = look
            else:
                self._touch.lose([shard], look)
        return looks

    def _start_claims(self) -> None:
        """Oldest turn first, and no shard reserves more than its part of the free slots. None once
        we stop: a drain waits for those that were on their way then."""
        if self._stopping:
            return
        for shard in self._soon.shards - self._claims.keys():
            self._due_ms[shard] = self._rested_ms[shard] = 0.0
        due = sorted((self._due_ms[shard], shard) for shard, in_ms in self._waiting() if in_ms <= 0)
        for start in range(0, len(due), self._store.claims.most_shards):
            shards = [shard for _, shard in due[start : start + self._store.claims.most_shards]]
            parts = {}
            for place, shard in enumerate(shards, start):
                part = self._holdings.reserve(len(due) - place, len(shards))
                if part is not None:
                    parts[shard] = part
            if parts:
                claim = asyncio.create_task(self._claim(parts))
                self._claims |= dict.fromkeys(parts, claim)

    async def _claim(self, parts: Mapping[int, ClaimRoom]) -> None:
        asked_ms, batches = self._now_ms(), list[Batch]()
        # Unless the claim knows better.
        self._due_ms |= dict.fromkeys(parts, asked_ms + _AFTER_AN_ERROR_MS)
        try:
            found = await self._store.claims.claim_each(
                [self._order(*each) for each in parts.items()],
                lease_ms=self._lease_ms,
                most_accounts=_MOST_ACCOUNTS,
                pass_over=[*{*self._holdings.crowding(), *self._taker.crowding()}],
            )
            for shard, batch in zip(parts, found, strict=True):
                if isinstance(batch, Batch):
                    self._note(shard, batch)
                    batches.append(batch)
                elif isinstance(batch, StoreError):
                    self._touch.lose([shard], batch)
        except Exception:
            _log.exception("claims failed", shards=list(parts))
        finally:
            for shard, part in parts.items():
                self._holdings.give_back(part)
                del self._claims[shard]
            if batches:
                self._go_on(together(batches), self._now_ms() - asked_ms)
            self.wake()

    def _order(self, shard: int, part: ClaimRoom) -> ClaimOrder:
        own = shard in self._own or shard in self._backlogged | self._soon.shards
        self._soon.shards.discard(shard)
        ahead_ms = self._ahead_ms if own else -_LATE_MS
        take_over_by_ms = 0 if self._touch.has_grace(shard) else self._store.clock.now_ms()
        return ClaimOrder(shard, *part, ahead_ms, take_over_by_ms)

    def _go_on(self, batch: Batch, took_ms: float) -> None:
        """The next claim goes out before these are fired, which keeps the loop for milliseconds.
        After a pause of this process, or if the clock was set back, `step` comes first."""
        smooth = took_ms <= self._lease_ms / _SLOW_PART_OF_A_LEASE
        if smooth and self._clock_steps == self._store.clock.steps_back:
            self._start_claims()
        asyncio.get_running_loop().call_soon(self._taker.take, batch)

    def _note(self, shard: int, batch: Batch) -> None:
        self._note_hold(shard, is_on_hold=batch.on_hold)
        if shard not in self._presence.shards and any(each.slack_us for each in batch.invocations):
            self._adopted.setdefault(shard, _own_ms() + _ADOPTED_MS)
        self._due_ms[shard] = self._next_claim_ms(shard, batch)
        rest_ms = _ASK_ON_HOLD_EVERY_MS if batch.on_hold else self._rest_ms
        self._rested_ms[shard] = 0.0 if batch.full else _own_ms() + rest_ms
        self._holdings.add(batch.invocations)
        if batch.unread:
            self._holdings.add([each.invocation for each in batch.unread])
        self.claims += 1
        self.claimed += len(batch.invocations)
        again = [each for each in batch.invocations if each.attempt > 1]
        self.taken_over += sum(each.taken_over for each in again)

    def _note_hold(self, shard: int, *, is_on_hold: bool) -> None:
        """Tells of the first shard, and when none is left: a command that was interrupted leaves
        some on hold."""
        before = bool(self._on_hold)
        (self._on_hold.add if is_on_hold else self._on_hold.discard)(shard)
        if before != bool(self._on_hold):
            _log.warning(
                "on hold: nothing is claimed" if is_on_hold else "resumed: claiming again",
                shard=shard,
            )

    def _next_claim_ms(self, shard: int, batch: Batch) -> float:
        next_ms = math.inf if batch.next_look_ms is None else batch.next_look_ms
        if not batch.invocations:
            # The head was stale, its account is passed over, an ended lease is left to others, or
            # this clock runs ahead of the shard's server.
            next_ms = max(next_ms, self._now_ms() + _AFTER_NOTHING_MS + self._ahead_ms)
        if shard not in self._own and next_ms > self._now_ms():
            # The backlog is gone: leave the shard to its own worker.
            self._backlogged.discard(shard)
            return math.inf
        return next_ms

    def _idle_ms(self) -> float:
        """How long there is nothing to do, if nothing wakes us before."""
        self._soon.waits_for_room = self._holdings.is_full
        if self._soon.waits_for_room:
            return _LOOK_EVERY_MS
        looks = (at_ms - _own_ms() for at_ms in (self._look_ms, self._look_abroad_ms))
        return self._at_a_tick(min(*looks, *(in_ms for _, in_ms in self._waiting())))

    def _waiting(self) -> Iterator[tuple[int, float]]:
        """Shards that can be claimed from, and in how many ms each is to be."""
        ahead_ms, own_ms = self._now_ms() + self._ahead_ms, _own_ms()
        away = self._touch.lost | self._claims.keys()
        for shard, due_ms in self._due_ms.items():
            if shard not in away:
                yield shard, max(due_ms - ahead_ms, self._rested_ms.get(shard, 0.0) - own_ms)

    def _at_a_tick(self, idle_ms: float) -> float:
        """Or a little later, at the next tick, if claims are far enough ahead for that."""
        if idle_ms <= 0 or self._ahead_ms < _TICKS_AHEAD * _LOOK_EVERY_MS:
            return idle_ms
        first_ms = until_tick_s(TICK_S) * 1000
        ticks = math.ceil(max(0.0, idle_ms - first_ms) / _LOOK_EVERY_MS)
        return first_ms + ticks * _LOOK_EVERY_MS

    async def _sleep(self, delay_ms: float) -> None:
        self._awake_s = elapsed_s() + max(0.0, delay_ms) / 1000
        if delay_ms <= 0:
            await asyncio.sleep(0)
            return
        # The loop counts whole milliseconds, and rounds: it would wake us early, again and again.
        delay_s = math.ceil(delay_ms) / 1000
        timer = asyncio.get_running_loop().call_later(delay_s, self._soon.wakes.set)
        await self._soon.wakes.wait()
        self._soon.wakes.clear()
        timer.cancel()

    def _now_ms(self) -> float:
        return self._store.clock.now_us() / 1000


def _own_ms() -> float:
    return elapsed_s() * 1000
