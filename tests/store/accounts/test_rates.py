"""A plan's rate, as the store counts it."""

from __future__ import annotations

from tests.store.scene import Scene

PER_SECOND = 10  # of the plan that the scene's account has


async def test_of_a_plans_burst_the_last_bit_is_paid_for_after_a_second(fake_scene: Scene) -> None:
    scene = fake_scene
    _, value = await scene.store.api_keys.create(scene.account_id, "key")
    for _ in range(PER_SECOND):
        await scene.store.api_keys.admit(value)
    await scene.clock.pass_ms(950)
    standing = (await scene.store.api_keys.admit(value)).rate
    assert (standing.wait_s, standing.remaining) == (0, PER_SECOND - 2)
