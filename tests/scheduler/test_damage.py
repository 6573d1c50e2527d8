"""`Store.check` with damage of every kind: it reports each, and reads on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from scheduler.errors import StoreMisconfigured
from scheduler.models import Idempotency, Plan, Request
from scheduler.store import Store, keys
from scheduler.store.accounts.sessions import Purpose
from scheduler.store.operators.key_types import kind_of
from tests.plain import redis_of
from tests.scheduler.scene import FAILED, URL, Scene

pytestmark = pytest.mark.usefixtures("checks_at_once")
GARBAGE = b"\xff\xfe garbage \x00"
# What a check does not read, beyond whether it is of its kind.
_NOT_READ = {
    "meta", "workers", "attempts:", keys.HEADS,
    keys.API_KEY, keys.KEY_ID, keys.SESSION, keys.LINK, keys.WAITED,
    keys.KEYS, keys.HOLDER, keys.SESSIONS, keys.RATE, keys.OPERATION, keys.ONCE,
    keys.LOGGED, keys.INDEX, keys.MINUTE, keys.HOUR, keys.DAY,
}  # fmt: skip


async def test_every_key_of_another_kind_is_told_and_the_rest_looked_at(
    valkey_scene: Scene,
) -> None:
    scene = valkey_scene
    client, neighbour = scene.redis, await a_bit_of_all(scene)
    assert await scene.store.check() == []
    await client.hincrby(keys.account(neighbour) + keys.ACCOUNT, "credits", 1)
    for name in await names_of(scene.store):
        kind = kind_of(name)
        assert kind is not None, name
        before = await kept(scene.store, name)
        await client.delete(name)
        other = "list" if kind == "string" else "string"
        await (client.rpush(name, b"1") if other == "list" else client.set(name, b"1"))
        told = await scene.store.check()
        assert f"{name} is a {other}, and should be a {kind}" in told
        # A damaged or unlisted schedule gives no further sentence.
        if not (name.startswith(keys.account(neighbour)) or name.endswith("}:accounts")):
            assert any(each.startswith(f"{neighbour}: the ledger") for each in told), name
        await before()
    assert len(await scene.store.check()) == 1


async def test_garbage_in_any_key_is_survived_and_told(valkey_scene: Scene) -> None:
    scene = valkey_scene
    client, neighbour = scene.redis, await a_bit_of_all(scene)
    await client.hincrby(keys.account(neighbour) + keys.ACCOUNT, "credits", 1)
    [known] = await scene.store.check()
    for name in await names_of(scene.store):
        before = await kept(scene.store, name)
        await scribble(scene.store, name)
        told = set(await scene.store.check())
        if not name.startswith(keys.account(neighbour)):
            assert known in told, name
        if not any(part in name for part in _NOT_READ):
            assert told - {known}, f"nothing is told of {name}"
        await before()
    assert await scene.store.check() == [known]


async def test_a_damaged_number_of_shards_is_named(valkey_scene: Scene) -> None:
    await redis_of(valkey_scene.store).hset(keys.META, "shards", GARBAGE)
    with pytest.raises(StoreMisconfigured, match="pd:meta, which says how many shards there are"):
        await valkey_scene.store.start()


async def a_bit_of_all(scene: Scene) -> str:
    """Something under each name that an account or a shard has, and beside it a neighbour's id."""
    store, account_id = scene.store, scene.account_id
    neighbour = (
        await store.accounts.create("neighbour", credits=9, plan=Plan.FREE, email="n@example.com")
    ).account_id
    await store.schedules.create(neighbour, Request(2**41, "GET", URL))
    await scene.run()
    await scene.run(FAILED)
    await scene.create()
    await scene.retry([await scene.claim_one()], 60_000)
    await scene.create()
    await scene.claim_one()
    waiting = await scene.create(60_000)
    await scene.create(60_000)
    await store.canceller.cancel(account_id, waiting)
    once = Idempotency("key", "fingerprint")
    await store.schedules.create_all(account_id, [Request(2**41, "GET", URL)], once)
    await store.api_keys.create(account_id, "a key")
    await store.sessions.open(neighbour, password="a password of some length")
    await store.users.attempt("n@example.com", "127.0.0.1")
    await store.sessions.open(neighbour)
    await store.sessions.make_link(neighbour, Purpose.SET_PASSWORD)
    return neighbour


async def kept(store: Store, name: str) -> Callable[[], Awaitable[object]]:
    """Brings a key back as it is now."""
    client = redis_of(store)
    packed, until_ms = await client.dump(name), await client.pexpiretime(name)
    return lambda: client.restore(name, max(until_ms, 0), packed, replace=True, absttl=True)


async def names_of(store: Store) -> list[str]:
    return sorted(name.decode() for name in await redis_of(store).keys("pd:*"))


async def scribble(store: Store, name: str) -> None:
    """Has garbage in all that a key has, and of the kind that it is."""
    client = redis_of(store)
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
    [sound] = fields.values()
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
