"""Ended leases: which worker may take them over, and which ones a claim skips."""

from __future__ import annotations

import pytest

from tests.scheduler.scene import Scene, ids_of, lease_end_ms

pytestmark = pytest.mark.sound
SHORT_MS = 5


async def ended_leases(scene: Scene, count: int) -> list[str]:
    """Schedules whose worker is lost, all of them due before anything else."""
    await scene.create_many(count, await scene.clock.now_ms() - 60_000)
    held = await scene.claim(lease_ms=SHORT_MS, most=count)
    assert len(held) == count
    await scene.clock.pass_ms(SHORT_MS + 1)
    return ids_of(held)


@pytest.mark.time_passes
@pytest.mark.parametrize("most", [1, 4, 128])
async def test_what_is_left_to_others_is_looked_past(scene: Scene, most: int) -> None:
    """Eight looks of as many as are wanted: beyond that, it is too deep for this claim."""
    count = min(7 * most, 40)
    left = await ended_leases(scene, count)
    fresh = [await scene.create(-1) for _ in range(5)]
    claimed: list[str] = []
    for _ in range(5):
        claimed += ids_of(await scene.claim(take_over_by_ms=0, most=most))
    assert sorted(claimed) == sorted(fresh)
    taken = await scene.claim(most=count)
    assert sorted(ids_of(taken)) == sorted(left)
    assert {each.attempt for each in taken} == {2}


@pytest.mark.time_passes
async def test_a_claim_does_not_look_past_any_number(scene: Scene) -> None:
    """It comes back with nothing, and says that something is due."""
    await ended_leases(scene, 50)
    await scene.create(0)
    batch = await scene.store.claims.claim(scene.shard, lease_ms=1000, most=2, take_over_by_ms=0)
    assert (batch.invocations, batch.full) == ([], True)
    assert len(await scene.claim(most=100)) == 51


@pytest.mark.time_passes
async def test_a_claim_takes_over_what_had_ended_when_it_was_asked_for(scene: Scene) -> None:
    early, late = await scene.create(-2000), await scene.create(-1000)
    [first] = await scene.claim(most=1, lease_ms=SHORT_MS)
    [second] = await scene.claim(most=1, lease_ms=4 * SHORT_MS)
    assert [first.schedule_id, second.schedule_id] == [early, late]
    await scene.clock.pass_ms(4 * SHORT_MS + 1)
    asked_ms = int(lease_end_ms(second)) - 1
    assert lease_end_ms(first) < asked_ms < lease_end_ms(second)
    assert ids_of(await scene.claim(take_over_by_ms=asked_ms)) == [early]
    assert await scene.ack([second]) == [1]


@pytest.mark.time_passes
async def test_several_accounts_with_ended_leases_do_not_hide_what_is_fresh(scene: Scene) -> None:
    local = await scene.neighbours(2)
    for account_id in (scene.account_id, *local):
        for _ in range(3):
            await scene.create(-5000, account_id=account_id)
    held = await scene.claim(lease_ms=SHORT_MS)
    await scene.clock.pass_ms(SHORT_MS + 1)
    fresh = [await scene.create(-1, account_id=each) for each in (scene.account_id, *local)]
    assert sorted(ids_of(await scene.claim(take_over_by_ms=0, most=8))) == sorted(fresh)
    assert sorted(ids_of(await scene.claim())) == sorted(ids_of(held))


@pytest.mark.time_passes
async def test_whom_a_claim_took_nothing_over_from_can_still_extend(scene: Scene) -> None:
    invocation = await scene.lapsed()
    assert await scene.claim(take_over_by_ms=0) == []
    assert await scene.extend(60_000, [invocation]) == []
    assert await scene.claim() == []
    assert await scene.ack([invocation]) == [1]
