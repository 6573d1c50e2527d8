"""A large call goes to the store in parts: creates of every kind, and replays. Whatever happens
between two of them, each schedule is stored and paid for once, and a repeat with the same key
stores the rest."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.errors import OutcomeUnknown, QuotaExceeded, TooManyLanes, TooManyUpserts
from scheduler.models import Idempotency, Upsert
from scheduler.store import keys
from scheduler.store.lifecycle.create.creator import _CREATE
from scheduler.store.lifecycle.create.results import CreateResult
from scheduler.store.stored import MOST_LANES
from scheduler.store.verdict import Verdict
from tests.store.lifecycle.create.parts import (
    COUNT,
    DAY_MS,
    DONE,
    KINDS,
    ONCE,
    PIECE,
    REPLAYED,
    SECOND_MS,
    UNPAID,
    Kind,
    at_part,
    before,
    by_filter,
    by_ids,
    create,
    cut,
    headed,
    keeps,
    lose_reply,
    replaces,
    requests,
)
from tests.store.lifecycle.end.dead_letters import (
    fail,
    letter_ids,
    replay,
    verdicts,
)
from tests.store.scene import CREDITS, Scene, settled

pytestmark = pytest.mark.usefixtures("small_parts")


@KINDS
@pytest.mark.parametrize("count", [PIECE - 1, PIECE, PIECE + 1, COUNT])
@pytest.mark.parametrize("once", [ONCE, None])
async def test_each_is_stored_and_paid_for_once(
    scene: Scene, kind: Kind, count: int, once: Idempotency | None
) -> None:
    wanted = await kind.prepare(scene, count)
    scripts, credits = _CREATE.calls, await scene.credits()
    done = await kind.call(scene, wanted, once)
    assert (_CREATE.calls, done.repeated) == (scripts + -(-count // PIECE), False)
    if once:
        assert await kind.call(scene, wanted, once, 99) == done._replace(repeated=True)
    await kind.compare(scene, wanted, done, credits)


@KINDS
@pytest.mark.parametrize("number", [2, 3])
async def test_a_repeat_ends_what_a_call_that_was_cut_off_has_begun(
    scene: Scene, kind: Kind, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the same schedules and due as the first ones, though a filter would find another."""
    wanted = await kind.prepare(scene, COUNT)
    others = await fail(scene) if kind.replays else []
    stored, credits, begun = (number - 1) * PIECE, await scene.credits(), None
    with monkeypatch.context() as patch:
        at_part(patch, number, cut)
        with pytest.raises(OutcomeUnknown):
            await kind.call(scene, wanted)
    await scene.assert_sound()
    if kind.replays:
        assert await letter_ids(scene) == [*wanted[stored:], *others]
    else:
        begun = await before(scene)
        assert len(begun.unfinished.so_far.verdicts) == stored
    done = await kind.call(scene, wanted, ONCE, 99)
    assert done.repeated
    assert begun is None or begun.schedule_ids == done.schedule_ids[: len(begun.schedule_ids)]
    assert await kind.call(scene, wanted, ONCE, 99) == done
    assert await letter_ids(scene) == others
    await kind.compare(scene, wanted, done, credits)


