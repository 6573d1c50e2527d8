"""The log: filters, orders and pages, while it changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from scheduler.errors import TooManyScans
from scheduler.models import LogStatus, Outcome, Request, Status
from scheduler.store import keys
from scheduler.store.log.entries import entry as entry_of
from scheduler.store.log.entries import pack_chunk, url_place
from scheduler.store.log.logs import LogPage, LogQuery
from scheduler.store.queries.listing import Selection
from scheduler.store.queries.reading import CHUNK
from tests.store.scene import Scene, ids_of, new_id, reads_of

URLS = [f"https://example.com/{n}" for n in range(3)]


async def write(
    scene: Scene, entries: Sequence[tuple[int, int, LogStatus | Status, str]]
) -> list[str]:
    """Log entries at given places (ms, sequence), written as acks of one outcome each do."""
    made = []
    async with scene.redis.pipeline(transaction=False) as pipe:
        for ms, sequence, status, url in entries:
            schedule_id = new_id()
            again_ms = ms + 1 if status == LogStatus.RETRYING else None
            outcome = Outcome(Status.FAILED if again_ms else Status(status), 200, 1, "")
            ended = None if status == Status.CANCELLED else outcome
            entry = entry_of(
                schedule_id, Request(ms - 1, "GET", url), ended, next_attempt_at_ms=again_ms
            )
            chunk = pack_chunk([entry])
            stream_id, (bucket, digest) = f"{ms}-{sequence}", url_place(url)
            pipe.xadd(scene.base + "log", {"e": chunk}, id=stream_id)
            pipe.xadd(f"{scene.base}index:{status}", {"h": ""}, id=stream_id)
            pipe.xadd(f"{scene.base}index:{bucket}", {"h": digest}, id=stream_id)
            made.append(schedule_id)
        await pipe.execute()
    return made


async def page_of(scene: Scene, **query: Any) -> LogPage:
    return await scene.store.logs.page(scene.account_id, LogQuery(**query))


@pytest.mark.parametrize("descending", [True, False], ids=["desc", "asc"])
async def test_a_full_page_at_the_very_end_has_no_cursor(scene: Scene, descending: bool) -> None:
    for statuses in ((), *((each,) for each in LogStatus), ("completed", "failed")):
        assert await page_of(scene, statuses=statuses) == LogPage([], None)
    for _ in range(10):
        await scene.run()
    for limit, is_last in ((10, True), (9, False)):
        page = await page_of(scene, limit=limit, descending=descending)
        assert (len(page.entries), page.next_cursor is None) == (limit, is_last)


@pytest.mark.parametrize("query", [{}, {"statuses": [Status.FAILED]}, {"url": URLS[0]}], ids=str)
async def test_an_entry_that_was_trimmed_under_the_cursor_is_no_harm(
    scene: Scene, query: dict[str, Any]
) -> None:
    at_ms = await scene.clock.now_ms() - 1000
    made = await write(scene, [(at_ms + n, 0, Status.FAILED, URLS[0]) for n in range(10)])
    first = await page_of(scene, **query, limit=4, descending=False)
    await scene.redis.xdel(scene.base + "log", f"{at_ms + 3}-0", f"{at_ms + 5}-0")
    cursor = first.next_cursor
    second = await page_of(scene, **query, limit=100, descending=False, cursor=cursor)
    assert ids_of(second.entries) == [made[n] for n in (4, 6, 7, 8, 9)]
    assert len(await scene.log(**query, descending=False)) == 8


@pytest.mark.parametrize(
    "query", [{}, {"statuses": [Status.FAILED, Status.CANCELLED]}, {"url": URLS[0]}], ids=str
)
async def test_no_stream_is_read_backwards_from_before_its_first_entry(
    scene: Scene, query: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers would walk all of it."""
    at_ms = await scene.clock.now_ms() - 1000
    statuses = (Status.CANCELLED, Status.CANCELLED, Status.FAILED, Status.FAILED)
    await write(scene, [(at_ms + n, 0, each, URLS[0]) for n, each in enumerate(statuses)])
    asked = reads_of(scene, monkeypatch)
    for limit in range(1, 5):
        assert len(await scene.log(limit=limit, **query)) == 4
    assert await scene.log(to_ms=at_ms, **query) == []
    starts = [words[1:3] for words in asked if words[0] == "XREVRANGE"]
    assert starts
    for stream, start in starts:
        assert await scene.redis.xrange(stream, "-", start, count=1)


