"""Records outcomes in the store: collected for a moment, sent together, repeated until done."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import structlog

from scheduler.elapsed import until_tick_s
from scheduler.errors import StoreError, StoreRefused
from scheduler.store import Store
from scheduler.store.lifecycle.end_rows import Ack
from scheduler.store.verdict import DONE, ENDED, Verdict
from worker.claimer import TICK_S
from worker.holdings import Holdings, subject
from worker.leases import Touch
from worker.upkeep import Backoff

# A few outcomes wait for others until the next tick but one; more than that are sent at once. A
# worker that is killed meanwhile leaves them unrecorded.
_FEW = 32
_MOST_AT_ONCE = 128
# Of URLs and targets' words in one call; a longer one goes alone.
_MOST_BYTES = 128 * 1024
# So often a batch is repeated after unexpected exceptions, then one by one.
_STUMBLES = 5
_log = structlog.get_logger(__name__)


class Acks:
    """One queue per shard; an invocation is held until its ack was answered."""

    def __init__(
        self, store: Store, holdings: Holdings, touch: Touch, acked: Callable[[], None]
    ) -> None:
        self._store = store
        self._holdings = holdings
        self._touch = touch
        self._acked = acked
        self._waiting: dict[int, list[Ack]] = {}
        self._senders: dict[int, asyncio.Task[None]] = {}
        self._settled: Counter[int] = Counter()  # by shard, how many so far
        self._changed = asyncio.Event()

    def add(self, ack: Ack) -> None:
        shard = ack.invocation.shard
        self._waiting.setdefault(shard, []).append(ack)
        if shard not in self._senders:
            self._senders[shard] = asyncio.create_task(self._send_all(shard))

    async def settle(self, shard: int, timeout_s: float) -> None:
        """Returns once all that was added for a shard so far is recorded, or the time is up."""
        last = self._settled[shard] + len(self._waiting.get(shard, ()))
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self._settled[shard] < last:
                    self._changed.clear()
                    await self._changed.wait()

    async def _send_all(self, shard: int) -> None:
        waiting = self._waiting[shard]
        try:
            while waiting:
                if len(waiting) < _FEW:
                    await asyncio.sleep(until_tick_s(2 * TICK_S))
                count = _next_batch(waiting)
                await self._send(shard, waiting[:count])
                del waiting[:count]
                self._settled[shard] += count
                self._changed.set()
        finally:
            del self._senders[shard]

    async def _send(self, shard: int, batch: list[Ack]) -> None:
        """Sends one batch, as often as it takes; safe, because a lease acks once."""
        backoff = Backoff()
        stumbles = 0
        while True:
            try:
                async with self._holdings.asking[shard]:
                    verdicts = await self._store.ends.ack(shard, batch)
            except StoreRefused as error:
                await self._refused(shard, batch, error)
                return
            except StoreError as error:
                self._touch.lose([shard], error)
            except Exception as error:
                stumbles += 1
                if stumbles == 1:
                    _log.exception("an ack failed; it is repeated", shard=shard)
                if stumbles > _STUMBLES:
                    await self._refused(shard, batch, error)
                    return
            else:
                self._settle(batch, verdicts)
                return
            await backoff.pause()

    async def _refused(self, shard: int, batch: list[Ack], error: Exception) -> None:
        """The store rejects the batch for its content: repeats it one by one. An invocation whose
        outcome cannot be recorded keeps its lease in the store, and is fired again."""
        if len(batch) > 1:
            for ack in batch:
                await self._send(shard, [ack])
            return
        about = subject(batch[0].invocation)
        _log.error("an outcome cannot be recorded", **about, error=str(error))
        self._settle(batch, [ENDED])

    def _settle(self, batch: list[Ack], verdicts: list[Verdict]) -> None:
        self._holdings.remove([ack.invocation for ack in batch])
        for ack, verdict in zip(batch, verdicts, strict=True):
            if verdict is DONE:
                continue
            about = subject(ack.invocation)
            if verdict is Verdict.DAMAGED:
                why = "something of it, or of its account, is damaged"
                _log.error("an outcome cannot be recorded", **about, error=why)
            elif verdict is Verdict.HELD:
                _log.warning("lease was lost; another worker records the outcome", **about)
        self._acked()


def _next_batch(waiting: list[Ack]) -> int:
    left = _MOST_BYTES
    for count, ack in enumerate(waiting[:_MOST_AT_ONCE]):
        left -= len(ack.invocation.request.url) + len(ack.outcome.error_message)
        if ack.outcome.answer is not None:
            left -= len(ack.outcome.answer.body)
        if left < 0:
            return max(1, count)
    return min(len(waiting), _MOST_AT_ONCE)
