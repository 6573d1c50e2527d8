"""The store's format: written at the first start, and one that is not ours is left alone."""

from __future__ import annotations

import pytest

from scheduler.errors import StoreMisconfigured
from scheduler.settings import Settings
from scheduler.store import Store, keys
from scheduler.store.shards import FORMAT
from tests.plain import redis_of
from tests.scheduler.scene import Scene
from tests.servers import ValkeyProcess


async def metadata(store: Store) -> dict[bytes, bytes]:
    """But for its id."""
    found: dict[bytes, bytes] = await redis_of(store).hgetall(keys.META)
    return {name: value for name, value in found.items() if name != b"id"}


async def test_a_new_store_has_our_format(scene: Scene) -> None:
    expected = {b"shards": b"2", b"format": b"%d" % FORMAT}
    assert await metadata(scene.store) == expected
    await scene.store.start()
    assert await metadata(scene.store) == expected


@pytest.mark.parametrize(
    ("stored", "told"),
    [
        ({"shards": 4}, 0),
        ({"shards": 4, "format": 1}, 1),
        ({"shards": 4, "format": FORMAT + 1}, FORMAT + 1),
        ({"shards": 40, "format": FORMAT + 1}, FORMAT + 1),
    ],
)
async def test_another_format_is_refused_and_left_as_it_is(
    valkey: ValkeyProcess, stored: dict[str, int], told: int
) -> None:
    fresh = await Store.open(Settings(redis_url=valkey.url))
    await redis_of(fresh).delete(keys.META)
    await redis_of(fresh).hset(keys.META, mapping=stored)
    with pytest.raises(StoreMisconfigured, match=f"has format {told}, .* reads {FORMAT} only"):
        await Store.open(Settings(redis_url=valkey.url, shards=16))
    names = sorted(await redis_of(fresh).keys("*"))
    assert names == [keys.META.encode()]
    found = await metadata(fresh)
    assert {name.decode(): int(value) for name, value in found.items()} == stored
    await fresh.aclose()
