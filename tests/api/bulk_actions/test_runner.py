"""Bulk actions, a step at a time: how far each comes, and that everything happens once, whoever
dies in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from unittest.mock import AsyncMock

import pytest
from msgspec.structs import replace

from api.bulk_actions import acts, runner
from api.bulk_actions.runner import BulkRunner
from api.dashboard.requests import bulk_strip
from api.schema.payload import Change
from api.schema.rules import Rules
from scheduler.errors import (
    FieldError,
    InvalidRequest,
    NotFound,
    OutcomeUnknown,
    StoreFull,
    StoreUnavailable,
    Unreadable,
)
from scheduler.lane_settings import LaneSettings, Pause
from scheduler.lanes import MOST_LANES
from scheduler.models import Invocation, LogStatus, Outcome, Request, Schedule, Status, Upsert
from scheduler.recurrence.recurrence import Timing
from scheduler.recurrence.recurring import Draft, Rule
from scheduler.runtime.settings import Settings
from scheduler.store import keys, scans
from scheduler.store.bulk import bulks, records
from scheduler.store.bulk.records import OF_A_RULE, Asked, Bulk, Kind, Progress, State, packed_ids
from scheduler.store.lifecycle.create import creator
from scheduler.store.lifecycle.end.end_rows import Ack
from scheduler.store.log.logs import LogQuery
from scheduler.store.queries import reading
from scheduler.store.stored import NOTE_BYTES
from tests.api.conftest import URL, Api
from tests.support.plain import redis_of
from tests.support.waiting import until_async

FAILED = Outcome(Status.FAILED, 503, 12, "Service Unavailable")
COMPLETED = Outcome(Status.COMPLETED, 200, 12, "")
ACTION = "abcdefghijklmnop"
HOUR_MS = 3_600_000


class Bulks:
    """An account's bulk actions and two runners, as of two processes."""

    def __init__(self, api: Api, settings: Settings) -> None:
        self.api, self.store, self.account_id = api, api.store, api.account_id
        self.runner, self.other = (BulkRunner(api.store, Rules.of(settings)) for _ in range(2))
        self.redis, self.base = redis_of(api.store), keys.account(api.account_id)
        shard, self.local = keys.parts(api.account_id)
        self.due = keys.shard(shard) + keys.BULK_DUE

    def key(self, action_id: str) -> str:
        return self.base + keys.BULK + action_id

    async def waiting(
        self, count: int, due_in_ms: int = HOUR_MS, lane: str | None = None
    ) -> list[str]:
        due_ms = self.store.clock.now_ms() + due_in_ms
        requests = [Request(due_ms + n, "POST", URL, lane=lane) for n in range(count)]
        return (await self.store.schedules.create_all(self.account_id, requests)).schedule_ids

    async def rule(self) -> Rule:
        """One whose next time is in two days at the earliest."""
        day_ms = 24 * HOUR_MS
        timing = Timing(every_ms=day_ms, starts_at_ms=self.store.clock.now_ms() + 2 * day_ms)
        draft = Draft(Request(0, "POST", URL), timing)
        return (await self.store.recurring.create(self.account_id, draft)).rule

    async def failed(self, count: int) -> list[str]:
        made = await self.waiting(count, -1000 - count)
        await self.api.execute(FAILED)
        return made

    async def ask(self, kind: Kind, chosen: list[str] | None, **more: Any) -> str:
        """Of the chosen ones, or of all that failed, or wait."""
        now_ms = self.store.clock.now_ms()
        status = LogStatus.FAILED if kind is Kind.AGAIN else LogStatus.SCHEDULED
        given = {
            "schedules": None if chosen is None else packed_ids(chosen),
            "query": {"statuses": [status]} if chosen is None else {},
            "until_ms": now_ms,
        } | more
        asked = Asked(kind=kind, by="a test", at_ms=now_ms, pairs={}, **given)
        action_id = f"{len(await self.store.bulks.all(self.account_id)):016}"
        assert await self.store.bulks.add(self.account_id, action_id, asked)
        return action_id

    async def one(self, action_id: str) -> Bulk:
        return {each.action_id: each for each in await self.store.bulks.all(self.account_id)}[
            action_id
        ]

    async def read(self, schedule_id: str) -> Schedule:
        return await self.store.schedules.get(self.account_id, schedule_id)

    async def lanes(self, schedule_ids: list[str]) -> list[str | None]:
        return [(await self.read(each)).request.lane for each in schedule_ids]

    async def due_ms(self, schedule_ids: list[str]) -> list[int]:
        return [(await self.read(each)).request.trigger_at_ms for each in schedule_ids]

    async def made_by(self, action_id: str) -> list[str]:
        """The replays that it lists."""
        groups = await self.store.bulks.groups(self.account_id, action_id, 0, 9)
        return sorted(name for group in groups for name in group.schedule_ids)

    async def wait_ms(self) -> float:
        """Until the account is looked at again."""
        return float(await self.redis.zscore(self.due, self.local)) - self.store.clock.now_ms()

    async def are_due(self, count: int) -> None:
        """The process's idea of the store's clock is behind by as long as a reply takes."""

        async def has_come() -> bool:
            await self.store.tick()
            return len(await self.store.bulks.due()) == count

        await until_async(has_come, "actions to be due")

    async def at_once(self) -> None:
        """Nobody has a lease, and nothing waits for its turn."""
        for each in await self.store.bulks.all(self.account_id):
            if each.is_due:
                await self.redis.hset(self.key(each.action_id), "n", 1)
        await self.redis.zadd(self.due, {self.local: 1}, xx=True)

    async def step(self, runner: BulkRunner | None = None) -> bool:
        await self.at_once()
        return await (runner or self.runner).step(self.account_id)

    async def acted(self, action_id: str, most: int = 50) -> Bulk:
        """After so many steps as it takes."""
        for _ in range(most):
            if not (await self.one(action_id)).state.is_under_way:
                break
            await self.step()
        return await self.one(action_id)


