"""How much of an account's requests may be looked through: what counts, and how much it is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from scheduler.errors import TooManyScans
from scheduler.models import Status
from scheduler.store import keys
from scheduler.store.log.logs import LogQuery
from scheduler.store.queries.listing import Selection
from scheduler.store.scans import SCANS_US_PER_S, Scans
from tests.store.lifecycle.end.dead_letters import due_at
from tests.store.scene import FAILED, URL, Scene, new_id

Call = Callable[[Scene], Awaitable[object]]
OTHER = "https://none.example/"


def logs(query: LogQuery) -> Call:
    return lambda scene: scene.store.logs.page(scene.account_id, query)


def letters(selected: Selection) -> Call:
    return lambda scene: scene.store.failed.page(scene.account_id, selected)


def cancels(selected: Selection) -> Call:
    return lambda scene: scene.store.canceller.waiting(scene.account_id, selected)


def replays(selected: Selection) -> Call:
    return lambda scene: scene.store.schedules.replay_failed(scene.account_id, selected, due_at(1))


def waiting(selected: Selection) -> Call:
    return lambda scene: scene.store.unended.page(scene.account_id, selected)


def kept(selected: Selection) -> Call:
    return lambda scene: scene.store.kept.page(scene.account_id, [*Status], selected)


SEARCHES: dict[str, Call] = {
    "log, URL": logs(LogQuery(url=OTHER)),
    "log, part of a URL": logs(LogQuery(url_part="none")),
    "log, host": logs(LogQuery(host="none")),
    "log, text": logs(LogQuery(text="none")),
    "log, replayable": logs(LogQuery(replayable=True)),
    "log, answer": logs(LogQuery(answer="418")),
    "log, schedule": logs(LogQuery(schedule_id=new_id())),
    "by status, URL": kept(Selection(OTHER)),
    "log, reference": logs(LogQuery(reference="none")),
    "log, references": logs(LogQuery(reference="none*")),
    "waiting, URL": waiting(Selection(OTHER)),
    "dead letters, URL": letters(Selection(OTHER)),
    "cancel, URL": cancels(Selection(OTHER)),
    "replay, URL": replays(Selection(OTHER)),
}
LISTS: dict[str, Call] = {
    "log": logs(LogQuery()),
    "by status": kept(Selection()),
    "waiting": waiting(Selection()),
    "dead letters": letters(Selection()),
}


async def spent_us(scene: Scene) -> int:
    """The count, while time stands still."""
    kept = await scene.redis.get(scene.base + keys.SCANS)
    ahead_us = int(kept or 0) - await scene.clock.now_ms() * 1000
    kept_back = scene.store.logs._scans._kept_back.get(scene.account_id, 0)
    return kept_back + max(0, ahead_us) * SCANS_US_PER_S // 1_000_000


async def spend(scene: Scene, us: int) -> None:
    async with Scans(scene.store.server).of(scene.account_id, searches=True) as scan:
        scan.us = us


async def indebt(scene: Scene) -> None:
    """As deep as can be, and for good."""
    await scene.redis.set(scene.base + keys.SCANS, 2**52)


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
async def test_no_search_begins_in_debt(scene: Scene, search: Call) -> None:
    await search(scene)
    await scene.run(FAILED)
    await scene.create(60_000)
    before = await scene.holdings()
    await indebt(scene)
    with pytest.raises(TooManyScans, match="Too much was searched; try again in 9 s"):
        await search(scene)
    assert await scene.holdings() == before
    other = Scene(scene.store, scene.clock, await scene.account("other"))
    await search(other)


@pytest.mark.parametrize("read", LISTS.values(), ids=LISTS)
async def test_what_lists_all_goes_on(scene: Scene, read: Call) -> None:
    await indebt(scene)
    await read(scene)


@pytest.mark.parametrize(
    ("spent", "wait_ms"), [(1, 0), (50_000, 0), (50_001, 1), (60_000, 200), (150_000, 2000)]
)
async def test_there_is_so_much_a_second_and_a_second_of_it_at_once(
    fake_scene: Scene, spent: int, wait_ms: int
) -> None:
    await spend(fake_scene, spent)
    if wait_ms:
        with pytest.raises(TooManyScans) as refused:
            await spend(fake_scene, 0)
        assert (refused.value.wait_ms, refused.value.wait_s) == (wait_ms, -(-wait_ms // 1000))
    await fake_scene.clock.pass_ms(wait_ms)
    await spend(fake_scene, 0)


async def test_a_clock_that_was_set_back_leaves_no_debt_of_an_hour(fake_scene: Scene) -> None:
    await spend(fake_scene, 10_000)
    await fake_scene.clock.pass_ms(-3_600_000)
    with pytest.raises(TooManyScans) as refused:
        await spend(fake_scene, 0)
    assert refused.value.wait_ms == 9000


@pytest.mark.parametrize(
    ("name", "ended", "least_us", "most_us"),
    [
        ("waiting, URL", False, 2150, 2300),
        ("cancel, URL", False, 2150, 2300),
        ("log, part of a URL", False, 2150, 2300),
        ("dead letters, URL", True, 2150, 2300),
        ("replay, URL", True, 2150, 2300),
        ("log, answer", True, 250, 400),
    ],
)
async def test_what_was_looked_through_counts_found_or_not(
    fake_scene: Scene, name: str, ended: bool, least_us: int, most_us: int
) -> None:
    due_ms = await fake_scene.clock.now_ms() + (-1 if ended else 60_000)
    await fake_scene.create_many(300, due_ms, url=URL)
    while claimed := await fake_scene.claim():
        await fake_scene.ack(claimed, FAILED)
    await SEARCHES[name](fake_scene)
    assert least_us <= await spent_us(fake_scene) <= most_us


async def test_a_search_that_breaks_off_counts(fake_scene: Scene) -> None:
    async def break_off() -> None:
        async with Scans(fake_scene.store.server).of(fake_scene.account_id, searches=True) as scan:
            scan.us = 17_000
            raise LookupError

    with pytest.raises(LookupError):
        await break_off()
    assert 17_000 <= await spent_us(fake_scene) < 17_100


async def test_the_work_of_cheap_searches_is_written_together(
    fake_scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each write would cost the store more than such a search. Few accounts are remembered."""
    monkeypatch.setattr("scheduler.store.scans._MOST_KEPT_BACK", 2)
    scans = fake_scene.store.logs._scans
    others = [await fake_scene.account(name) for name in ("other", "third")]
    for account_id, searches in ((others[0], 4), (others[1], 2), (fake_scene.account_id, 4)):
        for _ in range(searches):
            async with scans.of(account_id, searches=True) as scan:
                scan.us = 2000
    assert scans._kept_back == {others[1]: 4000, fake_scene.account_id: 8000}
    assert not await fake_scene.redis.exists(fake_scene.base + keys.SCANS)
    async with scans.of(fake_scene.account_id, searches=True) as scan:
        scan.us = 2000
    assert scans._kept_back == {others[1]: 4000}
    assert 10_000 <= await spent_us(fake_scene) < 10_100


async def test_an_account_searches_once_at_a_time_and_others_meanwhile(fake_scene: Scene) -> None:
    scans, ended = Scans(fake_scene.store.server), asyncio.Event()
    began: list[str] = []

    async def search(account_id: str) -> None:
        async with scans.of(account_id, searches=True):
            began.append(account_id)
            await ended.wait()

    ours, other = fake_scene.account_id, await fake_scene.account("other")
    searching = [asyncio.create_task(search(each)) for each in (ours, ours, other)]
    while len(began) < 2:
        await asyncio.sleep(0)
    assert sorted(began) == sorted([ours, other])
    ended.set()
    await asyncio.gather(*searching)
    assert sorted(began) == sorted([ours, ours, other])
    assert not scans._turns
