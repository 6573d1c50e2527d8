"""Dead letters: which schedules they are, in which order, how long and how many."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from msgspec.structs import replace

from scheduler.errors import NotFound
from scheduler.models import Status
from scheduler.rollups import HOUR_MS
from scheduler.runtime.settings import Settings
from scheduler.store.queries.listing import Selection
from tests.store.clocks import FakeClock
from tests.store.conftest import open_fake
from tests.store.lifecycle.end.dead_letters import fail, letter_ids, letters, stop
from tests.store.scene import COMPLETED, FAILED, Scene

pytestmark = pytest.mark.sound

KEPT_MS = 168 * HOUR_MS
MOST = 20


@pytest.fixture
async def small(fake_clock: FakeClock, settings: Settings) -> AsyncIterator[Scene]:
    """An account that may have few dead letters."""
    store = await open_fake(replace(settings, failed_max=MOST))
    scene = await Scene.of(store, fake_clock, credits=1000)
    yield scene
    await scene.assert_sound()
    await store.aclose()


async def test_what_failed_is_a_dead_letter_and_nothing_else(scene: Scene) -> None:
    await scene.run(COMPLETED)
    assert not await scene.redis.exists(scene.base + "failed")
    await scene.cancel(await scene.create(60_000))
    await scene.create(60_000)
    [failed] = await fail(scene)
    [letter] = await letters(scene)
    assert letter == await scene.get(failed)
    assert (letter.status, letter.outcome) == (Status.FAILED, FAILED)
    other = await scene.account("other")
    assert (await scene.store.failed.page(other, Selection())).schedules == []


async def test_they_come_by_their_end_and_id_in_both_orders(scene: Scene) -> None:
    first = await fail(scene, 4)
    await scene.clock.pass_ms(2)
    second = await fail(scene, 4)
    assert await letter_ids(scene) == first + second
    assert await letter_ids(scene, descending=True) == (first + second)[::-1]


async def test_a_period_is_of_their_end(scene: Scene) -> None:
    first = await fail(scene, 2)
    await scene.clock.pass_ms(2)
    second = await fail(scene, 2)
    began_ms = (await letters(scene))[2].ended_at_ms
    assert began_ms is not None
    for descending in (False, True):
        later = await letter_ids(scene, from_ms=began_ms, descending=descending)
        assert sorted(later) == second
        earlier = await letter_ids(scene, to_ms=began_ms, descending=descending)
        assert sorted(earlier) == first
    assert await letter_ids(scene, from_ms=began_ms, to_ms=began_ms) == []


async def test_they_are_kept_for_a_week_and_no_longer(fake_scene: Scene) -> None:
    scene = fake_scene
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
    small: Scene, end: Callable[[Scene, int], Awaitable[list[str]]]
) -> None:
    made = await end(small, 3 * MOST)
    assert len(await letter_ids(small)) == MOST
    assert set(await letter_ids(small)) <= set(made)
