"""What an account may have stored: counted exactly, whatever becomes of it, and bounded by plan."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.errors import KeyReused, QuotaExceeded
from scheduler.models import Answer, Idempotency, Outcome, Plan, Request
from scheduler.runtime.settings import Settings
from scheduler.store.stored import pack_request, unpack_request
from tests.store.conftest import SHARDS
from tests.store.lifecycle.end.dead_letters import due_at
from tests.store.scene import COMPLETED, FAILED, URL, Scene, settled

BESIDE = 256
QUOTA = 10_000
HOUR_MS = 3_600_000


pytestmark = pytest.mark.sound


@pytest.fixture
def settings() -> Settings:
    bounds = {Plan.FREE: QUOTA, Plan.PRO: 2 * QUOTA, Plan.SCALE: QUOTA}
    return Settings(shards=SHARDS, stored_bytes=bounds)


@pytest.fixture
def scene(fake_scene: Scene) -> Scene:
    return fake_scene


async def counted(scene: Scene) -> int:
    return int(await scene.redis.hget(scene.base + "account", "bytes") or 0)


async def create(scene: Scene, *sizes: int, once: str = "", due_in_ms: int = 60_000) -> list[str]:
    due_ms = await scene.clock.now_ms() + due_in_ms
    wanted = [Request(due_ms, "POST", URL, body=b" " * size or None) for size in sizes]
    key = Idempotency(once, f"of {sizes}") if once else None
    created = await scene.store.schedules.create_all(scene.account_id, wanted, key)
    return created.schedule_ids


async def end(scene: Scene, size: int, outcome: Outcome = COMPLETED) -> str:
    """A schedule that has ended, with a body of this size; nothing else may be due."""
    [schedule_id] = await create(scene, size, due_in_ms=-1000)
    await scene.ack([await scene.claim_one()], outcome)
    return schedule_id


async def replay_one(scene: Scene, schedule_id: str) -> None:
    due_ms = await scene.clock.now_ms() + 60_000
    await scene.store.schedules.replay(scene.account_id, schedule_id, due_at(due_ms))


async def test_a_schedule_weighs_its_request_and_what_is_kept_beside_it(scene: Scene) -> None:
    [schedule_id] = await create(scene, 1000)
    stored = (await scene.get(schedule_id)).request
    assert await counted(scene) == len(pack_request(stored)) + BESIDE
    await scene.assert_sound()


def test_the_default_timeout_takes_no_byte() -> None:
    plain = Request(1_800_000_000_000, "POST", URL)
    assert len(msgspec.msgpack.decode(pack_request(plain))) == 5, "what it has had always"
    timed = msgspec.structs.replace(plain, method_given=False, timeout_s=5)
    assert unpack_request(pack_request(timed)) == timed
    assert len(pack_request(timed)) < len(pack_request(plain)) + 30


async def test_what_is_over_the_quota_is_refused_and_changes_nothing(scene: Scene) -> None:
    """Of this account; another has a quota of its own, and a batch is stored whole or not."""
    await create(scene, 8000)
    before, had = await scene.holdings(), await counted(scene)
    for sizes in ((2000,), (0, 2000), (500, 500, 500)):
        with pytest.raises(QuotaExceeded, match=r"^Storage quota exceeded"):
            await create(scene, *sizes)
        assert (await scene.holdings(), await counted(scene)) == (before, had)
    await create(scene, 1000)
    other = Scene(scene.store, scene.clock, await scene.account("second"))
    await create(other, 3000, 3000, 2000)
    await other.assert_sound()


async def test_what_no_credit_is_left_for_takes_no_room(scene: Scene) -> None:
    poor = Scene(scene.store, scene.clock, await scene.account("poor", credits=1))
    assert len(await create(poor, 5000, 5000)) == 1
    await poor.assert_sound()


async def test_quotas_go_by_plan_from_the_next_create_on(scene: Scene) -> None:
    for plan, size in ((Plan.FREE, 9000), (Plan.PRO, 9000), (Plan.UNLIMITED, 5 * QUOTA)):
        await scene.store.changes.plan(scene.account_id, plan)
        await create(scene, size)
    await scene.store.changes.plan(scene.account_id, Plan.FREE)
    with pytest.raises(QuotaExceeded):
        await create(scene, 0)


async def test_a_cancelled_schedule_keeps_no_body_and_makes_room(scene: Scene) -> None:
    [schedule_id] = await create(scene, 9000)
    await scene.cancel(schedule_id)
    cancelled = await scene.get(schedule_id)
    assert (cancelled.request.body, cancelled.body_dropped) == (None, True)
    assert (cancelled.request.url, cancelled.request.method) == (URL, "POST")
    assert 0 < await counted(scene) < 500
    await create(scene, 9000)


@pytest.mark.parametrize(
    ("after_ms", "counts"),
    [
        (0, True),
        (23 * HOUR_MS, True),
        (24 * HOUR_MS, True),  # it is forgotten just now
        (25 * HOUR_MS - 1, True),
        (25 * HOUR_MS, False),
    ],
)
async def test_an_ended_one_counts_until_the_hour_in_which_it_is_forgotten_is_over(
    scene: Scene, after_ms: int, counts: bool
) -> None:
    """What settles the hours before it in the same hour settles none that is not over."""
    assert await scene.clock.now_ms() % HOUR_MS == 0
    await end(scene, 9000)
    await scene.clock.pass_ms(after_ms)
    weighs = await scene.store.accounts.stored_bytes(scene.account_id)
    assert (weighs > 9000) is counts
    await create(scene, 0)
    refused = isinstance(await settled(lambda: create(scene, 9000)), QuotaExceeded)
    assert refused is counts
    assert bool(await scene.redis.hgetall(scene.base + "expiring")) is counts


@pytest.mark.parametrize("way", [COMPLETED, FAILED, None], ids=["completed", "failed", "cancelled"])
async def test_several_that_end_in_one_step_all_count_until_they_are_forgotten(
    scene: Scene, way: Outcome | None
) -> None:
    made = await create(scene, 10, 700, 1500, due_in_ms=-1000)
    if way is None:
        await scene.cancel_all(made)
    else:
        await scene.ack(await scene.claim(), way)
    hours = await scene.redis.hgetall(scene.base + "expiring")
    assert sum(map(int, hours.values())) == await counted(scene)
    await scene.clock.pass_ms(10 * 24 * HOUR_MS)
    [last] = await create(scene, 0)
    request = (await scene.get(last)).request
    assert await counted(scene) == len(pack_request(request)) + BESIDE


async def test_what_is_kept_for_a_shorter_time_in_the_end_counts_for_a_shorter_time(
    scene: Scene,
) -> None:
    """A dead letter that was replayed is forgotten as any other that has ended."""
    letter = await end(scene, 4000, FAILED)
    [hour] = await scene.redis.hkeys(scene.base + "expiring")
    await replay_one(scene, letter)
    hours = await scene.redis.hgetall(scene.base + "expiring")
    weights = [int(hours[each]) for each in sorted(hours, key=int)]
    assert (len(weights), weights[0] > 4000, hours[hour]) == (2, True, b"0")


async def test_a_replay_that_is_over_the_quota_is_refused(scene: Scene) -> None:
    letter = await end(scene, 6000, FAILED)
    before = await scene.holdings()
    with pytest.raises(QuotaExceeded):
        await replay_one(scene, letter)
    assert await scene.holdings() == before


@pytest.mark.parametrize(
    ("plan", "size", "fits"),
    [
        (Plan.FREE, QUOTA - 1000, True),
        (Plan.FREE, QUOTA, False),
        (Plan.PRO, QUOTA, True),
        (Plan.PRO, 2 * QUOTA, False),
        (Plan.UNLIMITED, 2 * QUOTA, True),
    ],
)
async def test_a_change_is_judged_by_the_quota_of_its_own_plan(
    scene: Scene, plan: Plan, size: int, fits: bool
) -> None:
    [schedule_id] = await create(scene, 100)
    await scene.store.changes.plan(scene.account_id, plan)
    changed = await settled(lambda: scene.change(schedule_id, body=b" " * size))
    assert isinstance(changed, QuotaExceeded) is not fits


async def test_who_is_over_the_quota_may_still_make_a_schedule_smaller(scene: Scene) -> None:
    await scene.store.changes.plan(scene.account_id, Plan.PRO)
    [schedule_id] = await create(scene, 15_000)
    await scene.store.changes.plan(scene.account_id, Plan.FREE)
    await scene.change(schedule_id, body=b" " * 14_000)


async def test_a_repeat_is_answered_though_there_is_no_room_for_another(scene: Scene) -> None:
    first = await create(scene, 9000, once="k")
    assert await create(scene, 9000, once="k") == first
    with pytest.raises(KeyReused):
        await create(scene, 9001, once="k")


@pytest.mark.parametrize("size", [2, 1024])
async def test_what_a_target_said_counts_as_long_as_it_is_kept(scene: Scene, size: int) -> None:
    said = Answer("text/plain", b"n" * size)
    [letter] = await create(scene, 1000, due_in_ms=-1000)
    had = await counted(scene)
    await scene.ack([await scene.claim_one()], msgspec.structs.replace(FAILED, answer=said))
    found = (await scene.get(letter)).outcome
    assert found.answer == said
    assert (await counted(scene) > had + 500) is (size == 1024)
    await scene.assert_sound()
    await replay_one(scene, letter)
    await scene.assert_sound()
    await scene.clock.pass_ms(26 * HOUR_MS)
