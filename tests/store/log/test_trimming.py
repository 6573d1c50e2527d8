"""A log is cut by age and by number, whole chunks at a time; the rest stays true."""

from __future__ import annotations

import random

import pytest

from scheduler.models import Status
from scheduler.rollups import DAY_MS, HOUR_MS, MINUTE_MS
from scheduler.runtime.settings import Settings
from scheduler.store import keys
from scheduler.store.log.entries import url_place
from tests.store.conftest import SHARDS
from tests.store.log.chunks import chunks, logged
from tests.store.scene import Scene, ids_of

KEPT_ENTRIES = 100


@pytest.fixture
def scene(fake_scene: Scene) -> Scene:
    return fake_scene


@pytest.fixture
def settings() -> Settings:
    return Settings(shards=SHARDS, log_max_entries=KEPT_ENTRIES)


async def test_a_log_is_cut_by_number_exact_to_a_chunk(scene: Scene) -> None:
    chance = random.Random(5)
    made: list[str] = []
    for _ in range(35):
        size = chance.choice([1, 1, 2, 15, 16, 17, 30])
        before = await logged(scene)
        made += await chunks(scene, [size])
        sizes = await logged(scene)
        assert sizes[-1] == size
        assert sum(sizes) <= KEPT_ENTRIES
        # No more went than had to: with the last one that went it would be over.
        gone = [*before, size][: len(before) + 1 - len(sizes)]
        assert not gone or sum(sizes) + gone[-1] > KEPT_ENTRIES
        assert ids_of(await scene.log(descending=False)) == made[-sum(sizes) :]
        await scene.clock.pass_ms(3)
    for status in (Status.COMPLETED, Status.FAILED):
        expected = [entry for entry in await scene.log() if entry.status == status]
        assert await scene.log(statuses=[status]) == expected


async def test_old_chunks_go_by_their_age(scene: Scene) -> None:
    await chunks(scene, [30, 1, 1, 1, 16])
    await scene.clock.pass_ms(20 * DAY_MS)
    await chunks(scene, [5])
    await scene.clock.pass_ms(12 * DAY_MS)
    await chunks(scene, [7])
    for _ in range(3):
        await chunks(scene, [1])
    assert await logged(scene) == [5, 7, 1, 1, 1]
    await scene.store.tick()
    assert len(await scene.log()) == 15
    usage = await scene.store.stats.usage(scene.account_id, 0, await scene.clock.now_ms() + 1)
    assert usage.executed == 15


async def test_each_new_chunk_takes_only_a_few_old_ones_with_it(scene: Scene) -> None:
    """However many there are: all other calls wait meanwhile."""
    await chunks(scene, [1] * 9)
    await scene.clock.pass_ms(20 * DAY_MS)
    await chunks(scene, [2])
    await scene.clock.pass_ms(12 * DAY_MS)
    for old in (7, 5):
        await chunks(scene, [1])
        assert (await logged(scene)).index(2) == old


async def test_a_log_that_was_cut_says_from_when_on_it_is_whole(scene: Scene) -> None:
    """So that statistics are exact from there on, and wherever a period is cut in two, the parts
    add up."""
    began_ms, moments = scene.clock.ms, []
    for n in range(40):
        await scene.clock.pass_ms(130)
        size = 1 + n % 17
        await chunks(scene, [size])
        moments += [scene.clock.ms] * size
    end_ms = scene.clock.ms + 1
    whole_ms = int(await scene.redis.hget(scene.base + "logged", "first"))
    assert began_ms + 2000 < whole_ms < end_ms
    [(oldest, _)] = await scene.redis.xrange(scene.base + "log", count=1)
    assert whole_ms <= int(oldest.split(b"-")[0]) < whole_ms + 130 * 2
    for cut_ms in range(began_ms, end_ms, 37):
        before = await scene.store.stats.usage(scene.account_id, began_ms - 500, cut_ms)
        after = await scene.store.stats.usage(scene.account_id, cut_ms, end_ms)
        assert before.executed + after.executed == len(moments)
        if cut_ms >= whole_ms:
            assert after.executed == sum(cut_ms <= ms for ms in moments)


async def test_long_urls_make_no_longer_log_than_short_ones(scene: Scene) -> None:
    """Each counts as an entry for each 512 bytes: two of them."""
    await scene.store.accounts.grant(scene.account_id, KEPT_ENTRIES)
    for _ in range(KEPT_ENTRIES):
        await scene.run(url="https://example.com/".ljust(2000, "a"))
    assert len(await logged(scene)) == KEPT_ENTRIES // 2


async def test_an_index_lives_as_long_as_its_newest_entry_is_kept(scene: Scene) -> None:
    """Though it gets its time to live once in half a day, each at another hour of it."""
    urls = [f"https://example.com/{n}" for n in range(4)]
    for n in range(30):
        await scene.run(url=urls[n % 3])
        if n > 20:
            await scene.run(url=urls[3])
        for url in {urls[n % 3], urls[3 if n > 20 else n % 3]}:
            ttl_ms = await scene.redis.pttl(scene.base + keys.INDEX + url_place(url)[0])
            assert ttl_ms > 30 * DAY_MS + MINUTE_MS
        await scene.clock.pass_ms(HOUR_MS * 5)


async def test_indexes_are_cut_with_the_log(scene: Scene) -> None:
    await scene.store.accounts.grant(scene.account_id, 400)
    for _ in range(400):
        await scene.run()
        await scene.clock.pass_ms(1)
    for index in await scene.redis.keys(scene.base + keys.INDEX + "*"):
        assert await scene.redis.xlen(index) <= 2 * KEPT_ENTRIES
