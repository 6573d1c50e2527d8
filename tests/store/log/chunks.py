"""Chunks of the log, of several kinds, as calls of acks leave them."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.store.lifecycle.end.end_rows import Ack
from scheduler.store.log.entries import unpack_chunk, url_place
from tests.store.scene import COMPLETED, FAILED, Scene, ids_of

# The first two share an index stream.
URLS = [f"https://example.{each}" for each in ("com/67", "com/80", "org/a", "org/b")]
assert url_place(URLS[0])[0] == url_place(URLS[1])[0]
# What becomes of the n-th of a chunk.
KINDS = [
    (COMPLETED, URLS[0]),
    (FAILED, URLS[1]),
    (COMPLETED, URLS[2]),
    (COMPLETED, URLS[0]),
    (FAILED, URLS[3]),
]


async def chunk(scene: Scene, count: int, start: int = 0) -> list[str]:
    """That many executed and recorded by one call, of several kinds; their ids in that order."""
    kinds = [KINDS[(start + n) % len(KINDS)] for n in range(count)]
    due_ms = await scene.clock.now_ms() - count
    for n, (_, url) in enumerate(kinds):
        await scene.create_at(due_ms + n, url=url)
    claimed = await scene.claim(most=count)
    assert [each.request.url for each in claimed] == [url for _, url in kinds]
    acks = [Ack(each, kind[0], 0) for each, kind in zip(claimed, kinds, strict=True)]
    assert await scene.store.ends.ack(scene.shard, acks) == [1] * count
    return ids_of(claimed)


async def chunks(scene: Scene, sizes: Sequence[int]) -> list[str]:
    """Chunks of these sizes, a few of them of the same millisecond where the clock stands still."""
    await scene.store.accounts.grant(scene.account_id, sum(sizes))
    made: list[str] = []
    for n, size in enumerate(sizes):
        made += await chunk(scene, size, n)
        if n % 3:
            await scene.clock.pass_ms(2)
    return made


async def logged(scene: Scene) -> list[int]:
    """How many entries each chunk has, the oldest first; the count beside them agrees."""
    stream = await scene.redis.xrange(scene.base + "log")
    packed = [fields[b"e"] for _, fields in stream]
    sizes = [len(unpack_chunk(each)) for each in packed]
    counted = sum(max(size, -(-len(each) // 512)) for size, each in zip(sizes, packed, strict=True))
    assert int(await scene.redis.hget(scene.base + "logged", "n") or 0) == counted
    return sizes
