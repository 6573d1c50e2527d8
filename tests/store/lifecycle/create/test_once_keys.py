"""A create under a key happens once in the key's life, which is a day."""

from __future__ import annotations

from scheduler.models import Idempotency, Request
from tests.store.scene import CREDITS, URL, Scene

DAY_MS = 86_400_000
ONCE = Idempotency("key", "what was asked", b"note")


async def created(scene: Scene, once: Idempotency = ONCE) -> tuple[str, bool]:
    request = Request(await scene.clock.now_ms() + 3 * DAY_MS, "POST", URL)
    found = await scene.store.schedules.create_all(scene.account_id, [request], once)
    [schedule_id] = found.schedule_ids
    return schedule_id, found.repeated


async def test_a_key_is_known_for_a_day_and_then_new_again(fake_scene: Scene) -> None:
    scene = fake_scene
    first, _ = await created(scene)
    await scene.clock.pass_ms(DAY_MS - 1)
    assert await created(scene) == (first, True)
    before = await scene.store.schedules.created_before(scene.account_id, ONCE)
    assert (before.schedule_ids, before.note) == ([first], b"note")
    await scene.clock.pass_ms(2)
    assert await scene.store.schedules.created_before(scene.account_id, ONCE) is None
    second, replayed = await created(scene, Idempotency("key", "something else"))
    assert (second != first, replayed) == (True, False)
    assert (await scene.holdings()).credits == CREDITS - 2