@KINDS
async def test_a_repeat_that_comes_between_two_parts_stores_nothing_twice(
    scene: Scene, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted, found = await kind.prepare(scene, 3 * PIECE), list[Any]()
    credits = await scene.credits()

    async def repeat() -> None:
        found.append(await kind.call(scene, wanted))

    with monkeypatch.context() as patch:
        at_part(patch, 2, repeat)
        done = await kind.call(scene, wanted)
    assert found == [done._replace(repeated=True)]
    await kind.compare(scene, wanted, done, credits)


@KINDS
@pytest.mark.parametrize("once", [ONCE, None])
@pytest.mark.parametrize("number", [1, 2, 3])
async def test_a_part_whose_reply_was_lost_is_answered_as_it_was_stored(
    scene: Scene, kind: Kind, once: Idempotency | None, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = await kind.prepare(scene, COUNT)
    scripts, credits = _CREATE.calls, await scene.credits()
    lose_reply(monkeypatch, scene, number)
    done = await kind.call(scene, wanted, once)
    assert (_CREATE.calls, done.repeated) == (scripts + 4, False)
    await kind.compare(scene, wanted, done, credits)


@pytest.mark.parametrize("kind", [requests, keeps])
async def test_both_are_answered_as_the_repeat_found_it(
    scene: Scene, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It found no credit left; when the first call goes on, there are some again."""
    wanted = await kind(scene, 2 * PIECE + 1)
    found: list[CreateResult] = []

    async def repeat() -> None:
        left = await scene.credits()
        await scene.store.accounts.grant(scene.account_id, -left)
        found.append(await create(scene, wanted))
        await scene.store.accounts.grant(scene.account_id, left)

    with monkeypatch.context() as patch:
        at_part(patch, 2, repeat)
        done = await create(scene, wanted)
    assert found == [done._replace(repeated=True)]
    assert (await scene.holdings()).waiting == len(set(done.schedule_ids))
    await scene.assert_sound()


async def test_the_first_part_is_refused_for_all(scene: Scene) -> None:
    """Together they are too much, or in too many lanes, though the first ones would not be."""
    body = bytes(20 * 1024 * 1024)
    large = [msgspec.structs.replace(each, body=body) for each in await requests(scene, 4)]
    scripts = _CREATE.calls
    with pytest.raises(QuotaExceeded):
        await create(scene, large)
    assert (_CREATE.calls, (await scene.holdings()).waiting) == (scripts + 1, 0)
    assert await before(scene) is None


async def test_lanes_are_counted_for_all(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    await scene.redis.zadd(
        scene.base + keys.LANES, {f"other-{n}": 0 for n in range(MOST_LANES - PIECE)}
    )
    wanted = await headed(scene, PIECE + 1)
    for asked in (wanted, [*await requests(scene, PIECE), *wanted]):
        assert type(await settled(lambda: create(scene, asked))) is TooManyLanes  # noqa: B023
        assert (await scene.holdings()).waiting == 0
    assert len((await create(scene, wanted[:PIECE])).schedule_ids) == PIECE


@pytest.mark.parametrize("paid", [0, 1, PIECE, PIECE + 1])
async def test_the_credits_reach_for_the_first_ones(scene: Scene, paid: int) -> None:
    await scene.store.accounts.grant(scene.account_id, paid - CREDITS)
    wanted = await requests(scene, 2 * PIECE + 1)
    scripts = _CREATE.calls
    done = await settled(lambda: create(scene, wanted))
    assert _CREATE.calls == scripts + 1 + paid // PIECE
    await scene.store.accounts.grant(scene.account_id, CREDITS)
    again = await create(scene, wanted)
    if paid:
        assert (len(done.schedule_ids), done.rest) == (paid, Verdict.UNPAID)
        assert again == done._replace(repeated=True)
    else:
        assert (len(again.schedule_ids), again.repeated) == (len(wanted), False)
    await scene.assert_sound()


async def test_room_that_another_call_takes_meanwhile_ends_the_call(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = bytes(1024 * 1024)
    each = [msgspec.structs.replace(one, body=body) for one in await requests(scene, 60)]
    monkeypatch.setattr(
        "scheduler.store.lifecycle.create.create_rows._BYTES_LIKE_ONE_MORE", 2 * len(body)
    )

    async def take() -> None:
        await create(scene, each[: 64 - PIECE - 2], None)

    with monkeypatch.context() as patch:
        at_part(patch, 2, take)
        done = await create(scene, each[: 2 * PIECE + 1])
    assert (len(done.schedule_ids), done.rest) == (PIECE, Verdict.NO_ROOM)
    assert await create(scene, each[: 2 * PIECE + 1]) == done._replace(repeated=True)
    await scene.assert_sound()


@pytest.mark.parametrize("keep", [True, False])
async def test_a_part_that_comes_to_nothing_is_noted_with_the_next_that_does(
    scene: Scene, keep: bool
) -> None:
    """Several wait that may be meant: refused one by one."""
    twice = await requests(scene, PIECE, reference="twice-")
    for each in twice * 2:
        await scene.store.schedules.create(scene.account_id, each)
    credits = await scene.credits()
    fresh = await requests(scene, 2 * PIECE, reference="fresh-")
    wanted = [Upsert(each, keep) for each in [*twice, *fresh]]
    done = await create(scene, wanted)
    verdicts = [each.verdict for each in done.placed]
    assert verdicts == [Verdict.SEVERAL] * PIECE + [Verdict.DONE] * (2 * PIECE)
    assert await create(scene, wanted) == done._replace(repeated=True)
    assert await scene.credits() == credits - 2 * PIECE
    await scene.assert_sound()


async def test_a_note_is_kept_for_a_day_from_the_first_part_that_takes_a_credit(
    scene: Scene,
) -> None:
    there = await requests(scene, PIECE, reference="there-")
    for each in there:
        await scene.store.schedules.create(scene.account_id, each)
    note = scene.base + keys.ONCE + "*"
    await create(scene, [Upsert(each, keep=True) for each in [*there, *there]])
    [name] = await scene.redis.keys(note)
    assert await scene.redis.pttl(name) <= 60 * SECOND_MS
    await scene.redis.delete(name)
    fresh = await requests(scene, 1, reference="fresh-")
    await create(scene, [Upsert(each, keep=True) for each in [*there, *fresh]])
    assert await scene.redis.pttl(name) > DAY_MS - 60 * SECOND_MS
    # `check` adds up what such notes weigh.
    await scene.assert_sound()


@pytest.mark.parametrize("is_new_again", [True, False])
async def test_a_part_fills_in_no_note_but_its_own_call_s(
    scene: Scene, is_new_again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is forgotten meanwhile, or the key was new again for another call."""
    wanted, found = await requests(scene, 2 * PIECE), list[CreateResult]()

    async def forget() -> None:
        [name] = await scene.redis.keys(scene.base + keys.ONCE + "*")
        await scene.redis.delete(name)
        if is_new_again:
            found.append(await create(scene, wanted[:1]))

    with monkeypatch.context() as patch:
        at_part(patch, 2, forget)
        done = await create(scene, wanted)
    assert len(done.schedule_ids) == len(wanted)
    again = await before(scene)
    assert [again] == ([each._replace(repeated=True) for each in found] or [None])


async def test_answers_without_a_credit_are_refused_by_the_first_part(fake_scene: Scene) -> None:
    """The account's part of its quota for them is used up but for a part of the call."""
    scene = fake_scene
    wanted = [each for each in await replaces(scene, 2 * PIECE) if isinstance(each, Upsert)]
    await create(scene, wanted, None)
    noted = scene.base + keys.NOTED
    now_us = await scene.clock.now_ms() * 1000
    # 128 and 43 for each of 4 rows are 300 bytes, of all 472, of 2 MiB a minute.
    us_a_byte = 60_000_000 / (2 * 2**20)
    await scene.redis.set(noted, str(int(now_us + 60_000_000 - 400 * us_a_byte)))
    with pytest.raises(TooManyUpserts):
        await create(scene, wanted, None)
    assert len((await create(scene, wanted[:PIECE], None)).placed) == PIECE


@pytest.mark.parametrize("call", [by_ids, by_filter])
@pytest.mark.harmed
async def test_the_rest_is_judged_as_it_is_by_then(
    scene: Scene, call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of four that the first call did not come to, another call replayed one, one is forgotten, and
    one is damaged."""
    wanted = await fail(scene, 2 * PIECE)
    with monkeypatch.context() as patch:
        at_part(patch, 2, cut)
        with pytest.raises(OutcomeUnknown):
            await call(scene, wanted)
    await replay(scene, wanted[PIECE : PIECE + 1])
    await scene.redis.delete(scene.key(wanted[PIECE + 1]))
    await scene.redis.hset(scene.key(wanted[PIECE + 2]), "r", b"\xff")
    done = await call(scene, wanted)
    gone = [REPLAYED, Verdict.UNKNOWN, Verdict.UNKNOWN]
    assert verdicts(done) == [DONE] * PIECE + gone + [DONE] * (PIECE - 3)
    assert await call(scene, wanted) == done
    assert await scene.credits() == CREDITS - 2 * PIECE - (2 * PIECE - 2)


async def test_without_a_key_a_repeat_makes_those_that_are_left(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = await fail(scene, COUNT)
    with monkeypatch.context() as patch:
        at_part(patch, 2, cut)
        with pytest.raises(OutcomeUnknown):
            await by_ids(scene, wanted, None)
    done = await by_ids(scene, wanted, None)
    assert verdicts(done) == [REPLAYED] * PIECE + [DONE] * (COUNT - PIECE)
    assert await scene.credits() == CREDITS - 2 * COUNT


@pytest.mark.parametrize("reach", [1, PIECE, PIECE + 1])
async def test_the_credits_reach_for_the_first_replays(scene: Scene, reach: int) -> None:
    wanted = await fail(scene, COUNT)
    left = await scene.credits() - reach
    await scene.store.accounts.grant(scene.account_id, -left)
    done = await by_ids(scene, wanted)
    assert verdicts(done) == [DONE] * reach + [UNPAID] * (COUNT - reach)
    assert await letter_ids(scene) == wanted[reach:]
    await scene.store.accounts.grant(scene.account_id, left)
    assert await by_ids(scene, wanted) == done._replace(repeated=True)


async def test_the_first_parts_of_replays_may_come_to_nothing(scene: Scene) -> None:
    """They are noted with the first that does."""
    wanted = await fail(scene, 3 * PIECE)
    await by_ids(scene, wanted[: 2 * PIECE], None)
    done = await by_ids(scene, wanted)
    assert verdicts(done) == [REPLAYED] * 2 * PIECE + [DONE] * PIECE
    assert await by_ids(scene, wanted) == done._replace(repeated=True)
