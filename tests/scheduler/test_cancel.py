"""Cancelling: one refund, one winner."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from scheduler.errors import Conflict, NotFound
from scheduler.models import Outcome, Request, Status
from scheduler.store import lifecycle
from scheduler.store.lifecycle.cancel import Cancellations
from scheduler.store.queries.reading import read_by_id, read_one
from scheduler.store.stored import pack_request
from scheduler.store.verdict import MOST_CHANGES_MET
from tests.scheduler.scene import (
    COMPLETED,
    CREDITS,
    FAILED,
    URL,
    Holdings,
    Scene,
    ids_of,
    new_id,
    settled,
)

pytestmark = pytest.mark.sound

RACES = 400
RACES_AT_ONCE = 50


async def test_a_cancellation_gives_the_credit_back(scene: Scene) -> None:
    schedule_id = await scene.create(60_000)
    assert (await scene.cancel(schedule_id)).credits == CREDITS
    stored = await scene.get(schedule_id)
    assert (stored.status, stored.executing, stored.outcome) == (Status.CANCELLED, False, None)
    [entry] = await scene.log()
    assert (entry.status, entry.executed_at_ms, entry.status_code) == (Status.CANCELLED, None, 0)
    assert (entry.schedule_id, entry.url, entry.method) == (schedule_id, URL, "POST")
    assert await scene.holdings() == Holdings(CREDITS, 0, 0, 0, {"cancelled": 1})


async def test_of_parallel_cancellations_one_wins(scene: Scene) -> None:
    schedule_id = await scene.create(60_000)
    calls = [settled(lambda: scene.cancel(schedule_id)) for _ in range(50)]
    kinds = [type(each).__name__ for each in await asyncio.gather(*calls)]
    assert sorted(kinds) == ["Cancellations"] + ["Conflict"] * 49
    assert await scene.holdings() == Holdings(CREDITS, 0, 0, 0, {"cancelled": 1})


async def ended(scene: Scene, outcome: Outcome) -> str:
    return await scene.run(outcome)


async def cancelled(scene: Scene) -> str:
    schedule_id = await scene.create(60_000)
    await scene.cancel(schedule_id)
    return schedule_id


async def held(scene: Scene) -> str:
    return (await scene.held()).schedule_id


async def lapsed(scene: Scene) -> str:
    return (await scene.lapsed()).schedule_id


@pytest.mark.time_passes
@pytest.mark.parametrize(
    ("made", "status", "why"),
    [
        (held, Status.SCHEDULED, "Execution has started"),
        (lapsed, Status.SCHEDULED, "Execution has started"),
        (cancelled, Status.CANCELLED, "is cancelled already"),
        (partial(ended, outcome=COMPLETED), Status.COMPLETED, "is completed already"),
        (partial(ended, outcome=FAILED), Status.FAILED, "is failed already"),
    ],
)
async def test_what_does_not_wait_cannot_be_cancelled(
    scene: Scene, made: Callable[[Scene], Awaitable[str]], status: Status, why: str
) -> None:
    schedule_id = await made(scene)
    before = await scene.holdings()
    with pytest.raises(Conflict, match=why) as refused:
        await scene.cancel(schedule_id)
    assert refused.value.status == status == await scene.status(schedule_id)
    assert await scene.holdings() == before


async def test_an_unknown_schedule_cannot_be_cancelled(scene: Scene) -> None:
    with pytest.raises(NotFound):
        await scene.cancel(new_id())


@pytest.mark.harmed
@pytest.mark.parametrize("ends", [True, False], ids=["cancel", "change"])
async def test_what_others_keep_changing_is_refused_and_left_alone(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    schedule_id = await scene.create(60_000)
    turns = itertools.count()

    async def another_changes_it() -> None:
        request = Request(2**41, "POST", f"{URL}?{next(turns)}")
        await scene.redis.hset(scene.key(schedule_id), "r", pack_request(request))

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


async def test_what_was_given_back_can_be_cancelled(scene: Scene) -> None:
    invocation = await scene.held()
    await scene.release([invocation])
    assert (await scene.cancel(invocation.schedule_id)).credits == CREDITS
    assert await scene.claim() == []


async def test_a_cancellation_racing_a_claim_has_exactly_one_winner(scene: Scene) -> None:
    """Hundreds of races: both sides start at once, in either order."""
    cancelled, fired = [], []

    async def cancel(schedule_id: str) -> None:
        result = await settled(lambda: scene.cancel(schedule_id))
        assert isinstance(result, Cancellations | Conflict), result
        if isinstance(result, Cancellations):
            cancelled.append(schedule_id)

    async def claim_and_ack(most: int) -> None:
        invocations = await scene.claim(most=most)
        fired.extend(ids_of(invocations))
        assert await scene.ack(invocations) == [1] * len(invocations)

    for round_ in range(RACES // RACES_AT_ONCE):
        made = await scene.create_many(RACES_AT_ONCE, await scene.clock.now_ms() - 1)
        racers = [cancel(each) for each in made]
        for place in range(0, RACES_AT_ONCE, 5):
            racers.insert(place if round_ % 2 else len(racers) - place, claim_and_ack(4))
        await asyncio.gather(*racers)
        await claim_and_ack(RACES_AT_ONCE)
    assert cancelled
    assert fired
    assert len(cancelled) + len(fired) == RACES == len({*cancelled, *fired})
    log = {"cancelled": len(cancelled), "completed": len(fired)}
    found = await scene.holdings()
    assert found == Holdings(CREDITS + RACES - len(fired), len(fired), 0, 0, log)
