"""The log in chunks: all entries of an account in a call lie in one, and no answer shows it."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest

from scheduler.models import Outcome, Status
from scheduler.rollups import LATENESS_BOUNDS_MS, SECOND_MS
from scheduler.store.lifecycle.end_rows import Ack
from scheduler.store.log.entries import url_place
from scheduler.store.log.logs import LogQuery
from tests.scheduler.chunks import URLS, chunks, logged, names
from tests.scheduler.scene import URL, Scene, ids_of


async def test_what_one_call_records_of_an_account_is_one_chunk(scene: Scene) -> None:
    [other] = await scene.neighbours(1)
    for n in range(5):
        await scene.create(-100 + n)
        await scene.create(-100 + n, account_id=other)
    claimed = await scene.claim()
    assert await scene.ack(claimed) == [1] * 10
    for account_id in (scene.account_id, other):
        theirs = Scene(scene.store, scene.clock, account_id)
        assert await logged(theirs) == [5]
        entries = await theirs.log(descending=False)
        assert names(entries) == ids_of(c for c in claimed if c.account_id == account_id)
        moments = {entry.executed_at_ms for entry in entries}
        assert len(moments) == 1
        ended = [await scene.store.schedules.get(account_id, each) for each in names(entries)]
        assert {each.ended_at_ms for each in ended} == moments
        await theirs.assert_sound()


async def test_an_index_names_a_chunk_once_for_each_kind_in_it(scene: Scene) -> None:
    await chunks(scene, [7])
    client = scene.redis
    [(chunk_id, _)] = await client.xrange(scene.base + "log")
    buckets: dict[str, set[bytes]] = {"completed": {b""}, "failed": {b""}}
    for url in URLS:
        bucket, digest = url_place(url)
        buckets.setdefault(bucket, set()).add(digest)
    found = {}
    async for key in client.scan_iter(match=scene.base + "index:*"):
        [(index_id, fields)] = await client.xrange(key)
        assert index_id == chunk_id
        digests = fields[b"h"]
        parts = {digests[at : at + 3] for at in range(0, len(digests), 3)} or {b""}
        found[key.decode().rpartition(":")[2]] = parts
    assert found == buckets


@pytest.mark.time_passes
@pytest.mark.parametrize("descending", [True, False], ids=["desc", "asc"])
async def test_pages_of_any_size_are_the_whole_log(scene: Scene, descending: bool) -> None:
    """A cursor ends inside a chunk wherever it likes."""
    made = await chunks(scene, [1, 7, 2, 30, 1, 1, 15, 16, 17])
    expected = made[::-1] if descending else made
    for limit in (1, 6, 29, 89, 90, 100):
        assert names(await scene.log(limit=limit, descending=descending)) == expected
    await scene.assert_sound()


@pytest.mark.time_passes
async def test_filters_find_in_mixed_chunks_what_a_plain_search_finds(scene: Scene) -> None:
    made = await chunks(scene, [3, 11, 1, 24, 6])
    cancelled = await scene.create(60_000, url=URLS[0])
    await scene.cancel(cancelled)
    waiting = await scene.create(60_000, url=URLS[1])
    everything = await scene.log(descending=False)
    assert names(everything) == [*made, cancelled, waiting]
    moments = sorted({entry.at_ms for entry in everything})
    chance = random.Random(3)
    for status, url in itertools.product(
        (None, *Status), (None, *URLS, "https://example.com/none")
    ):
        from_ms, to_ms = (
            chance.choice([None, chance.choice(moments) + chance.choice([0, 1])]) for _ in range(2)
        )
        expected = [
            entry
            for entry in everything
            if status in (None, entry.status)
            and url in (None, entry.url)
            and (from_ms is None or entry.at_ms >= from_ms)
            and (to_ms is None or entry.at_ms < to_ms)
        ]
        for limit, descending in ((4, False), (1, True), (100, True)):
            found = await scene.log(
                status=status,
                url=url,
                from_ms=from_ms,
                to_ms=to_ms,
                limit=limit,
                descending=descending,
            )
            assert found == (expected[::-1] if descending else expected)
    await scene.assert_sound()


@pytest.mark.time_passes
@pytest.mark.parametrize("limit", [1, 4, 9])
async def test_a_cursor_inside_a_chunk_leads_both_ways(scene: Scene, limit: int) -> None:
    made = await chunks(scene, [2, 10, 2])
    down = await scene.store.logs.page(scene.account_id, LogQuery(limit=limit))
    assert names(down.entries) == made[::-1][:limit]
    back = await scene.log(down.next_cursor, descending=False)
    on = await scene.log(down.next_cursor)
    # The cursor stands on the last one of the page, which is in neither.
    assert names(back) == made[len(made) - limit + 1 :]
    assert names(on) == made[: len(made) - limit][::-1]


@pytest.mark.time_passes
async def test_a_chunk_that_was_trimmed_under_the_cursor_is_no_harm(scene: Scene) -> None:
    made = await chunks(scene, [5, 5, 5])
    _, (middle, _), _ = await scene.redis.xrange(scene.base + "log")
    # Descending, seven of the ten that are left were on the page.
    for descending, left in ((False, made[10:]), (True, made[:3][::-1])):
        query = LogQuery(limit=7, descending=descending)
        page = await scene.store.logs.page(scene.account_id, query)
        await scene.redis.xdel(scene.base + "log", middle)
        assert names(await scene.log(page.next_cursor, descending=descending)) == left


@pytest.mark.time_passes
async def test_statistics_begin_and_end_at_a_chunks_millisecond(scene: Scene) -> None:
    await chunks(scene, [4, 9, 1])
    await scene.store.tick()
    entries = await scene.log()
    first_ms, last_ms = entries[-1].at_ms, entries[0].at_ms
    for at_ms in sorted({entry.at_ms for entry in entries}):
        for from_ms, to_ms in (
            (at_ms, at_ms + 1),
            (at_ms, last_ms + 1),
            (at_ms + 1, last_ms + 1),
            (first_ms, at_ms),
            (at_ms // SECOND_MS * SECOND_MS, at_ms + 1),
        ):
            usage = await scene.store.stats.usage(scene.account_id, from_ms, to_ms)
            those = [entry for entry in entries if from_ms <= entry.at_ms < to_ms]
            assert usage.executed == len(those)
            assert usage.failed == sum(entry.status == Status.FAILED for entry in those)
            assert usage.total_response_time_ms == sum(e.response_time_ms for e in those)


async def test_a_chunks_sums_are_those_of_its_entries(scene: Scene) -> None:
    """One call with several latenesses and response times."""
    latenesses = [-5, 0, 1, 2, 3, 60_000, 60_001, 10**9]
    for n in range(len(latenesses)):
        await scene.create(-100 + n)
    claimed = await scene.claim()
    acks = [
        Ack(each, Outcome(Status.COMPLETED if n % 2 else Status.FAILED, 200, n, ""), late_ms)
        for n, (each, late_ms) in enumerate(zip(claimed, latenesses, strict=True))
    ]
    assert await scene.store.ends.ack(scene.shard, acks) == [1] * len(acks)
    usage = await scene.store.stats.usage(scene.account_id, 0, await scene.clock.now_ms() + 1)
    assert (usage.completed, usage.failed, usage.total_response_time_ms) == (4, 4, 28)
    last = len(LATENESS_BOUNDS_MS)
    for rollup in ("hour:*", "day:*"):
        found: Counter[int] = Counter()
        async for key in scene.redis.scan_iter(match=scene.base + rollup):
            for name, value in (await scene.redis.hgetall(key)).items():
                _, is_bucket, bucket = name.decode().partition("b")
                if is_bucket and bucket.isdigit():
                    found[int(bucket)] += int(value)
        assert found == {0: 2, 1: 1, 2: 1, 3: 1, last - 2: 1, last - 1: 1, last: 1}


async def test_entries_with_long_urls_come_in_bounded_pages(scene: Scene) -> None:
    """However heavy the chunks: each entry is listed once."""
    urls = [f"{URL}/{n}/" + "x" * 8000 for n in range(40)]
    await scene.store.accounts.grant(scene.account_id, 200)
    made: list[str] = []
    for _ in range(5):
        for n, url in enumerate(urls):
            await scene.create(-100 + n, url=url)
        claimed = await scene.claim()
        assert await scene.ack(claimed) == [1] * len(urls)
        made += ids_of(claimed)
    assert names(await scene.log(limit=7)) == made[::-1]
    assert names(await scene.log(limit=100, descending=False)) == made
    found = await scene.log(url=urls[3], limit=2)
    assert names(found) == [made[n * 40 + 3] for n in (4, 3, 2, 1, 0)]


async def test_of_hundreds_logged_one_by_one_the_index_has_all(valkey_scene: Scene) -> None:
    """A server trims an index by whole nodes of a hundred entries, so that fewer would not show."""
    scene, count = valkey_scene, 250
    made = await scene.create_many(count, await scene.clock.now_ms() - 1000)
    for invocation in await scene.claim(most=count):
        assert await scene.ack([invocation]) == [1]
    for query in ({"status": "completed"}, {"url": URL}):
        assert sorted(names(await scene.log(**query))) == sorted(made)
