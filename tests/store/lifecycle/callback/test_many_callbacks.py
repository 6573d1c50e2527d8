"""Callbacks in lists by how they stand, and many of them sent again in one call."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from unittest.mock import AsyncMock

import pytest

from scheduler.callbacks import CallbackStatus
from scheduler.errors import OutcomeUnknown, StoreUnavailable, TooManyResends
from scheduler.models import Outcome, Status
from scheduler.store import keys
from scheduler.store.lifecycle.callback.callbacks import CallbackCounts, Resends, Resent
from scheduler.store.log.logs import LogPage, LogQuery
from scheduler.store.queries.listing import SchedulePage, Selection
from tests.store.clocks import FakeClock
from tests.store.scene import COMPLETED, FAILED, OWN, Scene, new_id

DELIVERED, GIVEN_UP, PENDING = (
    CallbackStatus.DELIVERED,
    CallbackStatus.FAILED,
    CallbackStatus.PENDING,
)
EXECUTED = (Status.COMPLETED, Status.FAILED)
FAR_MS = 3_600_000


async def told(
    scene: Scene, callback: Outcome | None, outcome: Outcome = COMPLETED, **fields: object
) -> str:
    """A schedule that has ended so, and its callback so; None: it is put off."""
    made = await scene.run(outcome, **({"callback": OWN} | fields))
    one = await scene.claim_one()
    await scene.answer(one, callback or FAILED, None if callback else FAR_MS)
    await scene.clock.pass_ms(2)
    return made


async def page(
    scene: Scene,
    callback: CallbackStatus,
    statuses: Sequence[Status] = EXECUTED,
    **selected: object,
) -> SchedulePage:
    descending = bool(selected.pop("descending", False))
    return await scene.store.kept.page(
        scene.account_id,
        statuses,
        Selection(**selected),  # type: ignore[arg-type]
        callback=callback,
        descending=descending,
    )


def ids_of(found: SchedulePage) -> list[str]:
    return [each.schedule_id for each in found.schedules]


def came_of(done: Resends) -> list[str]:
    """The status of each callback, or why it was not sent again."""
    return [each.callback.status if each.callback else _reason(each) for each in done.each]


def _reason(resent: Resent) -> str:
    assert resent.refusal is not None
    return resent.refusal.reason


@pytest.mark.sound
async def test_each_list_has_those_that_stand_so(scene: Scene) -> None:
    late = [await told(scene, None) for _ in range(2)]
    failed = [await told(scene, FAILED, each) for each in (COMPLETED, FAILED, COMPLETED)]
    good = [await told(scene, COMPLETED, each) for each in (FAILED, COMPLETED)]
    await scene.run(COMPLETED)  # nothing of it is reported
    for callback, made in ((PENDING, late), (GIVEN_UP, failed), (DELIVERED, good)):
        assert ids_of(await page(scene, callback)) == made
        assert ids_of(await page(scene, callback, descending=True)) == made[::-1]
    assert ids_of(await page(scene, GIVEN_UP, (Status.FAILED,))) == [failed[1]]
    assert ids_of(await page(scene, DELIVERED, (Status.COMPLETED,))) == [good[1]]


async def test_a_list_is_filtered_and_comes_in_pages(fake_scene: Scene) -> None:
    scene, moments, made = fake_scene, list[int](), list[str]()
    for number in range(6):
        lane, reference = "ab"[number % 2], f"order-{number // 2}"
        moments.append(await scene.clock.now_ms())
        made.append(await told(scene, FAILED, lane=lane, reference=reference))
    for chosen, filters in (
        (made[::2], {"lane": "a"}),
        (made[2:4], {"reference": "order-1"}),
        (made, {"reference": "order-*"}),
        (made[1:3], {"from_ms": moments[1], "to_ms": moments[3]}),
    ):
        assert ids_of(await page(scene, GIVEN_UP, **filters)) == chosen
        walked, cursor = list[str](), None
        while True:
            some = await page(scene, GIVEN_UP, **filters, limit=2, cursor=cursor)
            walked, cursor = walked + ids_of(some), some.next_cursor
            if cursor is None:
                break
        assert walked == chosen


async def test_the_list_of_failed_ones_is_bounded(fake_scene: Scene, fake_clock: FakeClock) -> None:
    """In number and in age; a schedule that left it is kept as before, and is sent again as others
    are."""
    scene, callbacks = fake_scene, fake_scene.store.callbacks
    day_ms, week_ms, _ = callbacks._kept
    callbacks._kept = (day_ms, week_ms, 3)
    made = [await told(scene, FAILED) for _ in range(5)]
    assert ids_of(await page(scene, GIVEN_UP)) == made[2:]
    index = scene.base + keys.FAILED_CALLBACKS
    assert week_ms - 60_000 < await scene.redis.pttl(index) <= week_ms
    assert day_ms - 60_000 < await scene.redis.pttl(scene.key(made[0])) <= day_ms
    callbacks._kept = (day_ms, 10_000, 100)
    await fake_clock.pass_ms(6000)
    made += [await told(scene, FAILED)]
    await fake_clock.pass_ms(6000)
    made += [await told(scene, FAILED)]
    assert ids_of(await page(scene, GIVEN_UP)) == made[5:]
    assert came_of(await callbacks.resend_all(scene.account_id, [made[0]])) == ["pending"]


async def test_failed_ones_are_counted_that_can_be_sent_again(
    fake_scene: Scene, fake_clock: FakeClock
) -> None:
    """A schedule that was forgotten is not; a dead letter is kept for longer, and is."""
    scene, callbacks = fake_scene, fake_scene.store.callbacks
    assert await callbacks.counts(scene.account_id) == CallbackCounts()
    began_ms = await fake_clock.now_ms()
    letter, gone = await told(scene, FAILED, FAILED), await told(scene, FAILED)
    await fake_clock.pass_ms(callbacks._kept[0] + 1000)
    await scene.redis.delete(scene.key(gone))
    recent, _ = await told(scene, FAILED), await told(scene, None)
    counts = await callbacks.counts(scene.account_id)
    assert (counts.pending, counts.failed) == (1, 2)
    assert counts.failed_since_ms is not None
    assert began_ms <= counts.failed_since_ms < began_ms + 60_000
    await callbacks.resend_all(scene.account_id, [letter, recent])
    assert await callbacks.counts(scene.account_id) == CallbackCounts(pending=3)


@pytest.mark.parametrize("callback", [GIVEN_UP, PENDING])
async def test_the_log_is_searched_from_the_first_of_a_list_on(
    scene: Scene, callback: CallbackStatus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not through all that has ended before; where the list is empty, not at all."""
    logs, query = scene.store.logs, LogQuery(callback=callback)
    read = AsyncMock(side_effect=logs._ended.read)
    monkeypatch.setattr(logs._ended, "read", read)
    await scene.ended(2, callback=None)
    end = FAILED if callback is GIVEN_UP else None
    assert await logs.page(scene.account_id, query) == LogPage([], None)
    assert not read.called
    made = [await told(scene, end) for _ in range(2)]
    await scene.ended(2, callback=None)
    found = await logs.page(scene.account_id, query)
    assert [each.schedule_id for each in found.entries] == made[::-1]
    assert found.next_cursor is None
    first = await scene.get(made[0])
    assert {each.args[1].end_ms for each in read.await_args_list} == {first.ended_at_ms}


