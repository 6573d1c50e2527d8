"""A large create goes to the store in parts. Whatever happens between two of them, each schedule is
stored and paid for once, and a repeat with the same key stores the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from scheduler.errors import OutcomeUnknown, QuotaExceeded, TooManyLanes, TooManyUpserts
from scheduler.models import Idempotency, Request, Upsert
from scheduler.store import keys
from scheduler.store.lifecycle.create.creator import _CREATE
from scheduler.store.lifecycle.create.results import CreateResult
from scheduler.store.stored import MOST_LANES
from scheduler.store.verdict import Verdict
from tests.store.lifecycle.create.parts import PIECE, at_part, cut, lose_reply
from tests.store.scene import CREDITS, URL, Scene, settled

pytestmark = pytest.mark.usefixtures("small_parts")
ONCE = Idempotency("key", "what was asked", b"note")
SECOND_MS, DAY_MS = 1000, 86_400_000
Asked = Request | Upsert


async def requests(scene: Scene, count: int, **fields: Any) -> list[Request]:
    due_ms = await scene.clock.now_ms() + 60 * SECOND_MS
    return [
        Request(due_ms + n, "POST", URL, **{k: f"{v}{n}" for k, v in fields.items()})
        for n in range(count)
    ]


async def plain(scene: Scene, count: int) -> list[Asked]:
    return [*await requests(scene, count)]


async def headed(scene: Scene, count: int) -> list[Asked]:
    return [*await requests(scene, count, reference="order-", lane="lane-")]


async def keeps(scene: Scene, count: int) -> list[Asked]:
    """Every second one means one that waits."""
    wanted = await requests(scene, count, reference="order-")
    for each in wanted[::2]:
        await scene.store.schedules.create(scene.account_id, each)
    return [Upsert(each, keep=True) for each in wanted]


async def replaces(scene: Scene, count: int) -> list[Asked]:
    kept = [each for each in await keeps(scene, count) if isinstance(each, Upsert)]
    later = [msgspec.structs.replace(each.request, trigger_at_ms=0) for each in kept]
    due_ms = await scene.clock.now_ms() + 90 * SECOND_MS
    return [
        Upsert(msgspec.structs.replace(each, trigger_at_ms=due_ms), False, DAY_MS) for each in later
    ]


KINDS = pytest.mark.parametrize("kind", [plain, headed, keeps, replaces])


async def create(
    scene: Scene, wanted: Sequence[Asked], once: Idempotency | None = ONCE
) -> CreateResult:
    return await scene.store.schedules.create_all(scene.account_id, wanted, once)


async def before(scene: Scene, once: Idempotency = ONCE) -> CreateResult | None:
    return await scene.store.schedules.created_before(scene.account_id, once)


async def finished(scene: Scene, wanted: Sequence[Asked], begun: CreateResult) -> CreateResult:
    return await scene.store.schedules.finish(scene.account_id, wanted, ONCE, begun.unfinished)


@KINDS
@pytest.mark.parametrize("count", [PIECE - 1, PIECE, PIECE + 1, 2 * PIECE + 1])
@pytest.mark.parametrize("once", [ONCE, None])
async def test_each_is_stored_and_paid_for_once(
    scene: Scene, kind: Any, count: int, once: Idempotency | None
) -> None:
    wanted = await kind(scene, count)
    scripts = _CREATE.calls
    done = await create(scene, wanted, once)
    assert _CREATE.calls == scripts + -(-count // PIECE)
    assert (await scene.holdings()).waiting == len(set(done.schedule_ids)) == count
    assert await scene.credits() == CREDITS - count
    if once:
        again = await create(scene, wanted, once)
        assert again == done._replace(repeated=True)
        assert await before(scene) == again
    due = [(await scene.get(each)).due_at_ms for each in done.schedule_ids]
    assert due == [each.trigger_at_ms for each in wanted]
    await scene.assert_sound()


@KINDS
@pytest.mark.parametrize("number", [2, 3])
async def test_a_repeat_ends_what_a_call_that_was_cut_off_has_begun(
    scene: Scene, kind: Any, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = await kind(scene, 2 * PIECE + 1)
    credits = await scene.credits()
    with monkeypatch.context() as patch:
        at_part(patch, number, cut)
        with pytest.raises(OutcomeUnknown):
            await create(scene, wanted)
    await scene.assert_sound()
    begun = await before(scene)
    stored = (number - 1) * PIECE
    assert len(begun.unfinished.so_far.verdicts) == stored
    assert await create(scene, wanted) == begun
    done = await finished(scene, wanted, begun)
    assert (done.repeated, done.unfinished, len(done.schedule_ids)) == (True, None, len(wanted))
    assert done.schedule_ids[:stored] == begun.schedule_ids[:stored]
    assert await finished(scene, wanted, begun) == done == await before(scene)
    new = len(wanted) if kind in (plain, headed) else len(wanted) // 2
    assert await scene.credits() == credits - new
    await scene.assert_sound()


@KINDS
async def test_a_repeat_that_comes_between_two_parts_stores_nothing_twice(
    scene: Scene, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = await kind(scene, 3 * PIECE)
    found: list[CreateResult] = []

    async def repeat() -> None:
        begun = await before(scene)
        found.append(await finished(scene, wanted, begun))

    with monkeypatch.context() as patch:
        at_part(patch, 2, repeat)
        done = await create(scene, wanted)
    assert found == [done._replace(repeated=True)]
    assert await scene.credits() == CREDITS - len(wanted)
    assert (await scene.holdings()).waiting == len(wanted)
    await scene.assert_sound()


@pytest.mark.parametrize("kind", [plain, keeps])
async def test_both_are_answered_as_the_repeat_found_it(
    scene: Scene, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It found no credit left; when the first call goes on, there are some again."""
    wanted = await kind(scene, 2 * PIECE + 1)
    found: list[CreateResult] = []

    async def repeat() -> None:
        left = await scene.credits()
        await scene.store.accounts.grant(scene.account_id, -left)
        begun = await before(scene)
        found.append(await finished(scene, wanted, begun))
        await scene.store.accounts.grant(scene.account_id, left)

    with monkeypatch.context() as patch:
        at_part(patch, 2, repeat)
        done = await create(scene, wanted)
    assert found == [done._replace(repeated=True)]
    assert (await scene.holdings()).waiting == len(set(done.schedule_ids))
    await scene.assert_sound()


