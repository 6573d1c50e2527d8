"""Which workers are alive, as they tell each other."""

from __future__ import annotations

from scheduler.store import Store
from tests.scheduler.clocks import FakeClock

FORGOTTEN_MS = 10_000


async def test_who_is_not_heard_of_for_ten_seconds_is_forgotten(
    fake_store: Store, fake_clock: FakeClock
) -> None:
    workers = fake_store.workers
    assert await workers.beat("a", {}) == ["a"]
    assert sorted(await workers.beat("b", {})) == ["a", "b"]
    fake_clock.ms += FORGOTTEN_MS
    assert sorted(await workers.beat("b", {})) == ["a", "b"]
    fake_clock.ms += 1
    assert await workers.beat("b", {}) == ["b"]
    assert [each.worker_id for each in await workers.all()] == ["b"]
    assert sorted(await workers.beat("a", {})) == ["a", "b"], "it is welcome again"


async def test_who_says_good_bye_is_forgotten_at_once(store: Store) -> None:
    await store.workers.beat("a", {})
    await store.workers.beat("b", {"inFlight": 3})
    await store.workers.leave("a")
    assert await store.workers.beat("c", {}) != []
    assert [(each.worker_id, each.says) for each in await store.workers.all()] == [
        ("b", {"inFlight": 3}),
        ("c", {}),
    ]
