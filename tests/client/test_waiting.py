"""What a buffer holds and how it is divided: pure decisions."""

from __future__ import annotations

import asyncio

from postdate.batcher import Item, Waiting


async def item(size_bytes: int = 1, late_at_s: float = 0.0) -> Item:
    return Item(b"x" * size_bytes, late_at_s, asyncio.get_running_loop().create_future())


async def test_batches_are_taken_in_order_and_bounded_in_number() -> None:
    waiting = Waiting(100, 1000, 3, 1000)
    items = [await item() for _ in range(7)]
    for each in items:
        waiting.add(each)
    assert [waiting.take(), waiting.take(), waiting.take()] == [items[:3], items[3:6], items[6:]]
    assert waiting.take() == []


async def test_batches_are_bounded_in_bytes_with_what_stands_between() -> None:
    waiting = Waiting(100, 1000, 100, 24)
    for size_bytes in (10, 10, 10, 99, 1):
        waiting.add(await item(size_bytes))
    sizes = []
    while batch := waiting.take():
        sizes.append([len(each.content) for each in batch])
    assert sizes == [[10, 10], [10], [99], [1]]


async def test_it_has_room_for_so_many_items_and_bytes() -> None:
    waiting = Waiting(3, 10, 100, 100)
    assert waiting.has_room(b"x" * 11)  # or it would wait for ever
    first = await item(4)
    waiting.add(first)
    assert waiting.has_room(b"x" * 6)
    assert not waiting.has_room(b"x" * 7)
    waiting.add(await item(1))
    waiting.add(await item(1))
    assert not waiting.has_room(b"x")
    waiting.discard(first)
    waiting.discard(first)
    assert waiting.has_room(b"x" * 8)
    assert not waiting.has_room(b"x" * 9)


async def test_enough_for_a_batch_is_by_number_or_by_bytes() -> None:
    by_number, by_bytes = Waiting(100, 1000, 2, 1000), Waiting(100, 1000, 100, 20)
    for waiting in (by_number, by_bytes):
        waiting.add(await item(10))
        assert not waiting.fills_a_batch
        waiting.add(await item(10))
        assert waiting.fills_a_batch


async def test_all_that_there_is_room_for_is_a_batch() -> None:
    waiting = Waiting(2, 1000, 100, 1000)
    waiting.add(await item())
    waiting.add(await item())
    assert waiting.fills_a_batch


async def test_the_first_one_says_how_long_it_may_take() -> None:
    waiting = Waiting(10, 10, 10, 10)
    first, second = await item(late_at_s=1.0), await item(late_at_s=2.0)
    waiting.add(first)
    waiting.add(second)
    assert waiting.late_at_s == 1.0
    waiting.discard(first)
    assert waiting.late_at_s == 2.0
