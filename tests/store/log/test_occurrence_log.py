"""The log and lists of one recurring schedule: its occurrences among those of others, and the times
that it missed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler import ids
from scheduler.errors import Unreadable
from scheduler.models import LogStatus, Occurrence, Request
from scheduler.store.log.entries import (
    entry,
    pack_chunk,
    recurring_place,
    skipped_entry,
    skipped_places,
    unpack_chunk,
)
from scheduler.store.server import scripts
from tests.store.queries.test_searches import RULES
from tests.store.scene import FAILED, URL, Scene, new_id

pytestmark = pytest.mark.sound
MISSED_MS, WHY = 1_900_000_000_000, "Insufficient credits"
_APPEND = """
--@include shared/now
--@include log/append
local places = {unpack(ARGV, 2)}
append(KEYS[1], read_log(KEYS[1], 1, ARGV[1], nil), ARGV[1], 1, places, 100000000, 1000)
"""


async def skip(scene: Scene, rule: str, missed: int) -> None:
    """So many times that a rule missed, as a script notes them."""
    request = Request(0, "PUT", URL, lane="a", reference="x", labels=("b", "c"))
    chunk = pack_chunk([skipped_entry(rule, request, MISSED_MS, missed, WHY)])
    source = scripts._CONSTANT.sub(scripts._spelt, scripts._with_includes(_APPEND, set()))
    await scene.redis.eval(source, 1, scene.base, chunk, *skipped_places(rule, request))


async def test_rules_that_share_an_index_are_told_apart(scene: Scene) -> None:
    assert recurring_place(RULES[0])[0] == recurring_place(RULES[1])[0] == "r2q"
    assert recurring_place(RULES[0]) != recurring_place(RULES[1])


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
    assert found.labels == ("b", "c")
    assert (found.url, found.method, found.created_at_ms) == (URL, "PUT", found.at_ms)
    skipped: dict[str, Any] = {"statuses": (LogStatus.SKIPPED,)}
    for named in (skipped, {"lane": "a"}, {"label": "c"}, {"reference": "x"}):
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


def test_an_entry_of_no_rule_and_no_label_has_not_a_byte_more() -> None:
    request, name = Request(1, "POST", URL), new_id()
    assert len(entry(name, request, FAILED)) == 9
    assert len(entry(name, request, None)) == 5
    laned = msgspec.structs.replace(request, lane="a")
    assert len(entry(name, laned, FAILED)) == 15
    assert len(entry(name, laned, None)) == 15
    occurrence = msgspec.structs.replace(request, recurring=Occurrence(RULES[0]))
    assert entry(name, occurrence, None)[-3:] == (None, None, ids.local(RULES[0]))
    assert len(entry(name, occurrence, FAILED)) == 16
    for each in (request, laned, occurrence):
        labelled = msgspec.structs.replace(each, labels=("a", "b c"))
        names = (None, each.lane, each.recurring and ids.local(RULES[0]), 0, labelled.labels)
        assert [entry(name, labelled, end)[13:] for end in (FAILED, None)] == [names] * 2
