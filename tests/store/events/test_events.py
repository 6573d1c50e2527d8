"""The streams of events: what is noted in them, how they are bounded and read."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from msgspec.structs import replace

from scheduler.errors import NotFound, OutcomeUnknown, StoreError, StoreUnavailable
from scheduler.events import ACTS, OWN, SERVICE, Event, Kind
from scheduler.lane_settings import Pause
from scheduler.store import Store, keys
from scheduler.store.events.events import _RECORD
from scheduler.store.server.writes import one_call
from tests.store.clocks import FakeClock
from tests.store.scene import Scene
from tests.support.plain import redis_of

LOST_MS, STEP_MS = 10_000, 4000
SAYS = {"host": "box", "pid": 7, "version": "1.0"}


async def told(store: Store, account_id: str = "") -> list[tuple[str, str]]:
    """Kind and subject of all, the oldest first."""
    return [(each.kind, each.about) for each in (await store.events.newest(account_id))[::-1]]


def anything(_: Event) -> bool:
    return True


def test_every_kind_has_one_stream() -> None:
    assert len(SERVICE) + len(ACTS) + len(OWN) == len(Kind)


async def test_a_worker_that_comes_is_lost_comes_back_and_goes_is_noted_once_each(
    fake_store: Store, fake_clock: FakeClock
) -> None:
    workers = fake_store.workers
    for name in ("a", "b", "c"):
        await workers.beat(name, SAYS | {"host": name})
    began_ms = fake_clock.ms
    while fake_clock.ms <= began_ms + LOST_MS + STEP_MS:
        fake_clock.ms += STEP_MS
        for name in ("a", "b"):
            await workers.beat(name, SAYS | {"host": name})
    lost, *_ = await fake_store.events.newest()
    assert (lost.kind, lost.about, lost.since_ms) == (Kind.WORKER_LOST, "c 7, 1.0", began_ms)
    await workers.beat("c", SAYS | {"host": "c"})
    for _ in range(2):
        await workers.leave("c")
    kinds = [kind for kind, about in await told(fake_store) if about == "c 7, 1.0"]
    assert kinds == ["worker-started", "worker-lost", "worker-back", "worker-stopped"]
    assert len(await told(fake_store)) == len(kinds) + 2


async def test_after_an_outage_nobody_seems_lost_to_the_first_that_is_heard_of(
    fake_store: Store, fake_clock: FakeClock
) -> None:
    for _ in range(5):
        for name in ("a", "b"):
            await fake_store.workers.beat(name, SAYS)
        fake_clock.ms += STEP_MS
    fake_clock.ms += 2 * LOST_MS
    for name in ("a", "b"):
        await fake_store.workers.beat(name, SAYS)
    assert {kind for kind, _ in await told(fake_store)} == {"worker-started"}


async def test_a_worker_of_another_version_is_noted_when_it_comes(fake_store: Store) -> None:
    await fake_store.workers.beat("a", SAYS)
    await fake_store.workers.beat("b", SAYS)
    await fake_store.workers.beat("c", SAYS | {"version": "1.1"})
    await fake_store.workers.beat("c", SAYS | {"version": "1.1"})
    kinds = [kind for kind, about in await told(fake_store) if about.endswith("1.1")]
    assert kinds == ["worker-started", "other-version"]


async def test_apis_that_come_and_go_are_no_events(fake_store: Store) -> None:
    await fake_store.apis.beat("a", SAYS)
    await fake_store.apis.leave("a")
    assert await told(fake_store) == []


async def test_processes_that_noticed_one_outage_make_one_event_of_it(fake_store: Store) -> None:
    now_ms = fake_store.clock.now_ms()
    for since_ms in (now_ms - 5000, now_ms - 9000, now_ms - 7000):
        assert await fake_store.events.record(Kind.STORE_AWAY, since_ms=since_ms)
    [event] = await fake_store.events.newest()
    assert event.since_ms == now_ms - 9000


async def test_heartbeats_without_an_answer_are_noted_as_an_outage_by_the_first_that_has_one(
    fake_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> None:
        raise StoreUnavailable("The store is away")

    for unanswered, noted in ((1, 0), (2, 1)):
        with monkeypatch.context() as broken:
            broken.setattr(fake_store.workers, "_beat", away)
            for _ in range(unanswered):
                with pytest.raises(StoreUnavailable):
                    await fake_store.workers.beat("a", SAYS)
        await fake_store.workers.beat("a", SAYS)
        kinds = [kind for kind, _ in await told(fake_store)]
        assert kinds.count("store-away") == noted


async def test_pauses_of_an_account_and_of_a_lane_are_in_its_own_stream_and_in_no_other(
    scene: Scene,
) -> None:
    store, account_id = scene.store, scene.account_id
    for pause in (Pause("alice"), Pause("alice"), None, None):
        for lane in (None, "x"):
            await scene.set(lane, lambda before: replace(before, pause=pause))  # noqa: B023
    await scene.pause("x", by="bob")
    await store.lanes.clear(account_id, "x")
    for _ in range(2):
        await store.changes.suspend(account_id)
    for _ in range(2):
        await store.changes.resume(account_id)
    names = ("account-paused", "account-resumed", "account-suspended", "account-reinstated")
    found = await told(store, account_id)
    assert [kind for kind, _ in found if kind in names] == list(names)
    lanes = [*["lane-paused", "lane-resumed"] * 2, "lane-cleared"]
    assert [each for each in found if each[1]] == [(kind, "x") for kind in lanes]
    whos = [each.who for each in await store.events.newest(account_id) if each.who]
    assert whos == ["bob", "alice", "alice"]
    assert await told(store) == []


async def test_a_pause_is_done_though_its_stream_is_damaged(scene: Scene) -> None:
    await scene.spoil(scene.base + keys.EVENTS)
    assert (await scene.pause()).pause is not None
    assert not await scene.store.events.note(scene.account_id, Kind.BULK)


async def test_an_act_is_noted_before_it_is_done_and_a_refusal_after_it(fake_store: Store) -> None:
    events = fake_store.events
    async with events.act(Kind.GRANT, who="ann", account_id="acc_00_22222222", about="5") as noted:
        assert await told(fake_store) == [("grant", "5")]
    with pytest.raises(NotFound):
        async with events.act(Kind.PLAN, who="ann", about="pro"):
            raise NotFound("There is no such account.")
    done = ("plan", "pro; not done: There is no such account.")
    assert await told(fake_store) == [("grant", "5"), ("plan", "pro"), done]
    assert not noted.lost
    with pytest.raises(NotFound):
        async with events.act(Kind.PLAN, who="ann", about="x" * 300):
            raise NotFound("There is no such account.")
    assert (await events.newest())[0].was_refused, "a long text cuts off that it was not done"


async def test_an_act_that_may_have_been_done_is_not_noted_as_refused(fake_store: Store) -> None:
    events = fake_store.events
    with one_call(), suppress(StoreError):
        async with events.act(Kind.HOLD, who="ann"):
            raise OutcomeUnknown
    with one_call(), suppress(StoreError):
        async with events.act(Kind.HOLD, who="ben"):
            await fake_store.hold.begin()
            raise StoreUnavailable
    assert await told(fake_store) == [("hold", ""), ("hold", "")]
    with one_call(), suppress(StoreError):
        async with events.act(Kind.HOLD, who="eve"):  # its note is no part of the act
            raise StoreUnavailable("away")
    assert (await told(fake_store))[-1] == ("hold", "not done: away")


async def test_an_act_goes_on_where_its_note_is_lost_and_says_so(fake_store: Store) -> None:
    await redis_of(fake_store).set(keys.ACTS, "a foreign value")
    async with fake_store.events.act(Kind.HOLD, who="ann") as noted:
        pass
    assert noted.lost


async def test_each_stream_keeps_the_newest_and_long_texts_are_cut(scene: Scene) -> None:
    events, account_id = scene.store.events, scene.account_id
    for n in range(keys.MOST_OWN_EVENTS + 5):
        await events.note(account_id, Kind.BULK, about=f"{n}" + "x" * 1000)
    found = await events.newest(account_id)
    assert len(found) == keys.MOST_OWN_EVENTS
    assert found[-1].about.startswith("5x")
    assert {len(each.about) for each in found} == {200}


async def test_a_repeat_of_a_note_whose_reply_was_lost_adds_nothing(scene: Scene) -> None:
    arguments = (10, "an operation", 0, "grant", "", "", "5", "", "")
    for _ in range(3):
        await scene.store.server.run(_RECORD, keys.ACTS, arguments)
    assert await scene.redis.xlen(keys.ACTS) == 1


async def test_pages_of_all_streams_skip_and_repeat_nothing(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.store.events.events._CHUNK", 3)
    events, account_id = scene.store.events, scene.account_id
    for n in range(4):
        # The same moment in every stream.
        for key in (keys.ACTS, keys.SERVICE_EVENTS, scene.base + keys.EVENTS):
            kind = {keys.ACTS: "grant", keys.SERVICE_EVENTS: "worker-lost"}.get(key, "bulk")
            await scene.redis.xadd(key, {"k": kind, "t": str(n)}, id=f"{1000 + n // 2}-{n + 1}")
    await scene.redis.xadd(keys.ACTS, {"k": "of a later version"}, id="2000-0")
    found, cursor = list[Event](), None
    for _ in range(20):
        page = await events.page(anything, limit=2, account_id=account_id, cursor=cursor)
        found += page.events
        if (cursor := page.next) is None:
            break
    assert [(each.at_ms, each.about) for each in found] == [
        (1000 + n // 2, str(n)) for n in (3, 2, 1, 0) for _ in range(3)
    ]
    assert len({(each.kind, each.event_id) for each in found}) == 12
    assert {each.account_id for each in found if each.kind is Kind.BULK} == {account_id}
    others = await events.page(anything, limit=50)
    assert {each.kind for each in others.events} == {Kind.GRANT, Kind.WORKER_LOST}
    some = await events.page(anything, limit=50, from_ms=1001, to_ms=1002)
    assert [each.about for each in some.events] == ["3", "3", "2", "2"]


async def test_many_at_once_are_all_noted(fake_store: Store) -> None:
    notes = [fake_store.events.record(Kind.GRANT, about=str(n)) for n in range(30)]
    assert all(await asyncio.gather(*notes))
    assert {about for _, about in await told(fake_store)} == set(map(str, range(30)))


@pytest.mark.parametrize("cursor", ["1", "1-2", "1-2-3-4", "a-b-c", "-1-2-3", "9" * 30 + "-1-0"])
async def test_what_is_no_cursor_is_refused(fake_store: Store, cursor: str) -> None:
    with pytest.raises(ValueError):
        await fake_store.events.page(anything, limit=1, cursor=cursor)
