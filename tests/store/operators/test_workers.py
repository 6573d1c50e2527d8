"""Which workers are alive, as they tell each other."""

from __future__ import annotations

from scheduler.store import Store
from tests.store.clocks import FakeClock

LOST_MS = 10_000
FORGOTTEN_MS = 3_600_000


async def heard(store: Store, worker_id: str) -> list[str]:
    """Who is alive, as a worker hears with its heartbeat."""
    return sorted(each.process_id for each in await store.workers.beat(worker_id, {}))


async def test_who_is_not_heard_of_for_ten_seconds_is_lost_and_after_an_hour_forgotten(
    fake_store: Store, fake_clock: FakeClock
) -> None:
    workers = fake_store.workers
    assert await heard(fake_store, "a") == ["a"]
    assert await heard(fake_store, "b") == ["a", "b"]
    fake_clock.ms += LOST_MS
    assert await heard(fake_store, "b") == ["a", "b"]
    fake_clock.ms += 1
    assert await heard(fake_store, "b") == ["b"]
    lost, alive = await workers.all()
    assert (lost.process_id, lost.is_lost(fake_clock.ms)) == ("a", True)
    assert (alive.process_id, alive.is_lost(fake_clock.ms)) == ("b", False)
    assert await heard(fake_store, "a") == ["a", "b"], "it is welcome again"
    fake_clock.ms += FORGOTTEN_MS
    assert await heard(fake_store, "b") == ["b"]
    assert len(await workers.all()) == 2
    fake_clock.ms += 1
    await workers.beat("b", {})
    assert [each.process_id for each in await workers.all()] == ["b"]


async def test_of_those_lost_in_a_crash_loop_the_latest_fifty_are_listed(
    fake_store: Store, fake_clock: FakeClock
) -> None:
    for n in range(60):
        await fake_store.workers.beat(f"w{n:02}", {})
        fake_clock.ms += 1000
    fake_clock.ms += LOST_MS
    await fake_store.workers.beat("alive", {})
    found = [each.process_id for each in await fake_store.workers.all()]
    assert found == ["alive", *(f"w{n:02}" for n in range(10, 60))]
