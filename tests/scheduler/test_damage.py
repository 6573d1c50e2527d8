"""`Store.check` with damage of every kind: it reports each, and reads on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from scheduler.errors import StoreMisconfigured
from scheduler.settings import Settings
from scheduler.store import Store, keys
from scheduler.store.operators.key_types import kind_of
from tests.plain import keeping, redis_of
from tests.scheduler.harm import Backup, do_harm, look
from tests.scheduler.parties import parties
from tests.scheduler.scene import FAILED, Scene

pytestmark = pytest.mark.usefixtures("checks_at_once")
GARBAGE = b"\xff\xfe garbage \x00"
# What a check does not read, beyond whether it is of its kind.
_NOT_READ = {
    "meta", "workers", "attempts:", keys.HEADS,
    keys.API_KEY, keys.KEY_ID, keys.SESSION, keys.LINK, keys.WAITED,
    keys.KEYS, keys.HOLDER, keys.SESSIONS, keys.RATE, keys.OPERATION, keys.ONCE,
    keys.LOGGED, keys.INDEX, keys.MINUTE, keys.HOUR, keys.DAY,
}  # fmt: skip


@pytest.fixture
def settings() -> Settings:
    return Settings(shards=1)


async def damaged(
    store: Store, damage: Callable[[Any, str], Awaitable[object]]
) -> AsyncIterator[tuple[str, list[str], bool]]:
    """Damages each key in turn, but its neighbour's: the name, what a check says of it, and whether
    it says of the neighbour as well that its ledger does not balance."""
    _, neighbour = await parties(store, ["a", "b"])
    assert await store.check() == []
    await redis_of(store).hincrby(neighbour.base + keys.ACCOUNT, "credits", 1)
    [known] = await store.check()
    assert known.startswith(f"{neighbour.account_id}: the ledger")
    async with keeping(store):
        backup = await Backup.of(store)
        for name in sorted(await look(store)):
            if not neighbour.owns(name):
                await damage(redis_of(store), name)
                told = await store.check()
                yield name, [each for each in told if each != known], known in told
                await backup.restore(await look(store))
    assert await store.check() == [known]


async def test_every_key_of_another_kind_is_told_and_the_rest_looked_at(
    valkey_store: Store,
) -> None:
    async def harm(client: Any, name: str) -> bool:
        return await do_harm(client, name, "of a wrong type")

    async for name, told, goes_on in damaged(valkey_store, harm):
        kind = kind_of(name)
        other = "list" if kind == "string" else "string"
        assert f"{name} is a {other}, and should be a {kind}" in told
        # The list of a shard's accounts leads to the neighbour.
        assert goes_on or name.endswith("}:accounts"), name


async def test_garbage_in_any_key_is_survived_and_told(valkey_store: Store) -> None:
    async for name, told, goes_on in damaged(valkey_store, scribble):
        assert goes_on, name
        if not any(part in name for part in _NOT_READ):
            assert told, f"nothing is told of {name}"


async def test_a_damaged_number_of_shards_is_named(valkey_store: Store) -> None:
    await redis_of(valkey_store).hset(keys.META, "shards", GARBAGE)
    with pytest.raises(StoreMisconfigured, match="pd:meta, which says how many shards there are"):
        await valkey_store.start()


async def scribble(client: Any, name: str) -> None:
    """Has garbage in all that a key has, and of the kind that it is."""
    match kind_of(name):
        case "string":
            await client.set(name, GARBAGE, keepttl=True)
        case "hash":
            fields = await client.hgetall(name)
            await client.hset(name, mapping=dict.fromkeys(fields, GARBAGE))
        case "zset":
            await client.zadd(name, {GARBAGE: 1})
        case "list":
            await client.lset(name, 0, GARBAGE)
        case "stream":
            await client.xadd(name, {GARBAGE: GARBAGE})


async def test_a_damaged_piece_of_the_log_hides_nothing_else_of_it(valkey_scene: Scene) -> None:
    scene = valkey_scene
    client, log = scene.redis, scene.base + keys.LOG
    first = await scene.run()
    await client.xadd(log, {"e": GARBAGE})
    await client.xadd(log, {"e": b"\x91\x95\xa26x\x01\xa0\xa0\x63"})  # of no known status
    [(_, fields), *_] = await client.xrange(log)
    sound = fields[b"e"]
    for place, damage in ((3, b"\xff"), (3, b"z"), (29, b"\xcf\xff" + sound[31:38])):
        await client.xadd(log, {"e": sound[:place] + damage + sound[place + len(damage) :]})
    await scene.clock.pass_ms(2)
    second = await scene.run(FAILED)
    assert [each.schedule_id for each in await scene.log()] == [second, first]
    now_ms = await scene.clock.now_ms()
    usage = await scene.store.stats.usage(scene.account_id, now_ms - 60_001, now_ms + 1)
    assert (usage.completed, usage.failed) == (1, 1)
    told = await scene.store.check()
    assert len(told) == 5
    assert all(" of its log cannot be read: " in each for each in told)