@pytest.fixture
async def by(api: Api, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bulks]:
    for room in (records, runner):
        monkeypatch.setattr(room, "STEP", 2)
    yield Bulks(api, settings)
    assert await api.store.check() == []


class Dies(Exception):
    """The process is no more."""


def dying(call: Callable[..., Awaitable[Any]], at: Callable[..., bool]) -> AsyncMock:
    """The same call; the process dies before it if `at` says so of its arguments."""

    async def called(*given: Any, **more: Any) -> Any:
        if at(*given):
            raise Dies
        return await call(*given, **more)

    return AsyncMock(side_effect=called)


def has_acted(account_id: str, bulk: Bulk, progress: Progress, *more: object) -> bool:
    """Whether a note is the one of what came of a step, and not that of its plan."""
    return not progress.plan


async def test_what_is_chosen_is_cancelled_a_step_at_a_time(by: Bulks) -> None:
    made = await by.waiting(5)
    action = await by.ask(Kind.CANCEL, [*made[:3], "sch_" + "0" * 26])
    assert (await by.step(), (await by.one(action)).progress.done) == (True, 2)
    done = await by.acted(action)
    assert (done.state, done.progress.done, done.is_due) == (State.DONE, 3, False)
    assert done.progress.refused == {"There is no such schedule": 1}
    await by.api.holds(credits=1000 - 2, waiting=set(made[3:]))
    assert not await by.step(), "it is never due again"


