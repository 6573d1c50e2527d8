"""Cancelling: one refund, one winner."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from scheduler.errors import Conflict, NotFound
from scheduler.models import Request, Status
from scheduler.store import lifecycle
from scheduler.store.lifecycle.cancel import Cancellations
from scheduler.store.queries.reading import read_by_id, read_one
from scheduler.store.stored import pack_request
from scheduler.store.verdict import MOST_CHANGES_MET
from tests.plain import redis_of
from tests.scheduler.scene import (
    CREDITS,
    FAILED,
    URL,
    Holdings,
    Scene,
    after_the_first_read,
    new_id,
    settled,
)

RACES = 1000
RACES_AT_ONCE = 50


async def test_a_cancellation_gives_the_credit_back(scene: Scene) -> None:
    schedule_id = await scene.create(60_000)
    assert (await scene.store.canceller.cancel(scene.account_id, schedule_id)).credits == CREDITS
    stored = await scene.store.schedules.get(scene.account_id, schedule_id)
    assert (stored.status, stored.executing, stored.outcome) == (Status.CANCELLED, False, None)
    [entry] = await scene.log()
    assert (entry.status, entry.executed_at_ms, entry.status_code) == (Status.CANCELLED, None, 0)
    assert (entry.schedule_id, entry.url, entry.method) == (schedule_id, URL, "POST")
    assert await scene.holdings() == Holdings(CREDITS, 0, 0, 0, {"cancelled": 1})
    await scene.assert_sound()


async def test_a_second_cancellation_refunds_nothing(scene: Scene) -> None:
    schedule_id = await scene.create(60_000)
    await scene.create(60_000)
    await scene.store.canceller.cancel(scene.account_id, schedule_id)
    with pytest.raises(Conflict) as refused:
        await scene.store.canceller.cancel(scene.account_id, schedule_id)
    assert refused.value.status == Status.CANCELLED
    expected = Holdings(CREDITS - 1, 1, 1, 0, {"cancelled": 1, "scheduled": 1})
    assert await scene.holdings() == expected
    await scene.assert_sound()


async def test_of_parallel_cancellations_one_wins(scene: Scene) -> None:
    schedule_id = await scene.create(60_000)
    results = await asyncio.gather(
        *(
            settled(lambda: scene.store.canceller.cancel(scene.account_id, schedule_id))
            for _ in range(50)
        )
    )
    assert sorted(type(each).__name__ for each in results) == ["Cancellations"] + ["Conflict"] * 49
    assert await scene.holdings() == Holdings(CREDITS, 0, 0, 0, {"cancelled": 1})
    await scene.assert_sound()


async def test_what_was_changed_since_it_was_read_is_read_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule_id = await scene.create(60_000)
    old = (await scene.store.schedules.get(scene.account_id, schedule_id)).request
    changed = Request(old.trigger_at_ms, "PUT", "https://example.com/changed")

    async def another_changes_it() -> None:
        key = f"{scene.base}s:{schedule_id[4:]}"
        await redis_of(scene.store).hset(key, "r", pack_request(changed))
        more = len(pack_request(changed)) - len(pack_request(old))
        await redis_of(scene.store).hincrby(scene.base + "account", "bytes", more)

    reads = after_the_first_read(monkeypatch, another_changes_it)
    await scene.store.canceller.cancel(scene.account_id, schedule_id)
    assert reads() == 2
    [entry] = await scene.log()
    assert (entry.method, entry.url) == ("PUT", "https://example.com/changed")
    await scene.assert_sound()


@pytest.mark.parametrize("ends", [True, False], ids=["cancel", "change"])
async def test_what_others_keep_changing_is_refused_and_left_alone(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    schedule_id = await scene.create(60_000)
    turns = itertools.count()

    async def another_changes_it() -> None:
        request = Request(2**41, "POST", f"{URL}?{next(turns)}")
        key = f"{scene.base}s:{schedule_id[4:]}"
        await redis_of(scene.store).hset(key, "r", pack_request(request))

    async def read_schedule(*which: Any) -> Any:
        found = await read_one(*which)
        await another_changes_it()
        return found

    async def read_schedules(*which: Any) -> Any:
        async for chunk in read_by_id(*which):
            await another_changes_it()
            yield chunk

    monkeypatch.setattr(lifecycle.schedules, "read_one", read_schedule)
    monkeypatch.setattr(lifecycle.cancel, "read_by_id", read_schedules)
    store, which = scene.store, (scene.account_id, schedule_id)
    with pytest.raises(Conflict, match="The schedule keeps changing; try again") as refused:
        await (
            store.canceller.cancel(*which)
            if ends
            else store.schedules.change(*which, lambda _: Request(2**41, "PUT", URL))
        )
    assert refused.value.status == Status.SCHEDULED
    assert next(turns) == MOST_CHANGES_MET
    monkeypatch.undo()
    assert (await store.schedules.get(*which)).request.method == "POST"


async def test_what_a_worker_holds_cannot_be_cancelled(scene: Scene) -> None:
    schedule_id = await scene.create()
    await scene.claim_one()
    before = await scene.holdings()
    with pytest.raises(Conflict, match="Execution has started") as refused:
        await scene.store.canceller.cancel(scene.account_id, schedule_id)
    assert refused.value.status == Status.SCHEDULED
    assert await scene.holdings() == before
    await scene.assert_sound()


@pytest.mark.time_passes
async def test_what_a_lost_worker_held_cannot_be_cancelled_either(scene: Scene) -> None:
    schedule_id = await scene.create()
    await scene.claim_one(lease_ms=5)
    await scene.clock.pass_ms(10)
    with pytest.raises(Conflict, match="Execution has started"):
        await scene.store.canceller.cancel(scene.account_id, schedule_id)
    await scene.assert_sound()


async def test_what_was_given_back_can_be_cancelled(scene: Scene) -> None:
    schedule_id = await scene.create()
    await scene.store.claims.release(scene.shard, [await scene.claim_one()])
    assert (await scene.store.canceller.cancel(scene.account_id, schedule_id)).credits == CREDITS
    assert await scene.claim() == []
    await scene.assert_sound()


async def test_what_has_ended_cannot_be_cancelled(scene: Scene) -> None:
    for outcome, due_in_ms in ((None, -1000), (FAILED, -1000)):
        schedule_id = await (
            scene.run(due_in_ms=due_in_ms) if outcome is None else scene.run(outcome)
        )
        before = await scene.holdings()
        with pytest.raises(Conflict) as refused:
            await scene.store.canceller.cancel(scene.account_id, schedule_id)
        assert refused.value.status == await scene.status(schedule_id)
        assert await scene.holdings() == before
    await scene.assert_sound()


async def test_another_accounts_schedule_cannot_be_cancelled(scene: Scene) -> None:
    other = await scene.account("other")
    schedule_id = await scene.create(60_000)
    for account_id, which in ((other, schedule_id), (scene.account_id, new_id())):
        with pytest.raises(NotFound):
            await scene.store.canceller.cancel(account_id, which)
    assert await scene.store.accounts.credits(other) == CREDITS
    await scene.assert_sound()


async def test_a_cancellation_racing_a_claim_has_exactly_one_winner(scene: Scene) -> None:
    """A thousand races: both sides start at once, in either order."""
    await scene.store.accounts.grant(scene.account_id, RACES)
    cancelled, fired = [], []
    for round_ in range(RACES // RACES_AT_ONCE):
        made = [await scene.create() for _ in range(RACES_AT_ONCE)]

        async def cancel(schedule_id: str) -> None:
            result = await settled(
                lambda: scene.store.canceller.cancel(scene.account_id, schedule_id)
            )
            assert isinstance(result, Cancellations | Conflict), result
            if isinstance(result, Cancellations):
                cancelled.append(schedule_id)

        async def claim_and_ack(most: int) -> None:
            invocations = await scene.claim(most=most)
            fired.extend(each.schedule_id for each in invocations)
            assert await scene.ack(invocations) == [1] * len(invocations)

        racers = [cancel(each) for each in made]
        for place in range(0, RACES_AT_ONCE, 5):
            racers.insert(place if round_ % 2 else len(racers) - place, claim_and_ack(4))
        await asyncio.gather(*racers)
        await claim_and_ack(RACES_AT_ONCE)
    assert not set(cancelled) & set(fired)
    assert len(cancelled) + len(fired) == RACES == len({*cancelled, *fired})
    assert cancelled
    assert fired
    log = {"cancelled": len(cancelled), "completed": len(fired)}
    found = await scene.holdings()
    assert found == Holdings(CREDITS + RACES - len(fired), len(fired), 0, 0, log)
    await scene.assert_sound()
