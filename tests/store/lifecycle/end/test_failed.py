"""Dead letters: which schedules they are, in which order, how long and how many."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from scheduler.errors import NotFound
from scheduler.models import Status
from scheduler.rollups import HOUR_MS
from scheduler.runtime.settings import Settings
from tests.store.conftest import SHARDS
from tests.store.lifecycle.end.dead_letters import fail, letter_ids, stop
from tests.store.scene import Scene

pytestmark = pytest.mark.sound

KEPT_MS = 168 * HOUR_MS
MOST = 20


@pytest.fixture
def scene(fake_scene: Scene) -> Scene:
    return fake_scene


@pytest.fixture
def settings() -> Settings:
    return Settings(shards=SHARDS, failed_max=MOST)


async def test_they_are_kept_for_a_week_and_no_longer(scene: Scene) -> None:
    [failed] = await fail(scene)
    await scene.clock.pass_ms(KEPT_MS - 2)
    assert await letter_ids(scene) == [failed]
    assert await scene.status(failed) is Status.FAILED
    await scene.assert_sound()
    await scene.clock.pass_ms(4)
    assert await letter_ids(scene) == []
    with pytest.raises(NotFound):
        await scene.status(failed)
    assert not await scene.redis.exists(scene.base + "failed")


@pytest.mark.parametrize("end", [fail, stop])
async def test_more_than_the_number_at_once_keeps_the_number(
    scene: Scene, end: Callable[[Scene, int], Awaitable[list[str]]]
) -> None:
    made = await end(scene, 3 * MOST)
    assert len(await letter_ids(scene)) == MOST
    assert set(await letter_ids(scene)) <= set(made)
