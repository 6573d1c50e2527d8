"""A plan's rate, as the store counts it."""

from __future__ import annotations

import pytest

from scheduler.models import Caller, Rate
from tests.scheduler.scene import Scene

PER_SECOND = 10  # of the plan that the scene's account has


async def asked(scene: Scene, value: str) -> Rate:
    caller: Caller | None = await scene.store.api_keys.admit(value)
    assert caller.rate is not None
    return caller.rate


@pytest.mark.time_passes
async def test_what_was_asked_for_is_remembered_until_it_is_paid_for(scene: Scene) -> None:
    _, value = await scene.store.api_keys.create(scene.account_id, "key")
    began_ms = await scene.clock.now_ms()
    for _ in range(PER_SECOND):
        assert (await asked(scene, value)).wait_s == 0
    await scene.clock.pass_ms(30)
    refused = await asked(scene, value)
    # On a busy machine so much time may have passed that there is another one.
    assert refused.wait_s > 0 or await scene.clock.now_ms() - began_ms >= 1000 / PER_SECOND


async def test_of_a_plans_burst_the_last_bit_is_paid_for_after_a_second(fake_scene: Scene) -> None:
    scene = fake_scene
    _, value = await scene.store.api_keys.create(scene.account_id, "key")
    for _ in range(PER_SECOND):
        await asked(scene, value)
    await scene.clock.pass_ms(950)
    standing = await asked(scene, value)
    assert (standing.wait_s, standing.remaining) == (0, PER_SECOND - 2)
