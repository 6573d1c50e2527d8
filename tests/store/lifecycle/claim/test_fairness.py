"""Fair shares: one account's flood is not its neighbours' delay, nor does it push ahead."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.store.scene import Scene, ids_of, lease_end_ms

FLOOD, HOUR_MS = 5000, 3_600_000


async def test_small_accounts_beside_a_flood_are_served_at_once(valkey_scene: Scene) -> None:
    scene = valkey_scene
    small = await scene.neighbours(3)
    await scene.create_many(FLOOD, await scene.clock.now_ms() - 60_000, account_id=scene.account_id)
    made = [await scene.create(account_id=each) for each in small for _ in range(50)]
    first, second = await scene.claim(), await scene.claim()
    shares = Counter(each.account_id for each in first)
    assert shares == dict.fromkeys([scene.account_id, *small], 32)
    assert {*made} <= {*ids_of(first), *ids_of(second)}
    # The flood gets unused places: a claim is never half empty.
    assert (len(first), len(second)) == (128, 128)
    assert [each.account_id for each in await scene.claim()] == [scene.account_id] * 128


async def test_forty_floods_take_turns_and_starve_nobody(scene: Scene) -> None:
    """More floods than a claim takes accounts: those served go to the end of the queue."""
    floods = [scene.account_id, *await scene.neighbours(39)]
    [small] = await scene.neighbours(1)
    due_ms = await scene.clock.now_ms() - 60_000
    for each in floods:
        await scene.create_many(200, due_ms, account_id=each)
    served: Counter[str] = Counter()
    for _ in range(5):
        batch = await scene.claim(most=64)
        assert len({each.account_id for each in batch}) == 16
        served.update(each.account_id for each in batch)
        await scene.clock.pass_ms(1)
    # Five claims of sixteen accounts are two turns for each of the forty.
    assert [served[each] for each in floods] == [8] * 40
    schedule_id = await scene.create(-1, account_id=small)
    served_soon = []
    for _ in range(3):
        served_soon += ids_of(await scene.claim(most=64))
        await scene.clock.pass_ms(1)
    assert schedule_id in served_soon


async def test_who_is_passed_over_keeps_its_place(scene: Scene) -> None:
    [other] = await scene.neighbours(1)
    mine, theirs = await scene.create(-2000), await scene.create(-1000, account_id=other)
    batch = await scene.batch(lease_ms=1000, most=10, most_accounts=1, pass_over=[scene.account_id])
    assert ids_of(batch.invocations) == [theirs]
    # The next look is the end of the taken lease, not the schedule that was passed over.
    assert batch.next_look_ms == lease_end_ms(batch.invocations[0])
    nothing = await scene.batch(lease_ms=1000, most=10, pass_over=[scene.account_id, other])
    assert nothing[:3] == ([], None, False)
    assert ids_of(await scene.claim(most_accounts=1)) == [mine]
    await scene.assert_sound()


async def test_a_backlog_survives_a_clock_that_is_set_back(fake_scene: Scene) -> None:
    due_ms = await fake_scene.clock.now_ms() - 2 * HOUR_MS
    await fake_scene.create_many(300, due_ms)
    first = await fake_scene.claim()
    assert await fake_scene.ack(first) == [1] * 128

    fake_scene.clock.ms -= HOUR_MS
    assert await fake_scene.claim() == [], "its turn lies an hour ahead now"
    await fake_scene.store.claims.realign(fake_scene.shard)

    assert len(await fake_scene.claim()) == 128


@pytest.mark.time_passes
@pytest.mark.parametrize("how", ["created", "given back", "changed"])
async def test_what_comes_in_with_an_early_time_does_not_push_ahead(scene: Scene, how: str) -> None:
    theirs = Scene(scene.store, scene.clock, (await scene.neighbours(1))[0])
    held = [await theirs.held(due_in_ms=-60_000)] if how == "given back" else []
    changed = await theirs.create(60_000)
    waiting = await scene.create(-1000)
    await scene.clock.pass_ms(2)
    early_ms = await scene.clock.now_ms() - 60_000
    if how == "created":
        await theirs.create_at(early_ms)
    elif how == "changed":
        await theirs.change(changed, trigger_at_ms=early_ms)
    else:
        await scene.release(held)
    assert ids_of(await scene.claim(most_accounts=1)) == [waiting]
    await scene.assert_sound()
