"""Records outcomes in the store: collected for a moment, sent together, repeated until done."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack, suppress
from itertools import islice
from typing import Protocol, cast

import structlog

from scheduler.callbacks import size_of
from scheduler.errors import StoreError, StoreRefused
from scheduler.runtime.elapsed import until_tick_s
from scheduler.store.lifecycle.end.end_rows import Ack, Ends
from scheduler.store.verdict import DONE, ENDED, Verdict
from worker.claimer import TICK_S, ClaimSoon
from worker.holdings import Holdings, subject
from worker.leases import Touch
from worker.upkeep import Backoff

# A batch that is full goes at once; fewer outcomes wait until the next tick but one. A worker that
# is killed meanwhile leaves them unrecorded.
_MOST_AT_ONCE = 128
# Outcomes that a full lane may wait for go at once, but a busy worker makes no more calls for them
# than so.
_URGENT_EVERY_S = 0.004
# Of URLs and targets' words in one call, of which each outcome takes up its part at least; one with
# more goes alone.
_MOST_BYTES = 128 * 1024
# So often a batch is repeated after unexpected exceptions, then one by one.
_STUMBLES = 5
_MOST_DELETED = 256
_log = structlog.get_logger(__name__)


class Recorder(Protocol):
    """Records outcomes of some kind, as `Ends` does those of schedules; with more than one
    shard in a call, it has `ack_each` too."""

    most_shards: int

    async def ack(self, shard: int, acks: Sequence[Ack]) -> list[Verdict]: ...


class Acks:
    """One queue per shard; an invocation is held until its ack was answered.

    Outcomes of lanes with a parallelism, whose places come free, do not wait for the tick.
    """

    def __init__(
        self,
        recorder: Recorder,
        holdings: Holdings,
        touch: Touch,
        soon: ClaimSoon,
    ) -> None:
        self._recorder = recorder
        self._holdings = holdings
        self._touch = touch
        self._soon = soon
        self._waiting: dict[int, list[Ack]] = {}
        self._senders: dict[int, asyncio.Task[None]] = {}
        self._urgent: set[int] = set()  # shards with outcomes that a full lane may wait for
        self._tick: asyncio.TimerHandle | None = None
        self._urgent_timer: asyncio.TimerHandle | None = None
        self._urgent_from_s = 0.0  # by the loop's clock
        # Accounts that were deleted of late.
        self._deleted: deque[str] = deque(maxlen=_MOST_DELETED)
        self._settled: Counter[int] = Counter()  # by shard, how many so far
        self._changed = asyncio.Event()

    def add(self, ack: Ack) -> None:
        shard = ack.invocation.shard
        self._waiting.setdefault(shard, []).append(ack)
        if ack.invocation.bounded:
            self._urgent.add(shard)
        if shard not in self._senders:
            self._go_on(shard)

    async def settle(self, shard: int, timeout_s: float) -> None:
        """Returns once all that was added for a shard so far is recorded, or the time is up."""
        last = self._settled[shard] + len(self._waiting.get(shard, ()))
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self._settled[shard] < last:
                    self._changed.clear()
                    await self._changed.wait()

    def _go_on(self, shard: int) -> None:
        waiting = self._waiting[shard]
        if len(waiting) >= _MOST_AT_ONCE:
            self._send_soon([shard])
        elif shard in self._urgent:
            if self._urgent_timer is None:
                loop = asyncio.get_running_loop()
                self._urgent_timer = loop.call_at(self._urgent_from_s, self._send_urgent)
        elif waiting and self._tick is None:
            loop = asyncio.get_running_loop()
            self._tick = loop.call_later(until_tick_s(2 * TICK_S), self._send_rest)

    def _send_rest(self) -> None:
        self._tick = None
        self._send_few(self._waiting)

    def _send_urgent(self) -> None:
        self._urgent_timer = None
        self._urgent_from_s = asyncio.get_running_loop().time() + _URGENT_EVERY_S
        self._send_few(self._urgent)

    def _send_few(self, shards: Iterable[int]) -> None:
        """A few of each shard go together, but for one of which leases are being prolonged."""
        group, room = list[int](), _MOST_BYTES
        for shard in shards:
            waiting = self._waiting[shard]
            if not waiting or shard in self._senders:
                continue
            weight = sum(map(_weight, waiting))
            if weight > _MOST_BYTES or self._holdings.asking[shard].locked():
                self._send_soon([shard])
                continue
            if weight > room or len(group) == self._recorder.most_shards:
                self._send_soon(group)
                group, room = [], _MOST_BYTES
            group.append(shard)
            room -= weight
        if group:
            self._send_soon(group)

    def _send_soon(self, shards: list[int]) -> None:
        send = self._send_together(shards) if len(shards) > 1 else self._send_alone(*shards)
        self._senders |= dict.fromkeys(shards, asyncio.create_task(send))

    async def _send_together(self, shards: list[int]) -> None:
        """Once; a shard that fails is tried again alone."""
        batches = {shard: self._waiting[shard][:] for shard in shards}
        self._urgent -= batches.keys()
        acks = [ack for batch in batches.values() for ack in batch]
        try:
            async with AsyncExitStack() as asking:
                for shard in shards:
                    await asking.enter_async_context(self._holdings.asking[shard])
                found = await cast("Ends", self._recorder).ack_each(acks)
        except Exception:
            _log.exception("acks failed; they are repeated", shards=shards)
            found = [StoreRefused("unforeseen")] * len(acks)
        verdicts = iter(found)
        for shard, batch in batches.items():
            theirs = list(islice(verdicts, len(batch)))
            failure = next((each for each in theirs if isinstance(each, StoreError)), None)
            if failure is None:
                self._settle(batch, cast("list[Verdict]", theirs))
                self._note_settled(shard, len(batch))
                del self._senders[shard]
                self._go_on(shard)
                continue
            if not isinstance(failure, StoreRefused):
                self._touch.lose([shard], failure)
            self._send_soon([shard])

    async def _send_alone(self, shard: int) -> None:
        """Sends all outcomes of the shard. Those that come meanwhile wait for the tick, or fill
        a batch."""
        waiting, left = self._waiting[shard], True
        try:
            while left:
                self._urgent.discard(shard)
                count = _next_batch(waiting)
                left = count < len(waiting)
                await self._send(shard, waiting[:count])
                self._note_settled(shard, count)
        finally:
            del self._senders[shard]
        self._go_on(shard)

    def _note_settled(self, shard: int, count: int) -> None:
        del self._waiting[shard][:count]
        self._settled[shard] += count
        self._changed.set()

    async def _send(self, shard: int, batch: list[Ack]) -> None:
        """Sends one batch, as often as it takes; safe, because a lease acks once."""
        backoff = Backoff()
        stumbles = 0
        while True:
            try:
                async with self._holdings.asking[shard]:
                    verdicts = await self._recorder.ack(shard, batch)
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
        freed: int | None = None
        for ack, verdict in zip(batch, verdicts, strict=True):
            if ack.invocation.bounded:
                freed = ack.invocation.shard
            if verdict is DONE:
                continue
            about = subject(ack.invocation)
            if verdict is Verdict.DAMAGED:
                why = "something of it, or of its account, is damaged"
                _log.error("an outcome cannot be recorded", **about, error=why)
            elif verdict is Verdict.HELD:
                _log.warning("lease was lost; another worker records the outcome", **about)
            elif verdict is Verdict.UNKNOWN:
                self._note_deleted(ack.invocation.account_id)
        self._soon.note_room()
        if freed is not None:
            self._soon.note_place(freed)

    def _note_deleted(self, account_id: str) -> None:
        """Logs one line for an account, however much of it was under way."""
        if account_id in self._deleted:
            return
        self._deleted.append(account_id)
        _log.warning(
            "an account was deleted; what was sent for it is not logged", account=account_id
        )


def _next_batch(waiting: list[Ack]) -> int:
    left = _MOST_BYTES
    for count, ack in enumerate(waiting):
        left -= _weight(ack)
        if left < 0:
            return max(1, count)
    return len(waiting)


def _weight(ack: Ack) -> int:
    size = len(ack.invocation.request.url) + len(ack.outcome.error_message)
    if ack.outcome.answer is not None:
        size += len(ack.outcome.answer.body)
    if ack.outcome.response is not None:
        size += size_of(ack.outcome.response)
    return max(size, _MOST_BYTES // _MOST_AT_ONCE)
