"""How late a worker may start what a lane's rate gave a slot."""

from __future__ import annotations

from tests.store.lanes.test_lanes import set_lane
from tests.store.scene import LEASE_MS, Scene

_SLACK_US = 20_000


async def test_a_quarter_of_the_slack_is_left_for_the_way_and_a_passed_slot_counts_from_the_claim(
    scene: Scene,
) -> None:
    await set_lane(scene, rate=100)
    for _ in range(2):
        await scene.create(lane="a")
    past, coming = await scene.claim(ahead_ms=50)
    claimed_us = int(past.token) - LEASE_MS * 1000
    assert past.slot_us is not None
    assert coming.slot_us is not None
    assert past.slot_us < claimed_us
    assert 0 <= claimed_us - (past.slot_us + past.slack_us - _SLACK_US * 3 // 4) <= 1
    assert coming.slot_us > claimed_us
    assert coming.slack_us == _SLACK_US * 3 // 4
