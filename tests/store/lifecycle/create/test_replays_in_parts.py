"""Many replays go to the store in parts. Whatever happens between two of them, each is made and
paid for once, and a repeat with the same key makes the rest."""

from __future__ import annotations

from typing import Protocol

import pytest

from scheduler.errors import OutcomeUnknown
from scheduler.models import Idempotency
from scheduler.store.lifecycle.create.creator import _CREATE
from scheduler.store.lifecycle.create.replays import Replays
from scheduler.store.queries.listing import Selection
from scheduler.store.verdict import Verdict
from tests.store.lifecycle.create.parts import PIECE, at_part, cut, lose_reply
from tests.store.lifecycle.end.dead_letters import (
    due_at,
    fail,
    letter_ids,
    new_ids,
    replay,
    verdicts,
)
from tests.store.scene import CREDITS, Scene

pytestmark = [pytest.mark.usefixtures("small_parts"), pytest.mark.sound]
ONCE = Idempotency("key", "what was asked")
COUNT = 2 * PIECE + 1
DONE, UNPAID, REPLAYED = Verdict.DONE, Verdict.UNPAID, Verdict.REPLAYED


class Call(Protocol):
    async def __call__(
        self, scene: Scene, failed: list[str], once: Idempotency | None = ONCE, due_ms: int = 1
    ) -> Replays: ...


async def by_filter(
    scene: Scene, failed: list[str], once: Idempotency | None = ONCE, due_ms: int = 1
) -> Replays:
    wanted = Selection(limit=len(failed))
    replay_failed = scene.store.schedules.replay_failed
    return await replay_failed(scene.account_id, wanted, due_at(due_ms), once)


async def by_ids(
    scene: Scene, failed: list[str], once: Idempotency | None = ONCE, due_ms: int = 1
) -> Replays:
    return await replay(scene, failed, once, due_ms)


CALLS = pytest.mark.parametrize("call", [by_ids, by_filter])


async def paid(scene: Scene, failed: list[str]) -> int:
    """For replays."""
    return CREDITS - len(failed) - await scene.credits()


