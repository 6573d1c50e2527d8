"""Lists of schedules by status: what is kept, in the log's order, within bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from scheduler.models import Status
from scheduler.rollups import DAY_MS, HOUR_MS
from scheduler.store.log.entries import url_place
from scheduler.store.queries.listing import SchedulePage, Selection
from tests.store.log.test_logs import URLS, write
from tests.store.scene import FAILED, Scene, ids_of, reads_of

pytestmark = pytest.mark.usefixtures("endless_searches")
ENDED = (Status.COMPLETED, Status.CANCELLED)
EXECUTED = (Status.COMPLETED, Status.FAILED)


async def page(
    scene: Scene, statuses: Sequence[Status], descending: bool = True, **selected: Any
) -> SchedulePage:
    return await scene.store.kept.page(
        scene.account_id, statuses, Selection(**selected), descending=descending
    )


async def test_what_is_kept_no_longer_is_not_even_looked_for(
    fake_scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Failed ones are kept for a week: not a page of theirs looks for those of a day."""
    failed = await fake_scene.run(FAILED)
    await fake_scene.store.accounts.grant(fake_scene.account_id, 1000)
    gone = await fake_scene.create_many(300, await fake_scene.clock.now_ms() - 1)
    await fake_scene.ack(await fake_scene.claim(most=1000))
    await fake_scene.clock.pass_ms(DAY_MS + HOUR_MS)
    await fake_scene.store.tick()
    assert not await fake_scene.redis.exists(fake_scene.key(gone[0]))
    completed = await fake_scene.run()
    asked = reads_of(fake_scene, monkeypatch)
    first = await page(fake_scene, EXECUTED, limit=50)
    assert len(asked) < 40
    assert (ids_of(first.schedules), first.next_cursor) == ([completed, failed], None)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"reference": "order-1"}, {"reference": "order-1"}),
        ({"labels": ("a", "b")}, {"label": "b"}),
    ],
)
async def test_those_of_a_reference_or_label_are_found_by_its_index(
    scene: Scene,
    monkeypatch: pytest.MonkeyPatch,
    fields: dict[str, Any],
    named: dict[str, str],
) -> None:
    ended = await scene.run(FAILED, **fields)
    for _ in range(30):
        await scene.run(FAILED)
    asked = reads_of(scene, monkeypatch)
    assert ids_of(await scene.listed(scene.store.kept, EXECUTED, **named)) == [ended]
    assert len(asked) < 20


async def test_thousands_that_are_gone_are_passed_over_a_bounded_page_at_a_time(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a deletion by hand; and with a URL that shares its index with all of them."""
    start_ms = await scene.clock.now_ms() - 100_000
    bucket, _ = url_place(URLS[0])
    others = (f"https://example.org/{n}" for n in range(100_000))
    twin = next(each for each in others if url_place(each)[0] == bucket)
    await write(scene, [(start_ms + n, 0, Status.CANCELLED, twin) for n in range(6000)])
    wanted = await scene.create(60_000, url=URLS[0])
    await scene.cancel(wanted)
    asked = reads_of(scene, monkeypatch)
    for url in (None, URLS[0]):
        found, pages, cursor = [], 0, None
        while not pages or cursor is not None:
            pages, before = pages + 1, len(asked)
            some = await page(scene, [*Status], False, limit=10, url=url, cursor=cursor)
            assert len(asked) - before < (6000 if url else 2000)
            found += ids_of(some.schedules)
            cursor = some.next_cursor
        assert found == [wanted]
