"""An account whose outcomes cannot be recorded is parked: claims pass it over until they can."""

from __future__ import annotations

import pytest

from scheduler.models import Invocation, Outcome
from scheduler.store.verdict import Verdict
from tests.store.scene import COMPLETED, FAILED, Scene, ids_of
from tests.store.whole.harm import do_harm

SHORT_MS = 5


async def end(scene: Scene, invocation: Invocation, outcome: Outcome | None) -> list[int]:
    """Records an outcome; with None, an attempt that is made again."""
    if outcome is None:
        return await scene.retry([invocation], 60_000)
    return await scene.ack([invocation], outcome)


async def names_of(scene: Scene, place: str) -> list[str]:
    """The name of the account's one key there, and of the key that follows it in time."""
    found = [name.decode() async for name in scene.redis.scan_iter(match=scene.base + place)]
    assert len(found) == 1, found
    if place.endswith(":*"):
        head, _, number = found[0].rpartition(":")
        found.append(f"{head}:{int(number) + 1}")
    return found


@pytest.mark.time_passes
@pytest.mark.parametrize(
    ("place", "harm", "outcome"),
    [
        ("log", "of a wrong type", COMPLETED),
        ("logged", "at 2^53", COMPLETED),
        ("logged", "at 2^63", None),
        ("expiring", "at 2^53", FAILED),
        ("failed", "of a wrong type", FAILED),
        ("minute:*", "of a wrong type", COMPLETED),
        ("day:*", "at 2^63", FAILED),
    ],
)
async def test_what_cannot_be_recorded_is_fired_once_until_it_can_be(
    scene: Scene, place: str, harm: str, outcome: Outcome | None
) -> None:
    shard = scene.shard
    neighbours = [await scene.account(f"neighbour {n}") for n in range(2)]
    neighbour = next(each for each in neighbours if int(each.split("_")[1]) == shard)
    await scene.run(FAILED)
    schedule_id = await scene.create()
    invocation = await scene.claim_one(lease_ms=SHORT_MS)
    client, names = scene.redis, await names_of(scene, place)
    before = await client.dump(names[0])
    assert await do_harm(client, names[0], harm)
    for _ in range(3):
        assert await end(scene, invocation, outcome) == [Verdict.DAMAGED]
        sound = await scene.create(account_id=neighbour)
        await scene.clock.pass_ms(SHORT_MS + 1)
        batch = await scene.store.claims.claim(shard, lease_ms=SHORT_MS, most=128)
        assert ids_of(batch.invocations) == [sound]
        assert batch.broken == [scene.account_id]
        assert await scene.ack(batch.invocations) == [1]
    await client.delete(*names)
    await client.restore(names[0], 0, before)
    await scene.clock.pass_ms(SHORT_MS + 1)
    again = await scene.claim_one()
    assert (again.schedule_id, again.attempt) == (schedule_id, 2)
    assert await end(scene, again, outcome) == [1]
    logged = [each.schedule_id for each in await scene.log() if each.executed_at_ms is not None]
    assert logged.count(schedule_id) == 1
    await scene.assert_sound()


@pytest.mark.parametrize(
    ("place", "harm"), [("index:failed", "of a wrong type"), ("index:??", "at 2^53")]
)
async def test_a_damaged_index_of_the_log_keeps_nothing_from_being_recorded(
    valkey_scene: Scene, place: str, harm: str
) -> None:
    scene = valkey_scene
    await scene.run(FAILED)
    [index] = await names_of(scene, place)
    await do_harm(scene.redis, index, harm)
    damaged = await scene.redis.dump(index)
    schedule_id = await scene.run(FAILED)
    assert schedule_id in [each.schedule_id for each in await scene.log()]
    assert await scene.redis.dump(index) == damaged
    assert await scene.redis.pttl(index) == -1 or harm == "at 2^53"
