"""Many creates, sent together."""

from __future__ import annotations

import asyncio
import copy
import os
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self, Unpack

from postdate._schema import CreateOptions
from postdate.calls import as_json
from postdate.client import AsyncPostdate
from postdate.errors import PostdateError, strange_answer
from postdate.modes import PerProcess
from postdate.new import NewSchedule
from postdate.results import Created

_BATCH_ITEMS = 1000
# The service takes no larger body; its other bytes are `{"schedules": []}`.
_BATCH_BYTES = 16 * 1024 * 1024 - 32
_WAITING_BYTES = 4 * _BATCH_BYTES
_NOTHING_STORED = (400, 413)
_SEPARATOR_BYTES = 2  # what stands between two of a batch


class Buffer:
    """Collects schedules and sends them in batches; each caller gets its own result.

    A batch goes `linger` seconds after its first item, or once it has `batch_size` items (at most
    1,000) or 16 MiB; at most `in_flight` are on their way at once. Up to `waiting` items (or 64
    MiB) are held; further callers wait in order.

    Each batch keeps its idempotency key when it is repeated, so that none costs a second credit.
    Use it with `async with`, inside that of its client: at its end everything is sent and answered.
    A forked process starts with an empty buffer; the parent sends what it holds.
    """

    def __init__(
        self,
        client: AsyncPostdate,
        *,
        linger: float = 0.005,
        batch_size: int = _BATCH_ITEMS,
        in_flight: int = 4,
        waiting: int = 10_000,
    ) -> None:
        if not 1 <= batch_size <= _BATCH_ITEMS:
            raise ValueError(f"batch_size must be 1 to {_BATCH_ITEMS:,}, not {batch_size}.")
        if linger < 0 or in_flight < 1 or waiting < 1:
            raise ValueError(
                "linger must not be negative; in_flight and waiting must be 1 or more."
            )
        make = partial(Batcher, client, linger, batch_size, in_flight, waiting)
        self._batchers = PerProcess(make, "The buffer has been closed.")

    async def schedule(self, url: str, **options: Unpack[CreateOptions]) -> Created:
        """As `AsyncPostdate.schedule`, without `idempotency_key`; `message` is empty.

        Raises PostdateError, for this schedule or for its whole batch; if `maybe_done` is true, a
        repeat may store it twice. A cancelled call stores nothing before it is sent; later it may.
        """
        payload = NewSchedule(url, **options).payload()
        return await self._batchers.get().create(payload)

    async def aclose(self) -> None:
        """Sends what waits without lingering, and returns when all of it has been answered."""
        if (batcher := self._batchers.close()) is not None:
            await batcher.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


@dataclass(eq=False, slots=True)
class Item:
    """One schedule: its JSON, latest moment by the event loop's clock, and its caller's future."""

    content: bytes
    late_at_s: float
    result: asyncio.Future[Created]


class Waiting:
    """Items in order, bounded in number and in bytes, as is each batch (of at least one item)."""

    def __init__(
        self, most_items: int, most_bytes: int, batch_items: int, batch_bytes: int
    ) -> None:
        self._most_items, self._most_bytes = most_items, most_bytes
        self._batch_items, self._batch_bytes = min(batch_items, most_items), batch_bytes
        self._items: OrderedDict[Item, None] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._items)

    def has_room(self, content: bytes) -> bool:
        """An item larger than all room fits alone."""
        if not self._items:
            return True
        return (
            len(self._items) < self._most_items and self._bytes + len(content) <= self._most_bytes
        )

    def add(self, item: Item) -> None:
        self._items[item] = None
        self._bytes += len(item.content)

    def discard(self, item: Item) -> None:
        """Safe to repeat."""
        if item in self._items:
            del self._items[item]
            self._bytes -= len(item.content)

    @property
    def late_at_s(self) -> float:
        return next(iter(self._items)).late_at_s

    @property
    def fills_a_batch(self) -> bool:
        return len(self._items) >= self._batch_items or self._bytes >= self._batch_bytes

    def take(self) -> list[Item]:
        batch: list[Item] = []
        left_bytes = self._batch_bytes
        while self._items and len(batch) < self._batch_items:
            item = next(iter(self._items))
            left_bytes -= len(item.content) + _SEPARATOR_BYTES
            if left_bytes < 0 and batch:
                break
            self.discard(item)
            batch.append(item)
        return batch


