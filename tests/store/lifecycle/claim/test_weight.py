"""Bounds by bytes: heavy requests come in small portions, and all of them come."""

from __future__ import annotations

from collections import Counter

import pytest

from scheduler.models import Request
from scheduler.store.queries.listing import Selection
from tests.store.scene import URL, Scene, ids_of

pytestmark = pytest.mark.sound
HEAVY_BYTES = 250_000


async def create_heavy(
    scene: Scene, count: int, *, size: int = HEAVY_BYTES, account_id: str | None = None
) -> list[str]:
    """Due for a while, a millisecond apart."""
    due_ms = await scene.clock.now_ms() - 10_000
    requests = [Request(due_ms + n, "POST", URL, body=b"x" * size) for n in range(count)]
    owner = account_id or scene.account_id
    return (await scene.store.schedules.create_all(owner, requests)).schedule_ids


async def test_one_is_claimed_whatever_it_weighs(scene: Scene) -> None:
    made = await create_heavy(scene, 3, size=5000)
    claimed = []
    for left in (2, 1, 0):
        batch = await scene.store.claims.claim(scene.shard, lease_ms=60_000, most=100, most_bytes=1)
        assert len(batch.invocations) == 1
        assert batch.full == (left > 0)
        claimed += ids_of(batch.invocations)
    assert claimed == made
    assert await scene.claim(most_bytes=1) == []


async def test_a_claim_brings_a_few_megabytes_at_most(scene: Scene) -> None:
    made = await create_heavy(scene, 40)
    claimed: list[str] = []
    claims = 0
    while batch := await scene.claim(lease_ms=60_000):
        assert sum(len(each.request.body or b"") for each in batch) < 5 * 1024 * 1024
        claimed, claims = claimed + ids_of(batch), claims + 1
    assert claimed == made
    assert claims == 3


async def test_a_neighbour_of_heavy_ones_has_its_turn(scene: Scene) -> None:
    [other] = await scene.neighbours(1)
    await create_heavy(scene, 20, size=5000)
    await create_heavy(scene, 20, size=5000, account_id=other)
    shares: Counter[str] = Counter()
    for _ in range(4):
        shares.update(each.account_id for each in await scene.claim(most_bytes=1))
        await scene.clock.pass_ms(1)
    assert shares == {scene.account_id: 2, other: 2}


async def test_pages_of_heavy_ones_are_short_and_whole_together(scene: Scene) -> None:
    """Also if a worker holds some of them."""
    made = await create_heavy(scene, 60)
    assert len(await scene.claim(most=10)) == 10
    for descending in (False, True):
        found, cursor, pages = [], None, 0
        while pages == 0 or cursor is not None:
            page = await scene.store.unended.page(
                scene.account_id, Selection(limit=50, cursor=cursor), descending=descending
            )
            assert sum(len(each.request.body or b"") for each in page.schedules) < 7 * 1024 * 1024
            assert page.schedules or page.next_cursor is None
            found += [each.schedule_id for each in page.schedules]
            cursor, pages = page.next_cursor, pages + 1
        assert found == (made[::-1] if descending else made)
        assert 3 <= pages <= 10
