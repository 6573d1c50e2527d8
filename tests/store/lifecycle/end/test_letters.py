"""Dead letters that their owner lets go."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.errors import NotFound, StoreError
from scheduler.models import Status
from scheduler.rollups import HOUR_MS
from scheduler.runtime.settings import Settings
from scheduler.store import keys
from tests.store.conftest import SHARDS
from tests.store.lifecycle.end.dead_letters import fail, letter_ids, new_ids, replay
from tests.store.scene import OWN, Scene, new_id

pytestmark = pytest.mark.sound


async def forget(scene: Scene, *schedule_ids: str) -> list[bool]:
    letters = [await scene.get(each) for each in schedule_ids]
    return await scene.store.letters.forget(scene.account_id, letters)


async def among(scene: Scene, *schedule_ids: str, most_bytes: int = 1_000_000) -> list[str]:
    letters = scene.store.letters
    found = await letters.among(scene.account_id, schedule_ids, most_bytes)
    return [each.schedule_id for each in found]


@pytest.mark.parametrize("fields", [{}, {"reference": "r"}, {"lane": "a"}])
async def test_one_leaves_the_list_and_the_others_stay(scene: Scene, fields: Any) -> None:
    made = await fail(scene, 3, **fields)
    before = await scene.holdings()
    assert await forget(scene, made[1]) == [True]
    assert await letter_ids(scene) == [made[0], made[2]]
    assert await letter_ids(scene, **({"reference": "r"} if "reference" in fields else {})) == [
        made[0],
        made[2],
    ]
    assert await scene.holdings() == before, "log and ledger tell what was"
    assert await scene.status(made[1]) is Status.FAILED


async def test_a_check_does_not_miss_one_that_has_failed_after_others(scene: Scene) -> None:
    [first] = await fail(scene)
    await scene.clock.pass_ms(5)
    last = await fail(scene, 2)
    await forget(scene, *last)
    await scene.assert_sound()
    assert await letter_ids(scene) == [first]


async def test_a_second_time_it_is_none(scene: Scene) -> None:
    made = await fail(scene, 2, reference="r")
    assert await forget(scene, made[0], made[0], made[1]) == [True, False, True]
    assert await forget(scene, *made) == [False, False]


async def test_many_go_together(scene: Scene) -> None:
    made = await fail(scene, 45)
    assert await forget(scene, *made) == [True] * 45
    assert await letter_ids(scene) == []


async def test_what_has_not_failed_is_none(scene: Scene) -> None:
    waits, done = await scene.create(60_000), await scene.run()
    assert await forget(scene, waits, done) == [False, False]


async def test_among_ids_only_dead_letters_are_found(scene: Scene) -> None:
    waits, done = await scene.create(60_000), await scene.run()
    first, replayed, forgotten, last = await fail(scene, 4, reference="r")
    [again] = new_ids(await replay(scene, [replayed], due_ms=2**41))
    await forget(scene, forgotten)
    asked = (last, waits, done, replayed, again, forgotten, new_id(), first)
    assert await among(scene, *asked) == [last, first]
    assert await among(scene) == []


async def test_one_of_another_account_is_none(scene: Scene) -> None:
    [failed] = await fail(scene)
    other = Scene(scene.store, scene.clock, (await scene.neighbours(1))[0])
    assert await among(other, failed) == []
    letter = await scene.get(failed)
    assert await other.store.letters.forget(other.account_id, [letter]) == [False]
    assert await letter_ids(scene) == [failed]


async def test_it_can_still_be_replayed_by_its_id(scene: Scene) -> None:
    [failed] = await fail(scene)
    await forget(scene, failed)
    assert len(new_ids(await replay(scene, [failed], due_ms=2**41))) == 1


async def test_while_its_callback_is_pending_it_is_kept(scene: Scene) -> None:
    [failed] = await fail(scene, callback=OWN)
    assert await forget(scene, failed) == [True]
    await scene.assert_sound()
    [call] = await scene.claim()
    await scene.answer(call)
    assert await scene.status(failed) is Status.FAILED
    assert 0 < await scene.redis.pttl(scene.key(failed)) <= 24 * HOUR_MS


@pytest.mark.harmed
async def test_nothing_is_forgotten_where_an_index_is_damaged(scene: Scene) -> None:
    [failed] = await fail(scene, reference="r")
    letter = await scene.get(failed)
    await scene.spoil(scene.base + keys.FAILED_REFERENCES)
    with pytest.raises(StoreError):
        await scene.store.letters.forget(scene.account_id, [letter])
    await scene.redis.delete(scene.base + keys.FAILED_REFERENCES)
    assert await among(scene, failed) == [failed]


class TestTime:
    @pytest.fixture
    def scene(self, fake_scene: Scene) -> Scene:
        return fake_scene

    @pytest.fixture
    def settings(self) -> Settings:
        return Settings(shards=SHARDS, schedule_retention_hours=24)

    async def test_it_is_kept_as_long_as_others_from_its_end_on(self, scene: Scene) -> None:
        first, second = await fail(scene, 2, reference="r")
        await scene.clock.pass_ms(HOUR_MS)
        await forget(scene, first)
        await scene.clock.pass_ms(23 * HOUR_MS - 2)
        assert await scene.status(first) is Status.FAILED
        await scene.clock.pass_ms(4)
        with pytest.raises(NotFound):
            await scene.status(first)
        assert await scene.status(second) is Status.FAILED
        await scene.clock.pass_ms(2 * HOUR_MS)
        await scene.create(60_000)
        await scene.assert_sound()

    async def test_an_older_one_goes_at_once(self, scene: Scene) -> None:
        [failed] = await fail(scene)
        await scene.clock.pass_ms(30 * HOUR_MS)
        assert await forget(scene, failed) == [True]
        with pytest.raises(NotFound):
            await scene.status(failed)