async def test_many_are_sent_again_each_with_its_own_answer(scene: Scene) -> None:
    failed, good = await told(scene, FAILED), await told(scene, COMPLETED, FAILED)
    late, no_url = await told(scene, None), await scene.run(COMPLETED)
    waiting = await scene.create(FAR_MS)
    cancelled = await scene.create(FAR_MS)
    await scene.cancel(cancelled)
    odd, unknown = await told(scene, FAILED), new_id()
    await scene.redis.hset(scene.key(odd), "r", "damaged")
    named = [failed, "no id", late, waiting, cancelled, no_url, odd, unknown, good, failed]
    done = await scene.store.callbacks.resend_all(scene.account_id, named)
    assert [each.schedule_id for each in done.each] == named[:-1]
    assert came_of(done) == [
        *("pending", "unknown_schedule", "callback_pending", "not_ended", "already_ended"),
        *("invalid_field", "damaged", "unknown_schedule", "pending"),
    ]
    index = scene.base + keys.FAILED_CALLBACKS
    assert await scene.redis.zrange(index, 0, -1) == [odd[4:].encode()]
    calls = await scene.claim()
    assert {(each.schedule_id, each.attempt) for each in calls} == {(failed, 1), (good, 1)}
    for call in calls:
        await scene.answer(call, FAILED)
    assert {*ids_of(await page(scene, GIVEN_UP))} == {failed, good}