@pytest.mark.parametrize("attempts", [0, 2500])
async def test_what_has_ended_is_found_at_once_among_attempts_that_are_made_again(
    scene: Scene, attempts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_ms, ends = await scene.clock.now_ms() - 100_000, [*Status][1:]
    made = await write(scene, [(at_ms + n, 0, each, URLS[0]) for n, each in enumerate(ends)])
    retrying = [(at_ms + 10 + n, 0, LogStatus.RETRYING, URLS[0]) for n in range(attempts)]
    await write(scene, retrying)
    asked = reads_of(scene, monkeypatch)
    page = await page_of(scene, statuses=[*Status])
    assert (ids_of(page.entries), page.next_cursor) == (made[::-1], None)
    streams = {words[1].removeprefix(scene.base) for words in asked if words[0] == "XREVRANGE"}
    assert streams == ({f"index:{each}" for each in ends} if attempts else {"log"})


@pytest.mark.usefixtures("endless_searches")
async def test_a_rare_kind_comes_in_short_pages_with_a_cursor_to_go_on(scene: Scene) -> None:
    """A page looks at a bounded number of entries, and says where it stopped."""
    start_ms = await scene.clock.now_ms() - 100_000
    twin = _twin(URLS[0])
    [ended] = await write(scene, [(start_ms - 1, 0, Status.COMPLETED, URLS[0])])
    await write(scene, [(start_ms + n, 0, Status.COMPLETED, twin) for n in range(2500)])
    due_ms = await scene.clock.now_ms() + 60_000
    await scene.create_many(2500, due_ms)
    waiting = await scene.create_at(due_ms - 1, url=URLS[2])
    for url, rare in ((URLS[0], ended), (URLS[2], waiting)):
        page = await page_of(scene, url=url)
        assert page.entries == []
        found = ids_of(page.entries)
        while page.next_cursor is not None:
            page = await page_of(scene, url=url, cursor=page.next_cursor)
            found += ids_of(page.entries)
        assert found == [rare]


@pytest.mark.parametrize("kept", [False, True], ids=["log", "list"])
async def test_what_ends_while_a_page_is_read_is_listed_once(
    scene: Scene, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between reading what waits and reading the log, all that waited ends."""
    for _ in range(20):
        await scene.create(-1)
    store, account_id = scene.store, scene.account_id
    owner, name = (store.kept._log, "read") if kept else (store.logs, "_read_ended")
    read = getattr(owner, name)

    async def slowly(*arguments: Any) -> Any:
        await scene.ack(await scene.claim())
        return await read(*arguments)

    monkeypatch.setattr(owner, name, slowly)
    if kept:
        some = (await store.kept.page(account_id, [*Status], Selection(limit=100))).schedules
    else:
        some = (await store.logs.page(account_id, LogQuery(limit=100))).entries
    assert len(some) == len({*ids_of(some)}) == 20
    assert {each.status for each in some} == {Status.COMPLETED}


async def test_entries_ahead_of_a_clock_that_was_set_back_are_listed_among_waiting_ones(
    scene: Scene,
) -> None:
    now_ms = await scene.clock.now_ms()
    waiting = [await scene.create_at(now_ms + 1_800_000 + n) for n in range(5)]
    [ended] = await write(scene, [(now_ms + 3_600_000, 0, Status.COMPLETED, URLS[0])])
    page = await page_of(scene, limit=3)
    assert ids_of(page.entries) == [ended, *waiting[:2:-1]]


async def test_a_reference_is_found_at_once_behind_thousands_that_wait(scene: Scene) -> None:
    """Those of it are looked at, and no others; in the order of the page, from its place on."""
    now_ms = await scene.clock.now_ms()
    await scene.create_many(3_000, now_ms + 1_000)
    last, first, middle = [
        await scene.create(due_in_ms, reference=f"order-{due_in_ms}")
        for due_in_ms in (90_000, 70_000, 80_000)
    ]
    for descending, expected in ((False, [first, middle, last]), (True, [last, middle, first])):
        page = await page_of(scene, reference="order-*", limit=2, descending=descending)
        assert ids_of(page.entries) == expected[:2]
        cursor = page.next_cursor
        page = await page_of(scene, reference="order-*", cursor=cursor, descending=descending)
        assert (ids_of(page.entries), page.next_cursor) == (expected[2:], None)
    page = await page_of(scene, reference="order-*", from_ms=now_ms + 75_000, to_ms=now_ms + 85_000)
    assert ids_of(page.entries) == [middle]


async def test_more_of_a_reference_than_are_read_at_once_are_found_step_by_step(
    scene: Scene,
) -> None:
    due_ms = await scene.clock.now_ms() + 60_000
    requests = [
        Request(due_ms + n, "POST", URLS[0], reference=f"order-{n % 7}") for n in range(CHUNK + 1)
    ]
    made = await scene.store.schedules.create_all(scene.account_id, requests)
    found = await scene.log(reference="order-*", descending=False)
    assert ids_of(found) == made.schedule_ids


async def test_an_entry_is_found_among_thousands_of_its_millisecond_and_they_count(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.store.log.ended._BUDGET", 20)
    at_ms, find = await scene.clock.now_ms() - 1000, scene.store.logs.find
    made = await write(scene, [(at_ms, n, Status.FAILED, URLS[0]) for n in range(500)])
    found = [(await find(scene.account_id, made[n], at_ms)).schedule_id for n in (-1, 470, 270)]
    assert found == [made[n] for n in (-1, 470, 270)]
    await scene.store.server.call("SET", scene.base + keys.SCANS, 2**52)
    assert (await find(scene.account_id, made[-1], at_ms)).schedule_id == made[-1]
    with pytest.raises(TooManyScans):
        await find(scene.account_id, made[270], at_ms)


LONG = "https://example.com/hook"


async def test_of_a_long_url_the_log_has_the_start_and_finds_it_by_the_whole(scene: Scene) -> None:
    alike = [LONG.ljust(600, "a") + tail for tail in ("1", "2")]
    urls = [*alike, LONG.ljust(512, "b"), LONG.ljust(513, "c")]
    for url in urls:
        await scene.run(url=url)
    cancelled = await scene.create(60_000, url=alike[0])
    await scene.cancel(cancelled)
    shown = [url if len(url) <= 512 else url[:511] + "…" for url in urls]
    assert [entry.url for entry in await scene.log(descending=False)] == [*shown, shown[0]]
    for url, is_shown, times in zip(urls, shown, (2, 1, 1, 1), strict=True):
        assert [entry.url for entry in await scene.log(url=url)] == [is_shown] * times
    assert await scene.log(url=LONG.ljust(600, "a") + "3") == []


@pytest.mark.usefixtures("endless_searches")
@pytest.mark.parametrize("descending", [True, False], ids=["desc", "asc"])
@pytest.mark.parametrize("twin", [True, False], ids=["one-index", "two"])
@pytest.mark.parametrize(("every", "few"), [(50, True), (11, True), (4, False), (2, False)])
async def test_chunks_of_a_url_are_read_together_where_they_lie_side_by_side(
    scene: Scene,
    monkeypatch: pytest.MonkeyPatch,
    every: int,
    few: bool,
    twin: bool,
    descending: bool,
) -> None:
    """Every so many chunks are of another URL."""
    start_ms, other = await scene.clock.now_ms() - 100_000, _twin(URLS[0]) if twin else URLS[1]
    urls = [other if n % every == every - 1 else URLS[0] for n in range(40)]
    made = await write(
        scene, [(start_ms + n, 0, Status.COMPLETED, url) for n, url in enumerate(urls)]
    )
    asked = reads_of(scene, monkeypatch)
    page = await page_of(scene, url=URLS[0], descending=descending)
    found = [each for each, url in zip(made, urls, strict=True) if url == URLS[0]]
    assert ids_of(page.entries) == (found[::-1] if descending else found)
    assert page.next_cursor is None
    chunks = [words for words in asked if words[1] == scene.base + keys.LOG]
    assert (len(chunks) == 3) is few


def _twin(url: str) -> str:
    """Another URL in the same index."""
    others = (f"https://example.org/{n}" for n in range(100_000))
    return next(each for each in others if url_place(each)[0] == url_place(url)[0])
