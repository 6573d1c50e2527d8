"""The log and lists of one recurring schedule: its occurrences among those of others, and the times
that it missed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler import ids
from scheduler.errors import Unreadable
from scheduler.models import LogStatus, Occurrence, Request, Status
from scheduler.store.log.entries import (
    entry,
    pack_chunk,
    recurring_place,
    skipped_entry,
    skipped_places,
    unpack_chunk,
)
from scheduler.store.queries.listing import Selection
from scheduler.store.server import scripts
from tests.store.scene import FAILED, URL, Scene, new_id

pytestmark = pytest.mark.sound
RULES = ["rec_01h455vb4pex5vsknk084sn02q", "rec_01h455vb4pex5vsknk084sn12q"]
MISSED_MS, WHY = 1_900_000_000_000, "Insufficient credits"
_APPEND = """
--@include shared/now
--@include log/append
local places = {unpack(ARGV, 2)}
append(KEYS[1], read_log(KEYS[1], 1, ARGV[1], nil), ARGV[1], 1, places, 100000000, 1000)
"""


async def skip(scene: Scene, rule: str, missed: int) -> None:
    """So many times that a rule missed, as a script notes them."""
    request = Request(0, "PUT", URL, lane="a", reference="x")
    chunk = pack_chunk([skipped_entry(rule, request, MISSED_MS, missed, WHY)])
    source = scripts._CONSTANT.sub(scripts._spelt, scripts._with_includes(_APPEND, set()))
    await scene.redis.eval(source, 1, scene.base, chunk, *skipped_places(rule, request))


async def played(scene: Scene) -> dict[str, list[str]]:
    """Occurrences of two rules and what is of none: fired, retried, cancelled, waiting."""
    made: dict[str, list[str]] = {}
    rules = [*RULES, ""]
    for rule in rules:
        occurrence = {"recurring": Occurrence(rule, 1)} if rule else {}
        more = [await scene.create(reference=name, **occurrence) for name in (None, "x")]
        more.append(await scene.create(lane="a", **occurrence))
        made[rule] = more
    claimed = await scene.claim()
    assert len(claimed) == 9
    await scene.ack(claimed[:5])
    await scene.retry(claimed[5:], 60_000)
    for rule in rules:
        occurrence = {"recurring": Occurrence(rule)} if rule else {}
        made[rule].append(await scene.create(60_000, **occurrence))
        await scene.cancel(made[rule][-1])
        made[rule].append(await scene.create(60_000, **occurrence))
    return made


@pytest.mark.parametrize("limit", [1, 2, 50])
@pytest.mark.parametrize("down", [False, True], ids=["asc", "desc"])
async def test_the_log_of_a_rule_has_its_occurrences(scene: Scene, limit: int, down: bool) -> None:
    made = await played(scene)
    everything = await scene.log(descending=down, limit=50)
    assert {each.recurring_id for each in everything} == {*RULES, None}
    for rule in RULES:
        found = await scene.log(recurring_id=rule, descending=down, limit=limit)
        assert found == [each for each in everything if each.recurring_id == rule]
        assert {each.schedule_id for each in found} == set(made[rule])
        retrying = await scene.log(
            recurring_id=rule, statuses=(LogStatus.RETRYING,), descending=down, limit=limit
        )
        assert retrying == [each for each in found if each.status is LogStatus.RETRYING]
        one = await scene.log(recurring_id=rule, reference="x", descending=down, limit=limit)
        assert {each.schedule_id for each in one} == {made[rule][1]}
    assert not await scene.log(recurring_id=ids.new_recurring_id(1), limit=limit)


async def test_rules_that_share_an_index_are_told_apart(scene: Scene) -> None:
    assert recurring_place(RULES[0])[0] == recurring_place(RULES[1])[0] == "r2q"
    assert recurring_place(RULES[0]) != recurring_place(RULES[1])


@pytest.mark.parametrize("limit", [1, 50])
async def test_lists_find_what_is_of_a_rule(scene: Scene, limit: int) -> None:
    made = await played(scene)
    for rule in RULES:
        selected = Selection(recurring_id=rule, limit=limit)
        assert selected.searches
        for page_of, statuses in ((scene.store.unended, ()), (scene.store.kept, ([*Status],))):
            cursor, found = None, set[str]()
            while True:
                asked = selected._replace(cursor=cursor)
                page = await page_of.page(scene.account_id, *statuses, asked)
                found |= {each.schedule_id for each in page.schedules}
                cursor = page.next_cursor
                if cursor is None:
                    break
            wanted = set(made[rule])
            if not statuses:
                waits = {Status.SCHEDULED}
                wanted = {each for each in wanted if await scene.status(each) in waits}
            assert found == wanted
        one = Selection(recurring_id=rule, reference="x", limit=limit)
        kept = await scene.store.kept.page(scene.account_id, [*Status], one)
        assert [each.schedule_id for each in kept.schedules] == made[rule][1:2]
    done = await scene.store.canceller.waiting(scene.account_id, Selection(recurring_id=RULES[0]))
    assert {each.schedule_id for each in done.each} <= set(made[RULES[0]])
    assert not await scene.log(recurring_id=RULES[0], statuses=(LogStatus.SCHEDULED,))
    assert await scene.log(recurring_id=RULES[1], statuses=(LogStatus.SCHEDULED,))


async def test_missed_times_are_one_entry_and_in_no_statistics(scene: Scene) -> None:
    await scene.run(recurring=Occurrence(RULES[0], 1))
    await skip(scene, RULES[0], 7)
    await skip(scene, RULES[1], 1)
    until_ms = await scene.clock.now_ms() + 1
    assert (await scene.store.stats.usage(scene.account_id, 0, until_ms)).executed == 1
    [found] = await scene.log(recurring_id=RULES[0], statuses=(LogStatus.SKIPPED,))
    assert (found.schedule_id, found.executed_at_ms, found.status_code) == ("", None, 0)
    assert (found.scheduled_at_ms, found.missed, found.attempt) == (MISSED_MS, 7, 0)
    assert (found.lane, found.reference, found.error_message) == ("a", "x", WHY)
    assert (found.url, found.method, found.created_at_ms) == (URL, "PUT", found.at_ms)
    for named in ({"statuses": (LogStatus.SKIPPED,)}, {"lane": "a"}, {"reference": "x"}):
        some = await scene.log(**named)
        assert [each.recurring_id for each in some] == RULES[::-1]
    assert len(await scene.log(url=URL)) == 3


@pytest.mark.parametrize(
    ("stored", "place"),
    [
        pytest.param("u" * 26, -2, id="rule"),
        pytest.param("nothing", 0, id="schedule"),
        pytest.param(1, 4, id="status"),  # only what was skipped has no schedule
    ],
)
def test_a_damaged_entry_is_refused(stored: Any, place: int) -> None:
    request = Request(1, "POST", URL)
    fields = [*skipped_entry(RULES[0], request, MISSED_MS, 3)]
    assert len(unpack_chunk(pack_chunk([tuple(fields)]))) == 1
    fields[place] = stored
    with pytest.raises(Unreadable):
        unpack_chunk(pack_chunk([tuple(fields)]))


def test_an_entry_of_no_rule_has_not_a_byte_more() -> None:
    request, name = Request(1, "POST", URL), new_id()
    assert len(entry(name, request, FAILED)) == 9
    assert len(entry(name, request, None)) == 5
    laned = msgspec.structs.replace(request, lane="a")
    assert len(entry(name, laned, FAILED)) == 15
    assert len(entry(name, laned, None)) == 15
    occurrence = msgspec.structs.replace(request, recurring=Occurrence(RULES[0]))
    assert entry(name, occurrence, None)[-3:] == (None, None, ids.local(RULES[0]))
    assert len(entry(name, occurrence, FAILED)) == 16