@pytest.mark.slow
async def test_many_are_due_one_after_the_other(fake_scene: Scene, fake_clock: FakeClock) -> None:
    """50 at once, then 50 a second, for 20 seconds; the rest is refused. One alone has to wait."""
    scene, callbacks = fake_scene, fake_scene.store.callbacks
    failed = [await told(scene, FAILED) for _ in range(20)]
    await scene.ended(1100, callback=None)
    names = await scene.redis.keys(scene.base.replace("{", "\\{") + "[0-7]*")
    made = [f"sch_{name.decode()[-26:]}" for name in names]
    made = [each for each in made if each not in failed]
    await scene.redis.hset(scene.base + keys.CALLBACK, mapping={"url": "", "on": "executed"})
    now_ms = await fake_clock.now_ms()
    done = await callbacks.resend_all(scene.account_id, [*made, new_id()])
    assert came_of(done) == ["pending"] * 1000 + ["rate_limited"] * 101, "the rest is not read"
    states = [each.callback for each in done.each if each.callback is not None]
    due = [(each.next_attempt_at_ms or 0) - now_ms for each in states]
    assert due[:51] == [0] * 50 + [20]
    assert due[-1] == 19_000
    assert {late - early for early, late in itertools.pairwise(due[49:])} == {20}
    with pytest.raises(TooManyResends, match="try again in 1 s"):
        await callbacks.resend_matching(scene.account_id, GIVEN_UP, Selection(limit=1000))
    with pytest.raises(TooManyResends, match="try again in 20 s"):
        await callbacks.resend(scene.account_id, made[-1])
    await fake_clock.pass_ms(200)
    done = await callbacks.resend_matching(scene.account_id, GIVEN_UP, Selection(limit=1000))
    assert [each.schedule_id for each in done.each] == failed[:10]
    assert done.next_cursor is not None
    await fake_clock.pass_ms(5000)
    with pytest.raises(TooManyResends, match="try again in 15 s"):
        await callbacks.resend(scene.account_id, made[-1])
    await fake_clock.pass_ms(FAR_MS)
    assert not await scene.redis.exists(scene.base + keys.RESENDS)
    assert (await callbacks.resend(scene.account_id, made[-1])).status is PENDING


@pytest.mark.sound
@pytest.mark.parametrize("callback", [GIVEN_UP, DELIVERED])
async def test_a_walk_ends_though_each_fails_again(scene: Scene, callback: CallbackStatus) -> None:
    outcome = FAILED if callback is GIVEN_UP else COMPLETED
    made, sent, cursor = [await told(scene, outcome) for _ in range(5)], list[str](), None
    while True:
        selected = Selection(limit=2, cursor=cursor)
        done = await scene.store.callbacks.resend_matching(scene.account_id, callback, selected)
        sent += [each.schedule_id for each in done.each]
        for call in await scene.claim():
            await scene.answer(call, outcome)
        await scene.clock.pass_ms(2)
        if (cursor := done.next_cursor) is None:
            break
    assert sent == made
    assert {*ids_of(await page(scene, callback))} == {*made}


async def test_a_repeat_of_an_operation_sends_nothing_twice(scene: Scene) -> None:
    """It is told what came of each. With others among them it is another operation."""
    failed, waiting = await told(scene, FAILED), await scene.create(FAR_MS)
    resend = scene.store.callbacks.resend_steadily
    for _ in range(2):
        done = await resend(scene.account_id, [failed, waiting], "an operation")
        assert came_of(done) == ["pending", "not_ended"]
    await scene.answer(await scene.claim_one())
    done = await resend(scene.account_id, [failed, waiting], "an operation")
    assert came_of(done) == ["delivered", "not_ended"]
    assert await scene.claim() == []
    done = await resend(scene.account_id, [failed], "an operation")
    assert came_of(done) == ["pending"]


async def test_a_store_that_fails_between_two_steps_leaves_the_outcome_unknown(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [await told(scene, FAILED) for _ in range(3)]
    callbacks, answered = scene.store.callbacks, 0
    write = scene.store.server.write_until_answered

    async def once(*words: object) -> object:
        nonlocal answered
        answered += 1
        if answered % 2 == 0:
            raise StoreUnavailable("away")
        return await write(*words)  # type: ignore[arg-type]

    monkeypatch.setattr("scheduler.store.queries.reading.CHUNK", 2)
    monkeypatch.setattr(scene.store.server, "write_until_answered", once)
    with pytest.raises(OutcomeUnknown):
        await callbacks.resend_all(scene.account_id, made)
    assert ids_of(await page(scene, GIVEN_UP)) == made[2:]


async def test_the_log_finds_one_of_many_ends_by_its_callback(fake_scene: Scene) -> None:
    """A page passes over others that it is not to have; a small one leaves the rest to the next."""
    scene = fake_scene
    made = await told(scene, FAILED, FAILED)
    for _ in range(24):
        await told(scene, COMPLETED)
    found, cursors, cursor = list[str](), 0, None
    while True:
        query = LogQuery(EXECUTED, limit=1, cursor=cursor, callback=GIVEN_UP)  # type: ignore[arg-type]
        one = await scene.store.logs.page(scene.account_id, query)
        found += [each.schedule_id for each in one.entries]
        cursors, cursor = cursors + 1, one.next_cursor
        if cursor is None:
            break
    assert (found, cursors) == ([made], 2)
    with_limit = LogQuery(limit=50, callback=GIVEN_UP, schedule_id=made)
    assert len((await scene.store.logs.page(scene.account_id, with_limit)).entries) == 1
