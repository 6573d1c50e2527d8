"""What a buffer holds until it is sent: decided here, without any I/O."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass

from postdate.results import Created

_SEPARATOR_BYTES = 2  # what stands between two of a batch


@dataclass(eq=False, slots=True)
class Item:
    """One schedule on its way: its JSON, when it is to go at the latest (by the event loop's
    clock), and what its caller waits for."""

    content: bytes
    late_at_s: float
    result: asyncio.Future[Created]


class Waiting:
    """Items in the order in which they came, bounded in number and in bytes. A batch has at most
    `batch_items` and `batch_bytes` of them (and if there are any, at least one)."""

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
        """What is larger than all the room there is has room where nothing else is."""
        if not self._items:
            return True
        return (
            len(self._items) < self._most_items and self._bytes + len(content) <= self._most_bytes
        )

    def add(self, item: Item) -> None:
        self._items[item] = None
        self._bytes += len(item.content)

    def discard(self, item: Item) -> bool:
        """Whether it was still there."""
        if item not in self._items:
            return False
        del self._items[item]
        self._bytes -= len(item.content)
        return True

    @property
    def late_at_s(self) -> float:
        """When the first one is to go at the latest."""
        return next(iter(self._items)).late_at_s

    @property
    def fills_a_batch(self) -> bool:
        return len(self._items) >= self._batch_items or self._bytes >= self._batch_bytes

    def take(self) -> list[Item]:
        """The next batch."""
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
