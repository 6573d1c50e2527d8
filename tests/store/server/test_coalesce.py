"""Coalescing: what arrives together goes together, and everyone gets the own answer."""

from __future__ import annotations

import asyncio
import gc
import weakref

from scheduler.errors import StoreFull
from scheduler.store.server.coalescing import Coalescer
from tests.store.scene import settled


class Sender:
    """Answers each item with its double, and remembers the batches."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def send(self, items: list[int]) -> list[int]:
        self.batches.append(items)
        await self.gate.wait()
        if 13 in items:
            raise RuntimeError("unlucky")
        return [item * 2 for item in items]


async def test_while_one_batch_is_on_its_way_the_next_one_fills() -> None:
    sender = Sender()
    sender.gate.clear()
    coalescer = Coalescer(sender.send, 3)
    replies = [coalescer.submit(0)]
    await asyncio.sleep(0)
    replies += [coalescer.submit(n) for n in range(1, 6)]
    await asyncio.sleep(0)
    assert sender.batches == [[0]]
    sender.gate.set()
    assert await asyncio.gather(*replies) == [0, 2, 4, 6, 8, 10]
    assert sender.batches == [[0], [1, 2, 3], [4, 5]]
    assert await coalescer.submit(21) == 42


async def test_an_error_is_told_to_all_of_its_batch_and_to_nobody_else() -> None:
    sender = Sender()
    coalescer = Coalescer(sender.send, 2)
    results = await asyncio.gather(
        *(settled(lambda n=n: coalescer.submit(n)) for n in (1, 2, 13, 4, 5))  # type: ignore[misc]
    )
    assert [str(each) for each in results] == ["2", "4", "unlucky", "unlucky", "10"]
    assert await coalescer.submit(6) == 12


class Item:
    """Something that a weak reference can be had of."""


async def test_of_a_batch_that_failed_its_callers_keep_nothing() -> None:
    async def fails(items: list[Item]) -> list[int]:
        raise StoreFull("The store is full")

    gc.disable()
    try:
        coalescer: Coalescer[Item, int] = Coalescer(fails, 3)
        items = [Item() for _ in range(3)]
        kept = [weakref.ref(item) for item in items]
        replies = [coalescer.submit(item) for item in items]
        del items
        errors = await asyncio.gather(*replies, return_exceptions=True)
        assert [ref() for ref in kept] == [None] * 3
        assert {type(error) for error in errors} == {StoreFull}
        assert len({id(error) for error in errors}) == 3
    finally:
        gc.enable()


async def test_a_batch_weighs_no_more_than_it_may_or_is_one_item() -> None:
    sender = Sender()
    coalescer = Coalescer(sender.send, 10, lambda item: item)
    items = [4, 4, 4, 50, 1, 9, 1]
    replies = await asyncio.gather(*(coalescer.submit(item) for item in items))
    assert replies == [item * 2 for item in items]
    assert sender.batches == [[4, 4], [4], [50], [1, 9], [1]]