@CALLS
@pytest.mark.parametrize("count", [PIECE - 1, PIECE, PIECE + 1, COUNT])
@pytest.mark.parametrize("once", [ONCE, None])
async def test_each_is_made_and_paid_for_once(
    scene: Scene, call: Call, count: int, once: Idempotency | None
) -> None:
    failed = await fail(scene, count, reference="order")
    scripts = _CREATE.calls
    done = await call(scene, failed, once)
    assert _CREATE.calls == scripts + -(-count // PIECE)
    assert [each.original for each in done.each] == failed
    made = [await scene.get(new) for new in new_ids(done)]
    assert [each.request.replay_of for each in made] == failed
    assert {each.request.trigger_at_ms for each in made} == {done.trigger_at_ms} == {1}
    assert (await paid(scene, failed), await letter_ids(scene)) == (count, [])
    if once:
        assert await call(scene, failed, due_ms=99) == done._replace(repeated=True)


@CALLS
@pytest.mark.parametrize("number", [2, 3])
async def test_a_repeat_ends_what_a_call_that_was_cut_off_has_begun(
    scene: Scene, call: Call, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the same schedules and due as the first ones, though a filter would find another."""
    *failed, other = await fail(scene, COUNT + 1, reference="order")
    made = (number - 1) * PIECE
    with monkeypatch.context() as patch:
        at_part(patch, number, cut)
        with pytest.raises(OutcomeUnknown):
            await call(scene, failed)
    assert await letter_ids(scene) == [*failed[made:], other]
    done = await call(scene, failed, due_ms=99)
    assert (verdicts(done), done.repeated) == ([DONE] * COUNT, True)
    requests = [(await scene.get(new)).request for new in new_ids(done)]
    assert [(each.replay_of, each.trigger_at_ms) for each in requests] == [
        (each, done.trigger_at_ms) for each in failed
    ]
    assert done.trigger_at_ms == 1
    assert await call(scene, failed, due_ms=99) == done
    assert await letter_ids(scene) == [other]
    assert await paid(scene, [*failed, other]) == COUNT


@CALLS
@pytest.mark.harmed
async def test_the_rest_is_judged_as_it_is_by_then(
    scene: Scene, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of four that the first call did not come to, another call replayed one, one is forgotten, and
    one is damaged."""
    failed = await fail(scene, 2 * PIECE)
    with monkeypatch.context() as patch:
        at_part(patch, 2, cut)
        with pytest.raises(OutcomeUnknown):
            await call(scene, failed)
    await replay(scene, failed[PIECE : PIECE + 1])
    await scene.redis.delete(scene.key(failed[PIECE + 1]))
    await scene.redis.hset(scene.key(failed[PIECE + 2]), "r", b"\xff")
    done = await call(scene, failed)
    gone = [REPLAYED, Verdict.UNKNOWN, Verdict.UNKNOWN]
    assert verdicts(done) == [DONE] * PIECE + gone + [DONE] * (PIECE - 3)
    assert await call(scene, failed) == done
    assert await paid(scene, failed) == 2 * PIECE - 2


@CALLS
async def test_a_repeat_between_two_parts_makes_none_twice(
    scene: Scene, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed, found = await fail(scene, COUNT), list[Replays]()

    async def repeat() -> None:
        found.append(await call(scene, failed))

    with monkeypatch.context() as patch:
        at_part(patch, 2, repeat)
        done = await call(scene, failed)
    assert found == [done._replace(repeated=True)]
    assert verdicts(done) == [DONE] * COUNT
    assert await paid(scene, failed) == COUNT


@CALLS
@pytest.mark.parametrize("once", [ONCE, None])
@pytest.mark.parametrize("number", [1, 2, 3])
async def test_a_part_whose_reply_was_lost_is_answered_as_it_was_stored(
    scene: Scene, call: Call, once: Idempotency | None, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = await fail(scene, COUNT)
    lose_reply(monkeypatch, scene, number)
    done = await call(scene, failed, once)
    assert (verdicts(done), done.repeated) == ([DONE] * COUNT, False)
    assert (await paid(scene, failed), await letter_ids(scene)) == (COUNT, [])


async def test_without_a_key_a_repeat_makes_those_that_are_left(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = await fail(scene, COUNT)
    with monkeypatch.context() as patch:
        at_part(patch, 2, cut)
        with pytest.raises(OutcomeUnknown):
            await by_ids(scene, failed, None)
    done = await by_ids(scene, failed, None)
    assert verdicts(done) == [REPLAYED] * PIECE + [DONE] * (COUNT - PIECE)
    assert await paid(scene, failed) == COUNT


@pytest.mark.parametrize("reach", [1, PIECE, PIECE + 1])
async def test_the_credits_reach_for_the_first_ones(scene: Scene, reach: int) -> None:
    failed = await fail(scene, COUNT)
    left = await scene.credits() - reach
    await scene.store.accounts.grant(scene.account_id, -left)
    done = await by_ids(scene, failed)
    assert verdicts(done) == [DONE] * reach + [UNPAID] * (COUNT - reach)
    assert await letter_ids(scene) == failed[reach:]
    await scene.store.accounts.grant(scene.account_id, left)
    assert await by_ids(scene, failed) == done._replace(repeated=True)


async def test_the_first_parts_may_come_to_nothing(scene: Scene) -> None:
    """They are noted with the first that does."""
    failed = await fail(scene, 3 * PIECE)
    await by_ids(scene, failed[: 2 * PIECE], None)
    done = await by_ids(scene, failed)
    assert verdicts(done) == [REPLAYED] * 2 * PIECE + [DONE] * PIECE
    assert await by_ids(scene, failed) == done._replace(repeated=True)