@KINDS
@pytest.mark.parametrize("once", [ONCE, None])
@pytest.mark.parametrize("number", [1, 2, 3])
async def test_a_part_whose_reply_was_lost_is_answered_as_it_was_stored(
    scene: Scene, kind: Any, once: Idempotency | None, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = await kind(scene, 2 * PIECE + 1)
    scripts = _CREATE.calls
    lose_reply(monkeypatch, scene, number)
    done = await create(scene, wanted, once)
    assert (_CREATE.calls, done.repeated) == (scripts + 4, False)
    assert len(set(done.schedule_ids)) == len(wanted)
    assert await scene.credits() == CREDITS - len(wanted)
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
    for asked in (wanted, [*await plain(scene, PIECE), *wanted]):
        assert type(await settled(lambda: create(scene, asked))) is TooManyLanes  # noqa: B023
        assert (await scene.holdings()).waiting == 0
    assert len((await create(scene, wanted[:PIECE])).schedule_ids) == PIECE


@pytest.mark.parametrize("paid", [0, 1, PIECE, PIECE + 1])
async def test_the_credits_reach_for_the_first_ones(scene: Scene, paid: int) -> None:
    await scene.store.accounts.grant(scene.account_id, paid - CREDITS)
    wanted = await plain(scene, 2 * PIECE + 1)
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
    wanted, found = await plain(scene, 2 * PIECE), list[CreateResult]()

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
