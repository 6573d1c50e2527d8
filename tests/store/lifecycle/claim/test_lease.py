"""Leases end, are prolonged, given back and taken over; only the token tells who holds one."""

from __future__ import annotations

from typing import Any
from unittest.mock import AsyncMock

import pytest

from scheduler.errors import OutcomeUnknown, StoreError, StoreUnavailable
from tests.store.scene import LEASE_MS, Scene, ids_of, lease_end_ms

pytestmark = pytest.mark.sound

SHORT_MS = 5


@pytest.mark.time_passes
async def test_an_ended_lease_is_taken_over_as_the_next_attempt(scene: Scene) -> None:
    first = await scene.lapsed()
    second = await scene.claim_one(lease_ms=SHORT_MS)
    await scene.clock.pass_ms(SHORT_MS + 1)
    third = await scene.claim_one()
    assert ids_of([second, third]) == [first.schedule_id] * 2
    assert [each.attempt for each in (first, second, third)] == [1, 2, 3]
    assert len({first.token, second.token, third.token}) == 3
    assert await scene.claim() == []


async def test_a_lease_counts_from_the_question_and_not_from_the_reply(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server's clock goes on while a reply is on its way: by then it may have ended."""
    server, now_s = scene.store.server, 1000.0

    def slow(run: Any) -> Any:
        async def slowly(*arguments: Any) -> Any:
            nonlocal now_s
            now_s += 10
            return await run(*arguments)

        return slowly

    monkeypatch.setattr("scheduler.store.lifecycle.claim.claim.elapsed_s", lambda: now_s)
    await scene.create()
    for name in ("run", "run_each"):
        monkeypatch.setattr(server, name, slow(getattr(server, name)))
    invocation = await scene.claim_one(lease_ms=15_000)
    assert (now_s, invocation.lease_until_s) == (1010, 1000 + 15)
    await scene.extend(15_000, [invocation])
    assert (now_s, invocation.lease_until_s) == (1020, 1010 + 15)


@pytest.mark.time_passes
async def test_an_extension_tells_what_was_lost(scene: Scene) -> None:
    lost, ended = await scene.create(-3000), await scene.create(-2000)
    mine = await scene.claim(lease_ms=SHORT_MS)
    assert ids_of(mine) == [lost, ended]
    assert await scene.ack(mine[1:]) == [1]
    await scene.clock.pass_ms(SHORT_MS + 1)
    theirs = await scene.claim_one()
    kept = await scene.create(-1000)
    mine += await scene.claim()
    before_ms = lease_end_ms(mine[2]) - LEASE_MS
    gone = await scene.extend(60_000, mine)
    assert ids_of(gone) == [lost, ended]
    assert await scene.visible_at_ms(lost) == lease_end_ms(theirs)
    assert await scene.visible_at_ms(ended) is None
    assert await scene.visible_at_ms(kept) == lease_end_ms(mine[2])
    assert before_ms <= lease_end_ms(mine[2]) - 60_000 <= await scene.clock.now_ms() + 1


@pytest.mark.parametrize(("failure", "may_hold"), [(StoreUnavailable, 1), (OutcomeUnknown, 2)])
async def test_a_token_names_no_end_that_was_certainly_not_written(
    scene: Scene, failure: type[StoreError], may_hold: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = await scene.held()
    before = held.token
    monkeypatch.setattr(scene.store.server, "run", AsyncMock(side_effect=failure("It is away")))
    with pytest.raises(failure):
        await scene.extend(LEASE_MS, [held])
    ends = held.token.split(":")
    assert (ends[0], len(ends)) == (before, may_hold)


@pytest.mark.time_passes
async def test_an_attempt_used_up_by_a_lost_worker_is_not_given_again(scene: Scene) -> None:
    """It sent the request twice, the second time on a fresh connection, and recorded it."""
    held = await scene.held(SHORT_MS)
    held.attempt = 2
    assert await scene.extend(SHORT_MS, [held]) == []
    await scene.clock.pass_ms(SHORT_MS + 2)
    assert (await scene.claim_one()).attempt == 3


async def test_a_release_restores_trigger_time_and_attempt(scene: Scene) -> None:
    due_ms = await scene.clock.now_ms() - 1000
    schedule_id = await scene.create_at(due_ms)
    before = await scene.holdings()
    stored = await scene.redis.hgetall(scene.key(schedule_id))
    invocation = await scene.claim_one(lease_ms=60_000)
    assert await scene.claim() == []
    for _ in range(2):
        await scene.release([invocation])
    assert await scene.visible_at_ms(schedule_id) == due_ms
    assert await scene.holdings() == before
    assert await scene.redis.hgetall(scene.key(schedule_id)) == stored
    again = await scene.claim_one()
    assert (again.schedule_id, again.attempt) == (schedule_id, 1)


@pytest.mark.time_passes
async def test_a_release_of_a_later_attempt_keeps_those_before(scene: Scene) -> None:
    await scene.lapsed()
    await scene.release([await scene.claim_one()])
    assert (await scene.claim_one()).attempt == 2


@pytest.mark.time_passes
@pytest.mark.parametrize("most", [1, 4, 128])
async def test_what_is_left_to_others_is_looked_past(scene: Scene, most: int) -> None:
    """Eight looks of as many as are wanted: beyond that, it is too deep for this claim."""
    count = min(7 * most, 40)
    await scene.create_many(count, await scene.clock.now_ms() - 60_000)
    left = ids_of(await scene.claim(lease_ms=SHORT_MS, most=count))
    assert len(left) == count
    await scene.clock.pass_ms(SHORT_MS + 1)
    fresh = [await scene.create(-1) for _ in range(5)]
    claimed: list[str] = []
    for _ in range(5):
        claimed += ids_of(await scene.claim(take_over_by_ms=0, most=most))
    assert sorted(claimed) == sorted(fresh)
    taken = await scene.claim(most=count)
    assert sorted(ids_of(taken)) == sorted(left)
    assert {each.attempt for each in taken} == {2}
