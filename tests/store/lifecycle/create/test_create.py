"""Creating: a schedule and its credit in one step."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from scheduler import ids
from scheduler.errors import InsufficientCredits, NotFound, StoreUnavailable
from scheduler.models import Delivery, Idempotency, Packed, Request, Schedule, Status, Upsert
from scheduler.store.lifecycle.create.create_rows import CreateRow, Part, part_from, row_weights
from scheduler.store.lifecycle.create.replays import CreatePlan
from tests.store.scene import CREDITS, URL, Holdings, Scene, settled

pytestmark = pytest.mark.sound
PLAIN = Request(0, "GET", URL)


async def test_what_is_read_is_what_was_created(scene: Scene) -> None:
    body = '{"n": 1.10, "big": 12345678901234567890123, "é": "\\u00e9"}'.encode()
    due_ms = await scene.clock.now_ms() + 60_000
    more = ({"X-One": "1"}, body, Delivery.AT_MOST_ONCE, due_ms + 30_000)
    request = Request(due_ms, "PUT", URL, *more)
    schedule_id = await scene.store.schedules.create(scene.account_id, request)
    after_ms = await scene.clock.now_ms()
    stored = await scene.get(schedule_id)
    assert stored == Schedule(schedule_id, stored.created_at_ms, request, Status.SCHEDULED)
    assert due_ms - 61_000 < stored.created_at_ms < after_ms + 1000
    assert await scene.visible_at_ms(schedule_id) == request.trigger_at_ms


async def test_credits_never_fall_below_zero_under_parallel_creates(scene: Scene) -> None:
    due_ms = await scene.clock.now_ms()
    results = await asyncio.gather(*(settled(lambda: scene.create_at(due_ms)) for _ in range(200)))
    created = [each for each in results if isinstance(each, str)]
    refused = [each for each in results if isinstance(each, InsufficientCredits)]
    assert (len(created), len(refused)) == (CREDITS, 200 - CREDITS)
    assert len(set(created)) == CREDITS
    assert await scene.holdings() == Holdings(0, CREDITS, CREDITS, 0, {"scheduled": CREDITS})


async def test_of_a_batch_as_many_are_stored_as_the_credits_reach(scene: Scene) -> None:
    requests = [Request(await scene.clock.now_ms() + n, "GET", URL) for n in range(CREDITS + 20)]
    created = await scene.store.schedules.create_all(scene.account_id, requests)
    assert len(created.schedule_ids) == CREDITS
    stored = await scene.get(created.schedule_ids[-1])
    assert stored.request == requests[CREDITS - 1]
    assert await scene.holdings() == Holdings(0, CREDITS, CREDITS, 0, {"scheduled": CREDITS})
    with pytest.raises(InsufficientCredits):
        await scene.store.schedules.create_all(scene.account_id, requests)


async def test_parallel_creates_with_one_key_are_one_create(scene: Scene) -> None:
    request = Request(await scene.clock.now_ms() + 60_000, "GET", URL)
    once = Idempotency("key", "fingerprint")
    create_all = scene.store.schedules.create_all
    results = await asyncio.gather(
        *(create_all(scene.account_id, [request] * 3, once) for _ in range(20))
    )
    assert len({tuple(each.schedule_ids) for each in results}) == 1
    assert [each.repeated for each in results].count(False) == 1
    assert await scene.holdings() == Holdings(CREDITS - 3, 3, 3, 0, {"scheduled": 3})


async def test_an_unknown_account_creates_nothing(scene: Scene) -> None:
    with pytest.raises(NotFound):
        await scene.create(account_id=ids.new_account_id(scene.shard))
    for malformed in ("acc_nonsense", "sch_x", ""):
        with pytest.raises(ValueError, match="not an account id"):
            await scene.create(account_id=malformed)


async def test_unknown_schedules_and_another_accounts_are_not_found(scene: Scene) -> None:
    theirs = await scene.create(account_id=await scene.account("other"))
    for schedule_id in ("", "sch_", "sch_*", "inv_x", "sch_" + "0" * 26, theirs):
        with pytest.raises(NotFound):
            await scene.get(schedule_id)


async def test_a_full_store_refuses_to_create_and_deducts_nothing(valkey_scene: Scene) -> None:
    scene, once = valkey_scene, Idempotency("key", "")
    kept, cancelled = await scene.create(), await scene.create(60_000)
    request = Request(2**41, "GET", URL)
    await scene.redis.config_set("maxmemory", 1)
    try:
        with pytest.raises(StoreUnavailable, match="full"):
            await scene.create()
        with pytest.raises(StoreUnavailable, match="full"):
            await scene.store.schedules.create_all(scene.account_id, [request], once)
        full = await scene.holdings()
        await scene.cancel(cancelled)
        # What ends schedules must still work, or the store would stay full.
        [invocation] = await scene.claim()
        assert await scene.extend(1000, [invocation]) == []
        await scene.release([invocation])
        assert await scene.ack(await scene.claim()) == [1]
        await scene.store.start()
    finally:
        await scene.redis.config_set("maxmemory", 0)
    assert full == Holdings(CREDITS - 2, 2, 2, 0, {"scheduled": 2})
    assert await scene.status(kept) == Status.COMPLETED
    made = await scene.store.schedules.create_all(scene.account_id, [request], once)
    assert not made.repeated


@pytest.mark.parametrize(
    ("requests", "originals", "until"),
    [([PLAIN] * 9, (), 8), ([Upsert(PLAIN, keep=True)] * 9, (), 2), ([PLAIN] * 9, ["a"] * 9, 2)],
    ids=["plain", "upserts", "replays"],
)
def test_a_part_has_fewer_of_those_that_are_judged_one_by_one(
    requests: list[Request | Packed | Upsert], originals: Sequence[str], until: int
) -> None:
    rows = [CreateRow(f"{n}", 0, b"", "", "", 0, "") for n in range(9)]
    weights = row_weights(CreatePlan(requests, b"", originals), rows)
    assert part_from(0, weights, most=8) == Part(0, until)
