"""The walks of an operator's commands: restore, check and reseal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from scheduler import ids
from scheduler.models import Idempotency, Plan, Request
from scheduler.store import keys
from scheduler.store.stored import NOTE_BYTES
from tests.store.keyed import NEW, OLD, REQUEST, Stores
from tests.store.lifecycle.end.dead_letters import fail
from tests.store.scene import URL, Scene

Found = tuple[Sequence[Any], Sequence[Any]]
"""What a walk met, and what there was."""

DUE_MS = 1000
FAR_MS = 2**42
LONG_MS = 3_600_000


class Place(Scene):
    """A scene with other stores on its server."""

    def __init__(self, scene: Scene, stores: Stores) -> None:
        super().__init__(scene.store, scene.clock, scene.account_id)
        self.stores = stores
        stores.shards = scene.store.shards.count


# Restore


async def given_back(scene: Scene, count: int) -> Found:
    made = await scene.create_many(count, DUE_MS)
    await scene.claim(lease_ms=1)
    await scene.clock.pass_ms(3)
    await scene.store.restore.take_back()
    client = scene.redis
    assert await client.zcard(scene.base + keys.HELD) == 0
    return [each for each in made if await scene.visible_at_ms(each) == DUE_MS], made


async def expired(scene: Scene, count: int) -> Found:
    made, steps = await scene.create_many(count, DUE_MS), list[int]()
    await scene.store.restore.expire(DUE_MS, steps.append)
    assert sum(steps) == count
    return [each.schedule_id for each in await scene.log(statuses=["failed"])], made


# A clock that was set back


async def long_leases(scene: Scene, count: int) -> Found:
    made = await scene.create_many(count, DUE_MS)
    await scene.claim(lease_ms=LONG_MS)
    await scene.store.clock_back.mend(scene.shard, lease_ms=1000)
    return [each for each in made if await is_due(scene, each)], made


async def long_leases_of_accounts(scene: Scene, count: int) -> Found:
    for number in range(count):
        await scene.create_at(DUE_MS, account_id=await scene.account(f"n{number}"))
    shards = range(scene.store.shards.count)
    for shard in shards:
        await scene.claim(shard, lease_ms=LONG_MS)
    return [sum([await scene.store.clock_back.mend(each, 1000) for each in shards])], [count]


async def long_calls(scene: Scene, count: int) -> Found:
    """Leases of callbacks."""
    made = await scene.create_many(count, FAR_MS)
    await scene.redis.zadd(keys.shard(scene.shard) + keys.CALLBACK_HEADS, {scene.account_id[7:]: 1})
    for name in (keys.CALLBACKS, keys.CALLING):
        await scene.redis.zadd(scene.base + name, {each[4:]: 2**42 for each in made})
    return [await scene.store.clock_back.mend(scene.shard, lease_ms=1000)], [count]


async def is_due(scene: Scene, schedule_id: str) -> bool:
    visible_ms = await scene.visible_at_ms(schedule_id)
    return visible_ms is not None and visible_ms <= await scene.clock.now_ms()


# The check


def named(sentences: Sequence[str], words: str) -> list[str]:
    """The schedules of which these words are said."""
    return [
        part.rstrip(":,")
        for each in sentences
        if words in each
        for part in each.split()
        if part.startswith("sch_")
    ]


async def not_among_the_waiting(scene: Scene, count: int) -> Found:
    made = await scene.create_many(count, FAR_MS)
    await scene.redis.zrem(scene.base + keys.WAITING, *(each[4:] for each in made))
    sentences = await scene.store.check()
    assert len(sentences) == count, "nothing is weighed twice, nor forgotten"
    return named(sentences, "is not among the waiting"), made


async def letters_without_a_request(scene: Scene, count: int) -> Found:
    """All but the oldest."""
    await fail(scene)
    gone = await fail(scene, count - 1)
    await scene.redis.delete(*(scene.base + keys.SCHEDULE + each[4:] for each in gone))
    return named(await scene.store.check(), "is a dead letter"), gone


async def unlisted_letters(scene: Scene, count: int) -> Found:
    made = await fail(scene, count, reference="order-1")
    await scene.redis.delete(scene.base + keys.FAILED_REFERENCES)
    return named(await scene.store.check(), "is not listed by its reference"), made


async def strayed_letters(scene: Scene, count: int) -> Found:
    made = await fail(scene, count, reference="order-1")
    await scene.redis.delete(scene.base + keys.FAILED)
    return named(await scene.store.check(), "is no dead letter of the reference"), made


async def in_the_queue_of_a_lane(scene: Scene, count: int) -> Found:
    made = await scene.create_many(count, FAR_MS)
    await scene.redis.zadd(
        scene.base + keys.LANE_QUEUE + "mail", {each[4:]: FAR_MS for each in made}
    )
    return named(await scene.store.check(), "is in the queue of lane mail"), made


async def among_the_callbacks(scene: Scene, count: int) -> Found:
    made = await scene.create_many(count, FAR_MS)
    await scene.redis.zadd(scene.base + keys.CALLBACKS, {each[4:]: FAR_MS for each in made})
    return named(await scene.store.check(), "is among its callbacks"), made


async def weighed_notes(scene: Scene, count: int) -> Found:
    """Of calls with an Idempotency-Key, by what the check says that they weigh."""
    request = Request(FAR_MS, "POST", URL)
    for n in range(count):
        once = Idempotency(f"{n}", "asked")
        await scene.store.schedules.create_all(scene.account_id, [request], once)
    await scene.redis.delete(scene.base + keys.EXPIRING)
    told = re.findall(r"counted as 0 bytes, and weighs (\d+)", " ".join(await scene.store.check()))
    [name, *_] = [each async for each in scene.redis.scan_iter(scene.base + keys.ONCE + "*")]
    each = NOTE_BYTES + await scene.redis.strlen(name)
    return range(sum(map(int, told)) // each), range(count)


async def stray_references(scene: Scene, count: int) -> Found:
    made = await scene.create_many(count, FAR_MS)
    strays = {f"order\0{each[4:]}": 0 for each in made}
    await scene.redis.zadd(scene.base + keys.REFERENCES, strays)
    told = [each for each in await scene.store.check() if "among its references is" in each]
    return ["sch_" + each.split("\\x00")[1][:26] for each in told], made


async def stray_rules(scene: Scene, count: int) -> Found:
    """Each in three indexes."""
    names = [f"n{number}" for number in range(count)]
    await scene.redis.zadd(scene.base + keys.RULES, dict.fromkeys(names, 0))
    await scene.redis.hset(scene.base + keys.RULE_NAMES, mapping={each: each for each in names})
    due = {f"{keys.parts(scene.account_id).local}:{each}": FAR_MS for each in names}
    await scene.redis.zadd(keys.shard(scene.shard) + keys.RULES_DUE, due)
    sentences = await scene.store.check()
    return [n for n in names for s in sentences if re.search(rf"\b{n}'", s)], names * 3


async def damaged_requests(scene: Scene, count: int) -> Found:
    made = await scene.create_many(count, FAR_MS)
    for each in made:
        key = scene.base + keys.SCHEDULE + each[4:]
        packed = await scene.redis.hget(key, "r")
        await scene.redis.hset(key, "r", b"\xff" * len(packed))
    return named(await scene.store.check(), "cannot be read"), made


async def damaged_log(scene: Scene, count: int) -> Found:
    places = [f"{1000 + n}-0" for n in range(count)]
    for each in places:
        await scene.redis.xadd(scene.base + keys.LOG, {"c": "damaged"}, id=each)
    sentences = await scene.store.check()
    return [p for p in places for s in sentences if f" {p} of its log" in s], places


async def of_another_kind(scene: Scene, count: int) -> Found:
    names = [f"{scene.base}{keys.MINUTE}{number}" for number in range(count)]
    for name in names:
        await scene.redis.set(name, "no hash")
    sentences = await scene.store.check()
    return [n for n in names for s in sentences if f"{n} " in s or f"{n!r}" in s], names


async def names_that_lead_nowhere(scene: Scene, count: int) -> Found:
    names = [f"gone{number}" for number in range(count)]
    for each in names:
        await scene.redis.set(keys.NAME + each, ids.new_account_id(0))
    sentences = await scene.store.check()
    return [n for n in names for s in sentences if f"The name {n!r} is reserved" in s], names


# Resealing


async def resealed(place: Place, count: int) -> Found:
    """Requests of one account."""
    before = await place.stores.open(OLD)
    made = [await before.schedules.create(place.account_id, REQUEST) for _ in range(count)]
    done = await (await place.stores.open(NEW, OLD)).resealer.reseal()
    assert done.requests == count
    newest = await place.stores.open(NEW)
    readable = [await newest.schedules.get(place.account_id, each) for each in made]
    return [each.schedule_id for each in readable], made


async def resealed_secrets(place: Place, count: int) -> Found:
    """Of an account each."""
    before = await place.stores.open(OLD)
    made = []
    for number in range(count):
        account = await before.accounts.create(f"n{number}", credits=1, plan=Plan.FREE)
        made.append(account.account_id)
    done = await (await place.stores.open(NEW, OLD)).resealer.reseal()
    assert done.secrets == count + 1, "and that of the scene's own account"
    found = await (await place.stores.open(NEW)).signing.secrets_of(made)
    return [each for each, secrets in found.items() if isinstance(secrets, list)], made


async def owned(scene: Scene, count: int) -> Found:
    """The accounts that are found by a schedule of each."""
    accounts, made = [scene.account_id], [await scene.create(FAR_MS)]
    for i in range(1, count):
        account = await scene.store.accounts.create(f"n{i}", credits=1, plan=Plan.FREE)
        accounts.append(account.account_id)
        made.append(await scene.store.schedules.create(account.account_id, REQUEST))
    return [await scene.store.owners.find(each) for each in made], accounts


async def on_the_roster(scene: Scene, count: int) -> Found:
    """All accounts, in the one look that operators share."""
    accounts = [scene.account_id]
    for i in range(1, count * scene.store.shards.count):
        account = await scene.store.accounts.create(f"n{i}", credits=1, plan=Plan.FREE)
        accounts.append(account.account_id)
    return [each.account_id for each in (await scene.store.roster.look(5000)).rows], accounts