class Batcher:
    """A buffer in one process: collects payloads, and gives each caller its result."""

    def __init__(
        self,
        client: AsyncPostdate,
        linger_s: float,
        batch_size: int,
        in_flight: int,
        waiting: int,
    ) -> None:
        self._pid = os.getpid()
        self._client = client
        self._linger_s = linger_s
        self._most_in_flight = in_flight
        self._waiting = Waiting(waiting, _WAITING_BYTES, batch_size, _BATCH_BYTES)
        self._in_flight: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._door = asyncio.Lock()
        self._changed = asyncio.Event()
        self._callers = 0
        self._closing = False
        self._abandoned = False

    async def create(self, payload: Mapping[str, Any]) -> Created:
        """Raises PostdateError, as `Buffer.schedule` says."""
        self._callers += 1
        try:
            item = await self._let_in(payload)
            try:
                return await item.result
            finally:
                self._waiting.discard(item)  # if its caller was cancelled before it was sent
        finally:
            self._callers -= 1
            self._changed.set()

    async def aclose(self) -> None:
        self._closing = True
        self._send_what_is_due(late_too=True)
        try:
            while self._callers or self._in_flight:
                await self._change()
        finally:  # all has been answered, unless this was cancelled
            self._abandon()

    async def _let_in(self, payload: Mapping[str, Any]) -> Item:
        """One at a time: callers at the door hold no memory but their own."""
        async with self._door:
            content = as_json(payload)
            while not self._waiting.has_room(content):
                await self._change()
            if self._abandoned:
                raise _closed(maybe_done=False)
            loop = asyncio.get_running_loop()
            item = Item(content, loop.time() + self._linger_s, loop.create_future())
            self._waiting.add(item)
        self._send_what_is_due(late_too=False)
        return item

    def _send_what_is_due(self, *, late_too: bool) -> None:
        """Call it after every change. Items of one turn of the event loop go together, however long
        that takes; only the timer passes `late_too`."""
        if self._pid != os.getpid():  # a fork runs on the event loop that it inherited
            return
        while self._waiting and len(self._in_flight) < self._most_in_flight:
            if not self._is_due(late_too=late_too):
                self._look_again_at(self._waiting.late_at_s)
                return
            sending = asyncio.create_task(self._send(self._waiting.take()))
            self._in_flight.add(sending)
            sending.add_done_callback(self._sent)
            self._changed.set()

    def _is_due(self, *, late_too: bool) -> bool:
        if self._closing or self._waiting.fills_a_batch:
            return True
        return late_too and asyncio.get_running_loop().time() >= self._waiting.late_at_s

    def _look_again_at(self, time_s: float) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_at(time_s, self._look_again)

    def _look_again(self) -> None:
        self._timer = None
        self._send_what_is_due(late_too=True)

    def _sent(self, sending: asyncio.Task[None]) -> None:
        self._in_flight.discard(sending)
        self._changed.set()
        self._send_what_is_due(late_too=True)

    async def _send(self, batch: Sequence[Item]) -> None:
        try:
            await self._settle(batch)
        finally:  # cancelled, or a fault of ours: no caller may wait for ever
            _answer(batch, [_closed(maybe_done=True) for _ in batch])

    async def _settle(self, batch: Sequence[Item]) -> None:
        results: Sequence[Created | Exception]
        try:
            contents = [item.content for item in batch]
            results = await self._client.schedule_batch(contents)
        except PostdateError as error:
            # Refused as a whole, for its size or for one item: nothing was stored.
            if len(batch) > 1 and error.status_code in _NOTHING_STORED and not error.maybe_done:
                middle = len(batch) // 2
                await self._settle(batch[:middle])
                await self._settle(batch[middle:])
                return
            results = [_own(error) for _ in batch]
        except RuntimeError as error:  # the client was closed before the buffer
            results = [error for _ in batch]
        if len(results) != len(batch):
            results = [strange_answer(len(results)) for _ in batch]
        _answer(batch, results)

    def _abandon(self) -> None:
        self._abandoned = True
        if self._timer is not None:
            self._timer.cancel()
        for sending in self._in_flight:
            sending.cancel()
        while batch := self._waiting.take():
            _answer(batch, [_closed(maybe_done=False) for _ in batch])
        self._changed.set()

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()


def _answer(batch: Sequence[Item], results: Iterable[Created | Exception]) -> None:
    for item, result in zip(batch, results, strict=True):
        if item.result.done():
            continue  # its caller was cancelled
        if isinstance(result, Created):
            item.result.set_result(result)
        else:
            item.result.set_exception(result)


def _own(error: PostdateError) -> PostdateError:
    """A copy for each caller, without the batch's key: no caller can repeat with that."""
    own = copy.copy(error)
    own.__cause__ = error
    own.idempotency_key = None
    return own


def _closed(*, maybe_done: bool) -> PostdateError:
    error = PostdateError("The buffer was closed before an answer came.")
    error.maybe_done = maybe_done
    return error
