"""Searches of an account with something of every kind: the log and each list find by every filter,
in both orders and on pages of any size, what a plain search of all that is there finds."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import pytest

from scheduler import ids
from scheduler.errors import InvalidRequest
from scheduler.models import LogEntry, LogStatus, Occurrence, Schedule, Status
from scheduler.store.lifecycle.end.end_rows import Ack
from scheduler.store.log.logs import LogQuery
from scheduler.store.queries.listing import Selection
from scheduler.store.queries.referred import encode_member
from tests.store.lifecycle.end.dead_letters import new_ids, replay
from tests.store.log.chunks import URLS
from tests.store.scene import COMPLETED, FAILED, Scene, ids_of

pytestmark = [pytest.mark.sound, pytest.mark.usefixtures("endless_searches")]
LANES = (None, None, "a", "a:1", "b")
# Names that are near to one another in the order of bytes, or begin alike.
NAMES = ("a", "a!", "a*b", "aa", "ab", "b", "order-1", "order-10", "order-2", "~" * 128)
RULES = ["rec_01h455vb4pex5vsknk084sn02q", "rec_01h455vb4pex5vsknk084sn12q"]
LABELS = ((), (), (), ("a",), ("a", "b c"), ("A", "b", "c"))
OCCURRENCES = (None, None, *map(Occurrence, RULES))
FILTERS: list[dict[str, str]] = [
    {},
    *({"url": each} for each in (*URLS, "https://example.com/none")),
    *({"lane": each} for each in ("a", "a:1", "b", "none")),
    *({"reference": each} for each in (*NAMES, "none")),
    *({"reference": each + "*"} for each in ("", "a", "a!", "order-", "order-1", "none")),
    *({"recurring_id": each} for each in (*RULES, ids.new_recurring_id(1))),
    *({"label": each} for each in ("a", "b c", "A", "none")),
    {"label": "a", "lane": "b"},
    {"label": "a", "url": URLS[0]},
    {"label": "b c", "reference": "order-*"},
    {"lane": "a", "reference": "a*"},
    {"lane": "b", "url": URLS[0]},
    {"recurring_id": RULES[0], "reference": "order-*"},
    {"recurring_id": RULES[1], "lane": "a"},
]
OF_THE_LOG: list[dict[str, str]] = [
    *({"url_part": each} for each in ("EXAMPLE.org", "org/a", "none")),
    *({"answer": each} for each in ("503", FAILED.error_message, "200", "none")),
]
FATES = ("completed", "failed", "failed", "retried", "held")


async def lived(scene: Scene, chance: random.Random) -> tuple[dict[str, Schedule], list[str]]:
    """Schedules of every fate, some recorded in one call and some in one millisecond; and the names
    of those that were retried."""
    await scene.store.accounts.grant(scene.account_id, 200)
    made, retried = list[str](), list[str]()
    for _ in range(12):
        for _ in range(6):
            fields = {"url": chance.choice(URLS), "lane": chance.choice(LANES)}
            fields |= {"reference": chance.choice((None, *NAMES)), "body": b'{"url": "org/a"}'}
            fields |= {"labels": chance.choice(LABELS)}
            due_in_ms, occurrence = (
                chance.choice((-9, -9, 60_000, 60_001)),
                chance.choice(OCCURRENCES),
            )
            made.append(await scene.create(due_in_ms, recurring=occurrence, **fields))
        acks, due_ms = list[Ack](), await scene.clock.now_ms() + 60_000
        for each in await scene.claim():
            if (fate := chance.choice(FATES)) == "retried":
                retried.append(each.schedule_id)
                acks.append(Ack(each, FAILED, 0, due_ms))
            elif fate != "held":
                acks.append(Ack(each, FAILED if fate == "failed" else COMPLETED, 0))
        assert set(await scene.store.ends.ack(scene.shard, acks)) <= {1}
        await scene.cancel_all(chance.sample(made, 4))
        made += new_ids(await replay(scene, chance.sample(made, 3), due_ms=2**41))
        await scene.clock.pass_ms(chance.choice((0, 0, 3)))
    return {each: await scene.get(each) for each in made}, retried


def moment(each: Schedule) -> int:
    return each.due_at_ms if each.ended_at_ms is None else each.ended_at_ms


def is_meant(one: Any, wanted: dict[str, str]) -> bool:
    """A request, or an entry of the log."""
    for name, value in wanted.items():
        if name == "url_part":
            fits = value.lower() in one.url.lower()
        elif name == "answer":
            said = (str(one.status_code), one.error_message)
            fits = one.status is not LogStatus.SCHEDULED and value in said
        elif name == "reference" and value.endswith("*"):
            fits = one.reference is not None and one.reference.startswith(value[:-1])
        elif name == "label":
            fits = value in one.labels
        else:
            fits = getattr(one, name) == value
        if not fits:
            return False
    return True


class Period:
    """Begins and ends at moments of something, or just behind, or not at all."""

    def __init__(self, chance: random.Random, moments: list[int]) -> None:
        bounds = [
            chance.choice([None, chance.choice(moments) + chance.choice([0, 1])]) for _ in "ab"
        ]
        self.asked = dict(zip(("from_ms", "to_ms"), bounds, strict=True))

    def has(self, at_ms: int) -> bool:
        from_ms, to_ms = self.asked.values()
        return (from_ms is None or at_ms >= from_ms) and (to_ms is None or at_ms < to_ms)


@pytest.mark.time_passes
async def test_the_log(scene: Scene) -> None:
    chance = random.Random(7)
    made, retried = await lived(scene, chance)
    everything = await scene.log()
    moments = [each.at_ms for each in everything]
    assert moments == sorted(moments, reverse=True)
    attempts = [each.schedule_id for each in everything if each.status is LogStatus.RETRYING]
    assert sorted(attempts) == sorted(retried)
    last = [each for each in everything if each.status is not LogStatus.RETRYING]
    assert len(last) == len(made)
    assert {each.schedule_id: (each.status, each.at_ms) for each in last} == {
        name: (each.status, moment(each)) for name, each in made.items()
    }
    several = ((), ("completed", "failed"), ("scheduled", "retrying", "cancelled"), [*Status])
    for statuses in (*several, *((each,) for each in LogStatus)):
        for n, wanted in enumerate([*FILTERS, *OF_THE_LOG]):
            period = Period(chance, moments)

            def meant(each: LogEntry) -> bool:
                fits = not statuses or each.status in statuses  # noqa: B023
                return fits and is_meant(each, wanted) and period.has(each.at_ms)  # noqa: B023

            expected = [each for each in everything if meant(each)]
            asked = {"statuses": statuses, **wanted, **period.asked}
            limit, down = ((100, True), (4, False), (100, False), (1, True))[n % 4]
            found = await scene.log(**asked, limit=limit, descending=down)
            assert found == (expected if down else expected[::-1]), asked


@pytest.mark.parametrize("ended", [False, True])
async def test_a_cursor_of_another_reference_is_refused(scene: Scene, ended: bool) -> None:
    for name in ("a", "a", "b"):
        await scene.create(reference=name)
    await scene.ack(await scene.claim() if ended else [], FAILED)
    source = scene.store.failed if ended else scene.store.unended
    page = await source.page(scene.account_id, Selection(limit=1, reference="a"))
    names_no_schedule = encode_member(b"b\0x")
    for cursor in (page.next_cursor, names_no_schedule, "x", "YQ", "é", ""):
        with pytest.raises(InvalidRequest):
            await source.page(scene.account_id, Selection(cursor=cursor, reference="b*"))


@pytest.mark.parametrize("name", ["unended", "kept", "failed"])
async def test_a_list(scene: Scene, name: str) -> None:
    """Those of a reference come by it and by their ids, others by their moments. What is held
    stands where it was due."""
    chance, source = random.Random(3), getattr(scene.store, name)
    made, _ = await lived(scene, chance)
    moments = [moment(each) for each in made.values()]
    several = ([*Status], [Status.SCHEDULED], [Status.COMPLETED, Status.FAILED], [Status.CANCELLED])
    for wanted in FILTERS * 2:
        period, held = Period(chance, moments), name != "unended" or chance.random() < 0.5
        statuses = {"unended": [Status.SCHEDULED], "failed": [Status.FAILED]}.get(name)
        statuses = statuses or chance.choice(several)
        expected = {
            each.schedule_id: each
            for each in made.values()
            if each.status in statuses and is_meant(each.request, wanted)
            if period.has(moment(each)) and (held or not each.executing)
            if name != "failed" or each.replayed_as is None
        }

        def place(each: Schedule) -> tuple[object, str]:
            if name == "kept":
                return moment(each), ""
            referred = "reference" in wanted  # noqa: B023
            return each.request.reference if referred else moment(each), each.schedule_id

        asked = [statuses] if name == "kept" else []
        more: dict[str, Any] = {**wanted, **period.asked, "executing": held}
        whole = await scene.listed(source, *asked, **more)
        assert (len(whole), {each.schedule_id: each for each in whole}) == (len(expected), expected)
        assert whole == sorted(whole, key=place)
        for limit, down in ((1, False), (3, True)):
            found = await scene.listed(source, *asked, limit=limit, descending=down, **more)
            assert found == (whole[::-1] if down else whole), more


async def page_of(scene: Scene, source: str, down: bool, cursor: str | None) -> tuple[Any, Any]:
    if source in ("the log", "what waits"):
        statuses = (LogStatus.SCHEDULED,) if source == "what waits" else ()
        query = LogQuery(statuses, limit=7, descending=down, cursor=cursor)
        entries = await scene.store.logs.page(scene.account_id, query)
        return entries.entries, entries.next_cursor
    wanted = Selection(limit=4, cursor=cursor)
    if source == "what ended":
        call = partial(scene.store.kept.page, scene.account_id, [Status.COMPLETED], wanted)
    else:
        by_name = wanted._replace(reference="r-*")
        call = partial(scene.store.unended.page, scene.account_id, by_name)
    page = await call(descending=down)
    return page.schedules, page.next_cursor


@pytest.mark.harmed
@pytest.mark.parametrize("down", [True, False], ids=["desc", "asc"])
@pytest.mark.parametrize("source", ["the log", "what waits", "what ended", "a reference"])
async def test_what_stays_is_listed_once_whatever_comes_and_goes(
    scene: Scene, source: str, down: bool
) -> None:
    """Between two pages others come, end and go: the one that the cursor stands on, too."""
    await scene.store.accounts.grant(scene.account_id, 200)
    chance, due_ms = random.Random(11), await scene.clock.now_ms() + 60_000
    if source == "what ended":
        made = [await scene.run() for _ in range(30)]
    else:
        made = [await scene.create_at(due_ms + n // 4, reference=f"r-{n:02}") for n in range(60)]
    stays, found, cursor = set(made), list[str](), None
    while not found or cursor is not None:
        some, cursor = await page_of(scene, source, down, cursor)
        found += ids_of(some)
        for each in {*found[-1:], *chance.sample(sorted(stays), 1)} & stays:
            stays.discard(each)
            if source == "what ended":
                await scene.redis.delete(scene.key(each))
            else:
                await scene.cancel(each)
        await scene.create_at(due_ms + chance.randrange(20), reference="r-")
        await scene.run()
    assert len(made) > len(stays) > len(made) / 3
    left = [each for each in made if each in stays]
    order = [each for each in found if each in stays]
    assert order == (left[::-1] if down else left)