@pytest.mark.parametrize("kind", Kind)
async def test_a_process_dies_after_each_step_it_noted_and_another_does_the_same_once(
    by: Bulks, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It dies with the plan noted, before it has acted and after; the one that goes on acts on the
    same ones, though others match by then."""
    made = await (by.waiting(4, lane="a") if kind.is_of_waiting else by.failed(4))
    await by.redis.hset(by.base + keys.CALLBACK, mapping={"url": URL, "on": "executed"})
    before = await by.due_ms(made)
    spent = await by.api.credits()
    action = await by.ask(kind, made, shift_ms=HOUR_MS if kind is Kind.MOVE else None)
    for _ in range(2):
        with monkeypatch.context() as patched:
            patched.setattr(by.store.bulks, "note", dying(by.store.bulks.note, has_acted))
            with pytest.raises(Dies):
                await by.step()
        planned = (await by.one(action)).progress.plan
        assert planned, "another one knows what was begun"
        await by.step(by.other)
    done = await by.acted(action)
    assert (done.state, done.progress.done, done.progress.refused) == (State.DONE, 4, {})
    now = [await by.read(each) for each in made]
    match kind:
        case Kind.CANCEL:
            assert {each.status for each in now} == {Status.CANCELLED}
            assert await by.api.credits() == spent + 4
        case Kind.AGAIN:
            assert await by.api.credits() == spent - 4
            assert len({each.replayed_as for each in now}) == 4
            assert await by.made_by(action) == sorted(str(each.replayed_as) for each in now)
        case Kind.MOVE:
            assert await by.due_ms(made) == [at_ms + HOUR_MS for at_ms in before]
        case Kind.LANE:
            assert await by.lanes(made) == [None] * 4
        case Kind.CALLBACK:
            assert {each.callback and each.callback.status for each in now} == {"pending"}
            assert sorted(each.schedule_id for each in await by.api.claim()) == sorted(made)


async def test_what_a_lane_holds_is_moved_to_a_paused_one_and_waits_there(by: Bulks) -> None:
    """Those that are due keep their place in time; all that match are those of the lane."""
    await by.store.lanes.put(by.account_id, "a", LaneSettings(rate=1, per_ms=24 * HOUR_MS))
    held = await by.waiting(3, -5000, "a")
    coming, other = await by.waiting(2, lane="a"), await by.waiting(1, lane="b")
    before = await by.due_ms([*held, *coming])
    await by.store.lanes.change(
        by.account_id, "c", lambda lane: replace(lane, pause=Pause("a test"))
    )
    query = {"statuses": [LogStatus.SCHEDULED], "lane": "a"}
    done = await by.acted(await by.ask(Kind.LANE, None, query=query, lane="c"))
    assert (done.state, done.progress.done, done.progress.refused) == (State.DONE, 5, {})
    assert await by.lanes([*held, *coming, *other]) == ["c"] * 5 + ["b"]
    assert await by.due_ms([*held, *coming]) == before
    found = await by.store.lanes.read(by.account_id, "c")
    assert (found.waiting, found.due) == (5, 3)
    assert await by.api.claim() == []


async def test_a_move_to_a_lane_leaves_alone_what_changed_meanwhile(
    by: Bulks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One is cancelled, one is replaced by its reference, a worker holds one; an occurrence that
    was ticked moves, and its rule stays; a lane that was cleared is a lane without limits."""
    monkeypatch.setattr(records, "STEP", 9)
    rule = await by.rule()
    cancelled, kept = await by.waiting(2, lane="a")
    [fired] = await by.waiting(1, -5000)
    request = Request(by.store.clock.now_ms() + HOUR_MS, "POST", URL, lane="a", reference="order")
    upsert = Upsert(request, keep=False)
    [referred] = (await by.store.schedules.create_all(by.account_id, [upsert])).schedule_ids
    carry_out = by.runner._acts.carry_out

    async def meanwhile(*given: Any) -> Any:
        await by.store.canceller.cancel(by.account_id, cancelled)
        await by.api.claim()
        anew = Upsert(replace(request, url=f"{URL}/anew"), keep=False)
        await by.store.schedules.create_all(by.account_id, [anew])
        await by.store.lanes.clear(by.account_id, "a")
        return await carry_out(*given)

    monkeypatch.setattr(by.runner._acts, "carry_out", meanwhile)
    chosen = [str(rule.schedule_id), cancelled, kept, fired, referred]
    done = await by.acted(await by.ask(Kind.LANE, chosen, lane="b"))
    assert (done.state, done.progress.done) == (State.DONE, 3)
    assert sum(done.progress.refused.values()) == 2
    assert await by.lanes([str(rule.schedule_id), kept, referred]) == ["b", "b", "b"]
    assert (await by.read(referred)).request.url == f"{URL}/anew"
    again = await by.store.recurring.read(by.account_id, rule.recurring_id)
    assert again.request.lane is None


async def test_no_more_lanes_come_of_a_move_than_an_account_may_have(by: Bulks) -> None:
    made = await by.waiting(2)
    names = {f"lane-{n}": 0 for n in range(MOST_LANES)}
    await by.redis.zadd(by.base + keys.LANES, names)
    done = await by.acted(await by.ask(Kind.LANE, made, lane="another"))
    assert (done.state, done.progress.done) == (State.DONE, 0)
    [(reason, count)] = done.progress.refused.items()
    assert (count, "10,000 lanes already" in reason) == (2, True)
    assert "2 not: the account has 10,000 lanes already" in bulk_strip.strip_of(done).words
    await by.redis.zrem(by.base + keys.LANES, *names)


async def test_callbacks_beyond_the_rate_are_sent_again_later(by: Bulks) -> None:
    """A step keeps them in its plan, and is stopped only once they are sent."""
    made = await by.failed(3)
    await by.redis.hset(by.base + keys.CALLBACK, mapping={"url": URL, "on": "executed"})
    action = await by.ask(Kind.CALLBACK, [*made[:1], "sch_" + "0" * 26, *made[1:]])
    await by.redis.set(by.base + keys.RESENDS, 2**52)
    await by.step()
    assert await by.wait_ms() > 0
    waits = (await by.one(action)).progress
    assert (waits.done, [*waits.refused.values()], len(waits.plan) > 0) == (0, [1], True)
    assert waits.waits == "Callbacks are sent again at 25 a second"
    await by.store.bulks.stop(by.account_id, action)
    await by.step()
    assert (await by.one(action)).state is State.STOPPING
    await by.redis.delete(by.base + keys.RESENDS)
    done = await by.acted(action)
    assert (done.state, done.progress.done, done.progress.waits) == (State.STOPPED, 1, "")


async def test_beside_callbacks_that_are_sent_again_one_finds_room(by: Bulks) -> None:
    made = await by.failed(60)
    await by.redis.hset(by.base + keys.CALLBACK, mapping={"url": URL, "on": "executed"})
    action = await by.ask(Kind.CALLBACK, made[1:])
    await by.step()
    assert 0 < (await by.one(action)).progress.done < 59
    state = await by.store.callbacks.resend(by.account_id, made[0])
    assert state.status == "pending"


async def test_a_move_that_was_made_long_ago_is_not_made_twice(
    by: Bulks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store forgets the operation after an hour; the time was fixed with the plan."""
    moved = await by.waiting(1)
    [due_ms] = await by.due_ms(moved)
    action = await by.ask(Kind.MOVE, moved, shift_ms=HOUR_MS)
    with monkeypatch.context() as patched:
        patched.setattr(by.store.bulks, "note", dying(by.store.bulks.note, has_acted))
        with pytest.raises(Dies):
            await by.step()
    for name in await by.redis.keys(by.base + keys.OPERATION + "*"):
        await by.redis.delete(name)
    await by.step(by.other)
    assert await by.due_ms(moved) == [due_ms + HOUR_MS]
    assert (await by.one(action)).progress.done == 1


async def test_two_processes_take_no_turn_together(by: Bulks) -> None:
    await by.ask(Kind.CANCEL, await by.waiting(3))
    await by.at_once()
    await by.ask(Kind.CANCEL, await by.waiting(1))
    bulk = await by.store.bulks.take(by.account_id)
    assert bulk is not None
    assert not await by.other.step(by.account_id)
    # One that comes back after its lease has ended notes nothing over the other.
    await by.step(by.other)
    late = Progress(done=99)
    assert await by.store.bulks.note(by.account_id, bulk, late, State.DONE, None) is None
    assert (await by.one(bulk.action_id)).progress.done == 2


async def test_all_that_match_are_those_of_the_moment_of_the_press(by: Bulks) -> None:
    before = await by.waiting(5)
    action = await by.ask(Kind.CANCEL, None)
    await by.step()
    await until_async(lambda: _has_passed(by), "another millisecond")
    later = await by.waiting(3, HOUR_MS // 2)
    done = await by.acted(action)
    assert (done.state, done.progress.done) == (State.DONE, 5)
    assert {each["scheduleId"] for each in await by.api.listed()} == set(later)
    assert not set(before) & set(later)


async def _has_passed(by: Bulks) -> bool:
    await by.store.tick()
    [found] = await by.store.bulks.all(by.account_id)
    return by.store.clock.now_ms() > found.asked.until_ms


async def test_a_replay_that_fails_again_is_not_run_again(by: Bulks) -> None:
    await by.failed(3)
    await by.store.tick()
    action = await by.ask(Kind.AGAIN, None)
    await until_async(lambda: _has_passed(by), "another millisecond")
    for _ in range(20):
        await by.step()
        if await by.api.listed():
            await by.api.execute(FAILED)
    done = await by.one(action)
    assert (done.state, done.progress.done, done.progress.made) == (State.DONE, 3, 3)
    assert (done.progress.ended, done.is_due) == ((0, 3, 0), False)


async def test_a_stopped_one_finishes_its_step_and_no_more(by: Bulks) -> None:
    action = await by.ask(Kind.CANCEL, await by.waiting(6))
    await by.step()
    for _ in range(2):
        await by.store.bulks.stop(by.account_id, action)
    assert (await by.one(action)).state is State.STOPPING
    done = await by.acted(action)
    assert (done.state, done.progress.done, done.is_due) == (State.STOPPED, 2, False)
    await by.store.bulks.stop(by.account_id, action)
    assert (await by.one(action)).state is State.STOPPED
    with pytest.raises(NotFound):
        await by.store.bulks.stop(by.account_id, ACTION)


async def test_one_that_is_stopped_within_a_step_counts_that_step(
    by: Bulks, monkeypatch: pytest.MonkeyPatch
) -> None:
    action = await by.ask(Kind.CANCEL, await by.waiting(6))
    cancel = by.store.canceller.by_id

    async def stopped_meanwhile(*given: Any) -> Any:
        await by.store.bulks.stop(by.account_id, action)
        return await cancel(*given)

    monkeypatch.setattr(by.store.canceller, "by_id", stopped_meanwhile)
    done = await by.acted(action)
    assert (done.state, done.progress.done) == (State.STOPPED, 2)


async def test_when_the_credits_run_out_it_ends_and_says_so(by: Bulks) -> None:
    made = await by.failed(7)
    for name, more in (("credits", -990), ("spent", 990)):
        await by.redis.hincrby(by.base + keys.ACCOUNT, name, more)
    action = await by.ask(Kind.AGAIN, made)
    done = await by.acted(action)
    assert await by.api.credits() == 0
    assert (done.state, done.progress.done) == (State.FAILED, 3)
    assert (done.progress.why, done.progress.refused) == (
        "The credits ran out",
        {"Insufficient credits": 1},
    )
    assert done.is_due, "its replays have not ended"


async def test_a_full_store_is_waited_for(by: Bulks, monkeypatch: pytest.MonkeyPatch) -> None:
    action = await by.ask(Kind.AGAIN, await by.failed(2))
    full = AsyncMock(side_effect=StoreFull("The store is full"))
    with monkeypatch.context() as patched:
        patched.setattr(by.store.schedules, "replay_all", full)
        await by.step()
    waits = await by.one(action)
    assert (waits.progress.waits, waits.state) == ("The store is full", State.RUNNING)
    done = await by.acted(action)
    assert (done.progress.done, done.progress.waits, done.state) == (2, "", State.DONE)


async def test_a_store_that_is_away_is_tried_again_after_the_lease(
    by: Bulks, monkeypatch: pytest.MonkeyPatch
) -> None:
    action = await by.ask(Kind.CANCEL, await by.waiting(2))
    away = AsyncMock(side_effect=OutcomeUnknown("The store's answer was lost"))
    with monkeypatch.context() as patched:
        patched.setattr(by.store.canceller, "by_id", away)
        await by.are_due(1)
        assert await by.runner.round(), "no error ends the runner"
    assert not await by.runner.step(by.account_id), "the lease lasts"
    assert (await by.acted(action)).progress.done == 2


async def test_a_suspended_account_waits_and_a_deleted_one_is_forgotten(by: Bulks) -> None:
    action = await by.ask(Kind.CANCEL, await by.waiting(1))
    await by.store.changes.suspend(by.account_id)
    assert not await by.step()
    assert (await by.one(action)).progress.done == 0
    await by.store.changes.resume(by.account_id)
    assert (await by.acted(action)).progress.done == 1
    async with by.api.another() as other:
        shard, local = keys.parts(other.account_id)
        due = keys.shard(shard) + keys.BULK_DUE
        await by.redis.zadd(due, {local: 1})
        await by.store.changes.delete(other.account_id)
        await by.runner.round()
        assert await by.redis.zscore(due, local) is None


async def test_several_actions_of_an_account_take_turns(by: Bulks) -> None:
    made = await by.waiting(8)
    first, second = [await by.ask(Kind.CANCEL, some) for some in (made[:4], made[4:])]
    for _ in range(2):
        await by.redis.zadd(by.due, {by.local: 1})
        assert await by.runner.step(by.account_id)
    assert [(await by.one(each)).progress.done for each in (first, second)] == [2, 2]


async def test_the_oldest_that_is_done_gives_way_and_one_under_way_does_not(
    by: Bulks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulks, "MOST_BULKS", 2)
    made = await by.waiting(4)
    add, asked = by.store.bulks.add, Asked(Kind.CANCEL, "", 1, packed_ids(made[:3]), {}, 1, {})
    assert await add(by.account_id, "a" * 16, asked)
    assert await add(by.account_id, "b" * 16, replace(asked, schedules=packed_ids(made[3:])))
    assert await add(by.account_id, "b" * 16, asked), "a repeat is no other one"
    assert not await add(by.account_id, "c" * 16, asked)
    await by.acted("a" * 16)
    await by.acted("b" * 16)
    assert await add(by.account_id, "c" * 16, asked)
    names = [each.action_id[0] for each in await by.store.bulks.all(by.account_id)]
    assert names == ["c", "b"]
    with pytest.raises(NotFound):
        await add("acc_00_22222222", "a" * 16, asked)


async def test_how_its_replays_end_is_counted_until_all_have(
    by: Bulks, monkeypatch: pytest.MonkeyPatch
) -> None:
    action = await by.ask(Kind.AGAIN, await by.failed(5))
    await by.acted(action)
    assert (await by.one(action)).progress.open == 5
    held = await by.api.claim()
    await by.store.ends.ack(held[0].shard, acks(held[:3], COMPLETED))
    for _ in range(8):
        await by.step()
    some = await by.one(action)
    assert (some.progress.ended, some.progress.open, some.is_due) == ((3, 0, 0), 2, True)
    await by.store.ends.ack(held[0].shard, acks(held[3:4], FAILED))
    last = held[4].schedule_id
    await by.store.ends.ack(held[0].shard, acks(held[4:], COMPLETED))
    statuses = by.store.bulks.statuses

    async def retention_is_over(account_id: str, names: list[str]) -> list[Status | None]:
        found = await statuses(account_id, names)
        return [None if name == last else each for name, each in zip(names, found, strict=True)]

    monkeypatch.setattr(by.store.bulks, "statuses", retention_is_over)
    for _ in range(8):
        await by.step()
    every = await by.one(action)
    assert (every.progress.ended, every.progress.open, every.is_due) == ((3, 1, 1), 0, False)
    assert every.progress.open_from == every.progress.groups


def acks(held: list[Invocation], outcome: Outcome) -> list[Ack]:
    return [Ack(each, outcome, 0) for each in held]


async def test_its_searches_give_way_to_a_page(by: Bulks, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bucket has room for a page's search, and none for the action's; it empties in minutes."""
    monkeypatch.setattr(scans, "SCANS_US_PER_S", 50)
    monkeypatch.setattr(scans, "_BURST_US", 1_000_000_000)
    await by.failed(2)
    action = await by.ask(Kind.AGAIN, None, query={"url_part": "example", "statuses": ["failed"]})
    async with by.store.scans.of(by.account_id, searches=True) as scan:
        scan.us = 20_000
    await by.step()
    waits = await by.one(action)
    assert (waits.progress.waits, waits.progress.done) == (
        "The searches of an account are limited",
        0,
    )
    found = await by.store.logs.page(by.account_id, LogQuery(url_part="example"))
    assert len(found.entries) == 2
    await by.redis.delete(by.base + keys.SCANS)
    assert (await by.acted(action)).progress.done == 2


async def test_large_requests_go_in_several_scripts_and_each_of_them_goes(
    by: Bulks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acts, "_MOST_REPLAYED_BYTES", 1)
    scripts = creator._CREATE.calls
    done = await by.acted(await by.ask(Kind.AGAIN, await by.failed(2)))
    assert (done.progress.done, done.progress.refused) == (2, {})
    assert creator._CREATE.calls == scripts + 1 + 2


async def test_one_that_cannot_be_made_again_keeps_no_other(
    by: Bulks, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = await by.failed(2)
    remake = Change.of_replay

    def refused(self: Change, original: Schedule, now_ms: int) -> Request:
        if original.schedule_id == bad:
            raise InvalidRequest([FieldError("targetUrl", "No such target.")])
        return remake(self, original, now_ms)

    monkeypatch.setattr(Change, "of_replay", refused)
    done = await by.acted(await by.ask(Kind.AGAIN, [bad, good]))
    assert (done.progress.done, done.progress.refused) == (1, {"No such target.": 1})


async def test_an_account_whose_shard_is_away_keeps_no_other_waiting(
    by: Bulks, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with by.api.another() as other:
        made = await other.create_id()
        asked = Asked(Kind.CANCEL, "", 1, packed_ids([made]), {}, 2**40, {})
        await by.store.bulks.add(other.account_id, ACTION, asked)
        await by.ask(Kind.CANCEL, await by.waiting(1))
        take = by.store.bulks.take

        async def away(account_id: str) -> Bulk | None:
            if account_id == by.account_id:
                raise StoreUnavailable("away")
            return await take(account_id)

        monkeypatch.setattr(by.store.bulks, "take", away)
        await by.are_due(2)
        assert await by.runner.round()
        [found] = await by.store.bulks.all(other.account_id)
        assert found.state is State.DONE


@pytest.mark.parametrize("leased", [False, True])
async def test_a_new_one_waits_for_a_step_and_not_for_a_look(by: Bulks, leased: bool) -> None:
    """After two hours, replays that have not ended are looked at once a minute."""
    await watched_for_hours(by)
    await by.at_once()
    assert (await by.store.bulks.take(by.account_id) is not None) if leased else True
    if not leased:
        await by.runner.step(by.account_id)
        assert await by.wait_ms() > 30_000
    action = await by.ask(Kind.CANCEL, await by.waiting(1))
    assert await by.runner.step(by.account_id) is not leased
    assert (await by.one(action)).progress.done == (0 if leased else 1)


async def test_a_stop_waits_for_no_look(by: Bulks) -> None:
    await watched_for_hours(by)
    action = await by.ask(Kind.CANCEL, await by.waiting(4))
    later_ms = by.store.clock.now_ms() + HOUR_MS // 60
    await by.redis.hset(by.key(action), "n", later_ms)
    await by.redis.zadd(by.due, {by.local: later_ms})
    await by.store.bulks.stop(by.account_id, action)
    assert await by.runner.step(by.account_id)
    assert (await by.one(action)).state is State.STOPPED


async def watched_for_hours(by: Bulks) -> None:
    action = await by.ask(Kind.AGAIN, await by.failed(2))
    done = await by.acted(action)
    long_ago = replace(done.progress, made_at_ms=done.progress.made_at_ms - 2 * HOUR_MS)
    await by.redis.hset(by.key(action), "p", records.packed(long_ago))


@pytest.mark.parametrize("forgotten", [False, True])
async def test_a_step_that_is_repeated_counts_what_it_made(
    by: Bulks, forgotten: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first half is stored when the process dies, and then both fit; or the store has forgotten
    the keys of its scripts, as after a day. One that was run again earlier is refused."""
    made = await by.failed(2)
    await by.store.tick()
    action = await by.ask(Kind.AGAIN, made)
    schedules, last = by.store.schedules, 2 if forgotten else 3
    replay_all = dying(schedules.replay_all, lambda *_: replay_all.call_count == last)
    with monkeypatch.context() as patched:
        patched.setattr(schedules, "replay_all", replay_all)
        patched.setattr(by.store.bulks, "note", dying(by.store.bulks.note, has_acted))
        if not forgotten:
            patched.setattr(acts, "_MOST_REPLAYED_BYTES", 1)
        with pytest.raises(Dies):
            await by.step()
    if forgotten:
        for name in await by.redis.keys(by.base + keys.ONCE + "*"):
            weight = NOTE_BYTES + await by.redis.strlen(name)
            hour = await by.redis.pexpiretime(name) // HOUR_MS
            await by.redis.hincrby(by.base + keys.EXPIRING, hour, -weight)
            await by.redis.hincrby(by.base + keys.ACCOUNT, "bytes", -weight)
            await by.redis.delete(name)
    done = await by.acted(action)
    assert (done.progress.done, done.progress.refused, done.progress.made) == (2, {}, 2)
    assert await by.made_by(action) == sorted(
        [str((await by.read(each)).replayed_as) for each in made]
    )
    assert len(await by.api.listed()) == 2
    await by.redis.hdel(by.key(action), "n")
    other = await by.acted(await by.ask(Kind.AGAIN, made))
    assert other.progress.refused == {"The schedule was replayed already": 2}


@pytest.mark.parametrize("damaged", ["its progress", "a group"])
async def test_a_damaged_action_slows_no_other(by: Bulks, damaged: str) -> None:
    first = await by.ask(Kind.AGAIN, await by.failed(2))
    await by.acted(first)
    second = await by.ask(Kind.CANCEL, await by.waiting(1))
    await by.at_once()
    if damaged == "a group":
        await by.redis.lset(by.base + keys.BULK_MADE + first, 0, b"\xc1")
    else:
        await by.redis.hset(by.key(first), "p", b"\xc1")
    with pytest.raises(Unreadable):
        await by.runner.step(by.account_id)
    assert await by.runner.step(by.account_id)
    assert (await by.one(second)).progress.done == 1
    assert await by.wait_ms() > 300_000, "a newer process may be able to read it"
    if damaged == "its progress":
        [found] = await by.store.bulks.all(by.account_id)
        assert (found.action_id, found.state) == (second, State.DONE)


async def test_a_move_keeps_the_time_of_each_however_few_are_read_at_once(
    by: Bulks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "STEP", 5)
    monkeypatch.setattr(reading, "CHUNK", 2)
    made = await by.waiting(5)
    before = await by.due_ms(made)
    done = await by.acted(await by.ask(Kind.MOVE, made, shift_ms=HOUR_MS))
    assert (done.progress.done, await by.due_ms(made)) == (5, [each + HOUR_MS for each in before])


@pytest.mark.parametrize("kind", [Kind.CANCEL, Kind.MOVE, Kind.LANE])
async def test_a_filter_leaves_out_the_next_occurrences(by: Bulks, kind: Kind) -> None:
    """Else an action that cancels would meet their successors, without an end."""
    rules = [await by.rule() for _ in range(3)]
    made = await by.waiting(3)
    how: dict[Kind, dict[str, Any]] = {
        Kind.MOVE: {"shift_ms": HOUR_MS},
        Kind.LANE: {"lane": "a"},
    }
    done = await by.acted(await by.ask(kind, None, **how.get(kind, {})))
    assert (done.state, done.progress.done) == (State.DONE, 3)
    assert done.progress.refused == {OF_A_RULE: 3}
    words = bulk_strip.strip_of(done).words
    assert "3 belong to recurring schedules: pause those instead." in words
    for rule in rules:
        found = await by.read(str(rule.schedule_id))
        assert found.request.trigger_at_ms == rule.slot_ms
        assert found.status is Status.SCHEDULED
    assert ((await by.read(made[0])).status is Status.CANCELLED) is (kind is Kind.CANCEL)


async def test_a_filter_that_names_a_recurring_schedule_means_its_occurrence(by: Bulks) -> None:
    rules = [await by.rule() for _ in range(2)]
    query = {"statuses": [LogStatus.SCHEDULED], "recurring_id": rules[0].recurring_id}
    done = await by.acted(await by.ask(Kind.CANCEL, None, query=query))
    assert (done.progress.done, done.progress.refused) == (1, {})


async def test_it_looks_once_whenever_it_wakes(by: Bulks, monkeypatch: pytest.MonkeyPatch) -> None:
    idle = AsyncMock(return_value=False)
    monkeypatch.setattr(by.runner, "round", idle)
    running = asyncio.create_task(by.runner.run())
    for woken in range(1, 4):
        for _ in range(20):
            await asyncio.sleep(0)
        assert idle.await_count == woken
        by.runner.wake()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize("is_deleted", [False, True])
async def test_a_turn_of_an_account_that_has_none_is_forgotten(
    api: Api, settings: Settings, is_deleted: bool
) -> None:
    """It has nothing to do, or is no more."""
    by = Bulks(api, settings)
    if is_deleted:
        await by.ask(Kind.CANCEL, await by.waiting(1))
        await by.redis.delete(by.base + keys.ACCOUNT)
    await by.redis.zadd(by.due, {by.local: 1})
    assert await by.store.bulks.take(by.account_id) is None
    assert await by.redis.zscore(by.due, by.local) is None
