"""Many calls that arrive together become one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import Context
from traceback import format_exception
from typing import Generic, TypeVar

import structlog

from scheduler.errors import StoreError, anew

_log = structlog.get_logger(__name__)

Item = TypeVar("Item")
Reply = TypeVar("Reply")


class Coalescer(Generic[Item, Reply]):
    """Collects items until the event loop's next turn and sends them as one batch.
    The next batch fills while one is on its way: batches grow with the load, and a single item does
    not wait. A batch weighs at most `most`, or is one item. `send` returns each item's reply, in
    order. If it raises, each caller gets an error of its own, which does not refer to the batch."""

    def __init__(
        self,
        send: Callable[[list[Item]], Awaitable[list[Reply]]],
        most: int,
        weigh: Callable[[Item], int] = lambda _: 1,
    ) -> None:
        self._send = send
        self._most = most
        self._weigh = weigh
        self._items: list[Item] = []
        self._replies: list[asyncio.Future[Reply]] = []
        self._sending: asyncio.Task[None] | None = None

    def submit(self, item: Item) -> asyncio.Future[Reply]:
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._items.append(item)
        self._replies.append(reply)
        if self._sending is None:
            # It sends for all callers, and so in the context of none.
            self._sending = asyncio.create_task(self._send_all(), context=Context())
        return reply

    async def _send_all(self) -> None:
        try:
            while self._items:
                count = self._next_batch()
                items, self._items = self._items[:count], self._items[count:]
                replies, self._replies = self._replies[:count], self._replies[count:]
                await self._send_batch(items, replies)
        finally:
            self._sending = None

    def _next_batch(self) -> int:
        """How many of the first items one batch takes."""
        left = self._most - self._weigh(self._items[0])
        count = 1
        for item in self._items[1:]:
            left -= self._weigh(item)
            if left < 0:
                break
            count += 1
        return count

    async def _send_batch(self, items: list[Item], replies: list[asyncio.Future[Reply]]) -> None:
        try:
            answers = await self._send(items)
        except Exception as error:  # whatever it is, each caller gets it
            if not isinstance(error, StoreError):
                # As text: a log that shows the variables of every frame would show the batch.
                _log.error("a batch failed", exception="".join(format_exception(error)))
            for reply in replies:
                if not reply.done():
                    reply.set_exception(anew(error))
            return
        for reply, answer in zip(replies, answers, strict=True):
            if not reply.done():
                reply.set_result(answer)
