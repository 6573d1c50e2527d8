"""What an account may have stored: counted exactly, whatever becomes of it, and bounded by plan."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from scheduler.errors import InsufficientCredits, KeyReused, QuotaExceeded
from scheduler.models import Answer, BodyKind, Idempotency, Plan, Request
from scheduler.settings import Settings
from scheduler.store.stored import pack_request
from tests.plain import redis_of
from tests.scheduler.clocks import FakeClock
from tests.scheduler.conftest import open_fake
from tests.scheduler.scene import FAILED, URL, Scene, settled

BESIDE = 256
QUOTA = 10_000
HOUR_MS = 3_600_000


@pytest.fixture
async def bounded(fake_clock: FakeClock, settings: Settings) -> AsyncIterator[Scene]:
    """An account of a plan with a quota, and credits for more than that."""
    bounds = {Plan.FREE: QUOTA, Plan.PRO: 2 * QUOTA, Plan.SCALE: QUOTA}
    store = await open_fake(msgspec.structs.replace(settings, stored_bytes=bounds))
    account = await store.accounts.create("first", credits=100, plan=Plan.FREE)
    yield Scene(store, fake_clock, account.account_id)
    await store.aclose()


async def counted(scene: Scene) -> int:
    return int(await redis_of(scene.store).hget(scene.base + "account", "bytes") or 0)


def request(due_ms: int, size: int = 0, **fields: Any) -> Request:
    return Request(due_ms, "POST", URL, body=b" " * size or None, **fields)


async def create(scene: Scene, *sizes: int, once: str = "", due_in_ms: int = 60_000) -> list[str]:
    due_ms = await scene.clock.now_ms() + due_in_ms
    wanted = [request(due_ms, size) for size in sizes]
    key = Idempotency(once, "a") if once else None
    created = await scene.store.schedules.create_all(scene.account_id, wanted, key)
    return created.schedule_ids


async def replay(scene: Scene, schedule_id: str) -> None:
    due_ms = await scene.clock.now_ms() + 60_000
    await scene.store.schedules.replay(
        scene.account_id,
        schedule_id,
        lambda before: msgspec.structs.replace(before.request, trigger_at_ms=due_ms),
    )


async def test_a_schedule_weighs_its_request_and_what_is_kept_beside_it(scene: Scene) -> None:
    [schedule_id] = await create(scene, 1000)
    stored = (await scene.store.schedules.get(scene.account_id, schedule_id)).request
    assert await counted(scene) == len(pack_request(stored)) + BESIDE
    await scene.assert_sound()


async def test_what_is_over_the_quota_is_refused_and_changes_nothing(bounded: Scene) -> None:
    await create(bounded, 8000)
    before, had = await bounded.holdings(), await counted(bounded)
    with pytest.raises(QuotaExceeded, match=r"^Storage quota exceeded"):
        await create(bounded, 2000)
    assert (await bounded.holdings(), await counted(bounded)) == (before, had)
    await create(bounded, 1000)
    await bounded.assert_sound()


async def test_what_is_stored_is_told_as_a_create_would_judge_it(
    bounded: Scene, settings: Settings
) -> None:
    """An ended schedule stops counting an hour after its deletion, before any call settles it."""
    stored = bounded.store.accounts.stored_bytes
    assert await stored(bounded.account_id) == 0
    await create(bounded, 1000)
    [ended] = await create(bounded, 4000)
    assert await stored(bounded.account_id) == await counted(bounded)
    await bounded.store.canceller.cancel(bounded.account_id, ended)
    await bounded.clock.pass_ms((settings.schedule_retention_hours + 2) * HOUR_MS)
    had = await counted(bounded)
    assert 1000 < await stored(bounded.account_id) < had
    assert await counted(bounded) == had, "it only reads"


async def test_a_batch_is_within_the_quota_as_a_whole_or_not_stored(bounded: Scene) -> None:
    with pytest.raises(QuotaExceeded):
        await create(bounded, 3000, 3000, 3000, 3000)
    assert (await bounded.holdings()).waiting == 0
    assert len(await create(bounded, 3000, 3000, 2000)) == 3
    await bounded.assert_sound()


async def test_only_what_can_be_paid_for_counts(bounded: Scene) -> None:
    poor = await bounded.account("poor", credits=2)
    scene = Scene(bounded.store, bounded.clock, poor)
    assert len(await create(scene, 3000, 3000, 3000, 3000)) == 2
    with pytest.raises(InsufficientCredits):
        await create(scene, 9000)
    await scene.assert_sound()


async def test_an_account_without_a_quota_has_none(bounded: Scene) -> None:
    free = await bounded.store.accounts.create("u", credits=9, plan=Plan.UNLIMITED)
    scene = Scene(bounded.store, bounded.clock, free.account_id)
    await create(scene, QUOTA * 5)
    await scene.assert_sound()


async def test_quotas_go_by_plan_from_the_next_create_on(bounded: Scene) -> None:
    await create(bounded, 9000)
    await bounded.store.changes.plan(bounded.account_id, Plan.PRO)
    await create(bounded, 9000)
    await bounded.store.changes.plan(bounded.account_id, Plan.FREE)
    with pytest.raises(QuotaExceeded):
        await create(bounded, 0)
    await bounded.assert_sound()


async def test_a_cancelled_schedule_keeps_no_body_and_makes_room(bounded: Scene) -> None:
    [schedule_id] = await create(bounded, 9000)
    await bounded.store.canceller.cancel(bounded.account_id, schedule_id)
    cancelled = await bounded.store.schedules.get(bounded.account_id, schedule_id)
    assert (cancelled.request.body, cancelled.body_dropped) == (None, True)
    assert (cancelled.request.url, cancelled.request.method) == (URL, "POST")
    assert await counted(bounded) < 500
    await create(bounded, 9000)
    await bounded.assert_sound()


@pytest.mark.parametrize("body", [None, b"", b"text"])
async def test_of_a_cancelled_schedule_it_is_known_whether_it_had_a_body(
    scene: Scene, body: bytes | None
) -> None:
    kind = BodyKind.JSON if body is None else BodyKind.TEXT
    schedule_id = await scene.create(60_000, body=body, body_kind=kind)
    await scene.store.canceller.cancel(scene.account_id, schedule_id)
    cancelled = await scene.store.schedules.get(scene.account_id, schedule_id)
    assert cancelled.request.body is None
    assert cancelled.body_dropped is (body is not None)


async def test_creating_and_cancelling_without_end_comes_to_an_end(bounded: Scene) -> None:
    """It costs no credit, and the rest that is kept of each counts."""
    made = 0
    while made < 100:
        created = await settled(lambda: create(bounded, 0))
        if isinstance(created, QuotaExceeded):
            break
        made += 1
        await bounded.store.canceller.cancel(bounded.account_id, created[0])
    assert 20 < made < 50
    await bounded.assert_sound()


async def test_an_ended_schedule_counts_until_the_hour_in_which_it_is_forgotten_is_over(
    bounded: Scene,
) -> None:
    await create(bounded, 9000, due_in_ms=-1000)
    had = await counted(bounded)
    await bounded.ack([await bounded.claim_one()])
    assert await counted(bounded) == had
    with pytest.raises(QuotaExceeded):
        await create(bounded, 9000)
    await bounded.clock.pass_ms(24 * HOUR_MS)
    await bounded.assert_sound()
    await bounded.clock.pass_ms(HOUR_MS)
    await create(bounded, 9000)
    assert await counted(bounded) == had
    assert await redis_of(bounded.store).hgetall(bounded.base + "expiring") == {}
    await bounded.assert_sound()


@pytest.mark.parametrize(
    ("after_ms", "counts"),
    [
        (23 * HOUR_MS, True),
        (24 * HOUR_MS, True),  # it is forgotten just now
        (25 * HOUR_MS - 1, True),
        (25 * HOUR_MS, False),
    ],
)
async def test_the_hour_in_which_it_is_forgotten_counts_to_its_end(
    bounded: Scene, after_ms: int, counts: bool
) -> None:
    """What settles the hours before it in the same hour settles none that is not over."""
    assert await bounded.clock.now_ms() % HOUR_MS == 0
    await create(bounded, 9000, due_in_ms=-1000)
    await bounded.ack([await bounded.claim_one()])
    await bounded.clock.pass_ms(after_ms)
    weighs = await bounded.store.accounts.stored_bytes(bounded.account_id)
    assert (weighs > 9000) is counts
    await create(bounded, 0)
    refused = isinstance(await settled(lambda: create(bounded, 9000)), QuotaExceeded)
    assert refused is counts
    await bounded.assert_sound()


async def test_what_is_kept_for_a_shorter_time_in_the_end_counts_for_a_shorter_time(
    bounded: Scene,
) -> None:
    """A dead letter that was replayed is forgotten as any other that has ended."""
    [letter] = await create(bounded, 4000, due_in_ms=-1000)
    await bounded.ack([await bounded.claim_one()], FAILED)
    [hour] = await redis_of(bounded.store).hkeys(bounded.base + "expiring")
    await replay(bounded, letter)
    hours = await redis_of(bounded.store).hgetall(bounded.base + "expiring")
    weights = [int(hours[each]) for each in sorted(hours, key=int)]
    assert (len(weights), weights[0] > 4000, hours[hour]) == (2, True, b"0")
    await bounded.assert_sound()


async def test_a_replay_that_is_over_the_quota_is_refused(bounded: Scene) -> None:
    [letter] = await create(bounded, 6000, due_in_ms=-1000)
    await bounded.ack([await bounded.claim_one()], FAILED)
    before = await bounded.holdings()
    with pytest.raises(QuotaExceeded):
        await replay(bounded, letter)
    assert await bounded.holdings() == before
    await bounded.assert_sound()


async def test_a_change_counts_what_it_adds(bounded: Scene) -> None:
    [schedule_id] = await create(bounded, 100)

    async def change(size: int) -> None:
        await bounded.store.schedules.change(
            bounded.account_id,
            schedule_id,
            lambda old: msgspec.structs.replace(old, body=b" " * size),
        )

    await change(9000)
    with pytest.raises(QuotaExceeded):
        await change(10_000)
    stored = await bounded.store.schedules.get(bounded.account_id, schedule_id)
    assert stored.request.body == b" " * 9000
    await bounded.assert_sound()
    await change(10)
    await create(bounded, 8000)
    await bounded.assert_sound()


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
    bounded: Scene, plan: Plan, size: int, fits: bool
) -> None:
    [schedule_id] = await create(bounded, 100)
    await bounded.store.changes.plan(bounded.account_id, plan)
    changed = await settled(
        lambda: bounded.store.schedules.change(
            bounded.account_id,
            schedule_id,
            lambda old: msgspec.structs.replace(old, body=b" " * size),
        )
    )
    assert isinstance(changed, QuotaExceeded) is not fits
    await bounded.assert_sound()


async def test_who_is_over_the_quota_may_still_make_a_schedule_smaller(bounded: Scene) -> None:
    await bounded.store.changes.plan(bounded.account_id, Plan.PRO)
    [schedule_id] = await create(bounded, 15_000)
    await bounded.store.changes.plan(bounded.account_id, Plan.FREE)
    await bounded.store.schedules.change(
        bounded.account_id,
        schedule_id,
        lambda old: msgspec.structs.replace(old, body=b" " * 14_000),
    )
    await bounded.assert_sound()


async def test_a_repeat_is_answered_though_there_is_no_room_for_another(bounded: Scene) -> None:
    first = await create(bounded, 9000, once="k")
    assert await create(bounded, 9000, once="k") == first
    with pytest.raises(KeyReused):
        await bounded.store.schedules.create_all(
            bounded.account_id, [request(2**42, 9000)], Idempotency("k", "b")
        )
    await bounded.assert_sound()


async def test_one_account_over_its_quota_leaves_others_their_own(bounded: Scene) -> None:
    await create(bounded, 9000)
    other = Scene(bounded.store, bounded.clock, await bounded.account("second"))
    await create(other, 9000)
    await other.assert_sound()
    await bounded.assert_sound()


@pytest.mark.parametrize("size", [2, 1024])
async def test_what_a_target_said_counts_as_long_as_it_is_kept(bounded: Scene, size: int) -> None:
    said = Answer("text/plain", b"n" * size)
    failed = msgspec.structs.replace(FAILED, answer=said)
    [letter] = await create(bounded, 1000, due_in_ms=-1000)
    had = await counted(bounded)
    await bounded.ack([await bounded.claim_one()], failed)
    found = (await bounded.store.schedules.get(bounded.account_id, letter)).outcome
    assert found is not None
    assert found.answer == said
    assert (await counted(bounded) > had + 500) is (size == 1024)
    await bounded.assert_sound()
    await replay(bounded, letter)
    await bounded.assert_sound()
    await bounded.clock.pass_ms(26 * HOUR_MS)
    await bounded.assert_sound()
