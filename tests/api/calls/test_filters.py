"""Lists, the log and calls of many, of those in a lane, with a reference, with a label or
of a recurring schedule. Which texts are filters: test_query.py."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.ids import new_recurring_id
from scheduler.models import Occurrence, Request
from scheduler.times import format_iso8601
from tests.api.conftest import URL, Api, bad_fields
from tests.api.letters import BROKEN

SLOT = 1_795_161_600_000
RULE, OTHER = (new_recurring_id(SLOT + n) for n in (1, 2))
LABELS = ({"labels": ("a", "b c")}, {"labels": ("b c",)}, {"labels": ("A", "b", "c", "b cd")})
LANES, REFERENCES = ({"lane": "a"}, {"lane": "b"}), ({"reference": "o-1"}, {"reference": "o-2"})
OF_RULE = ({"recurring": Occurrence(RULE, SLOT)}, {"recurring": Occurrence(RULE)})
OF_OTHER = {"recurring": Occurrence(OTHER, SLOT)}


async def stored(api: Api, *fields: dict[str, Any], in_ms: int = 3_600_000) -> list[str]:
    due_ms = api.store.clock.now_ms() + in_ms
    requests = [Request(due_ms + n, "GET", URL, **each) for n, each in enumerate(fields)]
    return list((await api.store.schedules.create_all(api.account_id, requests)).schedule_ids)


def ids(found: list[dict[str, Any]]) -> list[str]:
    return [each["scheduleId"] for each in found]


@pytest.mark.parametrize(
    ("name", "text", "fields", "others"),
    [
        ("lane", "a", [LANES[0]] * 2, [LANES[1], {}]),
        ("reference", "o-1", [REFERENCES[0]], [REFERENCES[1], {}]),
        ("reference", "o-*", REFERENCES, [{"reference": "other"}, {}]),
        ("label", "b c", LABELS[:2], [LABELS[2], {}]),
        ("recurringId", RULE, OF_RULE, [OF_OTHER, {}]),
    ],
    ids=["a lane", "a reference", "how references begin", "a label", "a recurring schedule"],
)
async def test_all_that_lists_or_acts_on_many_goes_by_it(
    api: Api, name: str, text: str, fields: list[dict[str, Any]], others: list[dict[str, Any]]
) -> None:
    query, by_id = {name: text}, {name: text, "limit": 1}
    wanted, left = await stored(api, *fields), await stored(api, *others)
    assert ids(await api.listed(**by_id)) == wanted
    assert ids(await api.listed(**query, status="scheduled,completed")) == wanted[::-1]
    logged = (await api.client.get("/stats/logs", params=query)).json()["logs"]
    assert sorted(ids(logged)) == wanted
    body = {"status": "scheduled", **query}
    cancelled = (await api.client.post("/schedule/cancel", json=body)).json()["schedules"]
    assert ids(cancelled) == wanted
    assert (await api.listed(**query), ids(await api.listed())) == ([], left)
    wanted = await stored(api, *fields, in_ms=-1000)
    left = await stored(api, *others, in_ms=-1000)
    await api.execute(BROKEN)
    assert sorted(ids(await api.listed(**by_id, status="failed"))) == wanted
    logged = (await api.client.get("/stats/logs", params=query | {"status": "failed"})).json()
    assert sorted(ids(logged["logs"])) == wanted
    body = {"status": "failed", **query}
    replayed = (await api.client.post("/schedule/replay", json=body)).json()["schedules"]
    assert sorted(each["replayOf"] for each in replayed) == wanted
    assert await api.listed(**query, status="failed") == []
    assert sorted(ids(await api.listed(status="failed"))) == left
    again = await api.read(replayed[0]["scheduleId"])
    assert (again["recurringId"], again["slot"]) == (RULE if name == "recurringId" else None, None)


async def test_an_occurrence_says_of_which_rule_and_time(api: Api) -> None:
    shown = [await api.read(each) for each in await stored(api, *OF_RULE, {})]
    found = [(each["recurringId"], each["slot"]) for each in shown]
    assert found == [(RULE, format_iso8601(SLOT)), (RULE, None), (None, None)]


async def test_what_keeps_due_ones_from_starting_is_shown_and_finds_them(api: Api) -> None:
    [held, other] = await stored(api, *LANES, in_ms=-1000)
    await api.store.workers.beat("a worker", {"pid": 1})
    until = format_iso8601(api.store.clock.now_ms() + 3_600_000)
    paused = {"paused": True, "pausedUntil": until}
    assert (await api.client.patch("/lanes/a", json=paused)).status_code == 200
    by_pause = {"cause": "lane_paused", "lane": "a", "until": until, "estimated": False, "ahead": 0}
    changed = await api.client.patch(f"/schedule/{held}", json={"reference": "x"})
    for shown in (await api.read(held), changed.json(), *await api.listed(held="true")):
        assert (shown["scheduleId"], shown["status"]) == (held, "scheduled")
        assert shown["heldBy"] == by_pause
    assert [each["heldBy"] for each in await api.listed()] == [by_pause, None]
    assert ids(await api.listed(held="true", reference="*")) == [held]
    assert ids(await api.listed(held="false")) == [other]
    assert (await api.read(other))["heldBy"] is None
    body = {"status": "scheduled", "held": True}
    cancelled = (await api.client.post("/schedule/cancel", json=body)).json()
    assert ids(cancelled["schedules"]) == [held]


@pytest.mark.parametrize("query", [{"held": "1"}, {"held": "true", "status": "failed,scheduled"}])
async def test_only_what_waits_can_be_held(api: Api, query: dict[str, str]) -> None:
    refused = [
        await api.client.get("/schedule", params=query),
        await api.client.post("/schedule/replay", json={"status": "failed", "held": True}),
        await api.client.post("/schedule/cancel", json={"status": "scheduled", "held": "true"}),
    ]
    for each in refused:
        assert bad_fields(each) == ["held"]
