"""Schedules that are occurrences of a recurring one: how they are shown and found."""

from __future__ import annotations

import time
from typing import Any

import pytest

from scheduler.ids import new_recurring_id
from scheduler.models import Occurrence, Outcome, Request, Status
from scheduler.times import format_iso8601
from tests.api.conftest import URL, Api, bad_fields

SLOT = 1_795_161_600_000
RULE, OTHER = (new_recurring_id(SLOT + n) for n in (1, 2))


async def stored(api: Api, *occurrences: Occurrence | None, due: bool = False) -> list[str]:
    now_ms = time.time_ns() // 1_000_000
    at_ms = now_ms + (-1000 if due else 3_600_000)
    requests = [Request(at_ms, "GET", URL, recurring=each) for each in occurrences]
    created = await api.store.schedules.create_all(api.account_id, requests, None, now_ms)
    return list(created.schedule_ids)


async def test_an_occurrence_says_of_which_rule_and_time(api: Api) -> None:
    ids = await stored(api, Occurrence(RULE, SLOT), Occurrence(RULE), None)
    shown = [await api.read(schedule_id) for schedule_id in ids]
    found = [(each["recurringId"], each["slot"]) for each in shown]
    assert found == [(RULE, format_iso8601(SLOT)), (RULE, None), (None, None)]


@pytest.mark.parametrize("query", [{}, {"status": "scheduled,completed"}])
async def test_lists_find_the_occurrences_of_a_rule(api: Api, query: dict[str, Any]) -> None:
    ids = await stored(api, Occurrence(RULE, SLOT), Occurrence(OTHER, SLOT), None)
    found = await api.listed(recurringId=RULE, **query)
    assert [each["scheduleId"] for each in found] == ids[:1]
    assert len(await api.listed(**query)) == 3


async def test_the_log_finds_them_too(api: Api) -> None:
    await stored(api, Occurrence(RULE, SLOT), Occurrence(OTHER, SLOT), None, due=True)
    await api.execute(Outcome(Status.COMPLETED, 200, 5, ""))
    answer = await api.client.get("/stats/logs", params={"recurringId": RULE})
    [entry] = answer.json()["logs"]
    assert (entry["recurringId"], entry["missed"], entry["status"]) == (RULE, 0, "completed")


async def test_many_are_cancelled_by_their_rule(api: Api) -> None:
    ids = await stored(api, Occurrence(RULE, SLOT), Occurrence(OTHER, SLOT), None)
    body = {"status": "scheduled", "recurringId": RULE}
    answer = await api.client.post("/schedule/cancel", json=body)
    assert [each["scheduleId"] for each in answer.json()["schedules"]] == ids[:1]
    assert len(await api.listed()) == 2


async def test_failed_ones_are_replayed_by_their_rule(api: Api) -> None:
    ids = await stored(api, Occurrence(RULE, SLOT), Occurrence(OTHER, SLOT), due=True)
    await api.execute(Outcome(Status.FAILED, 500, 5, "Internal Server Error"))
    body = {"status": "failed", "recurringId": RULE}
    answer = await api.client.post("/schedule/replay", json=body)
    [replayed] = answer.json()["schedules"]
    assert replayed["replayOf"] == ids[0]
    shown = await api.read(replayed["scheduleId"])
    assert (shown["recurringId"], shown["slot"]) == (RULE, None)


@pytest.mark.parametrize("path", ["/schedule", "/stats/logs"])
async def test_only_an_id_of_a_rule_is_searched_for(api: Api, path: str) -> None:
    for text in ("report", "sch_" + RULE[4:], RULE.upper(), ""):
        answer = await api.client.get(path, params={"recurringId": text})
        assert bad_fields(answer) == ["recurringId"]


async def test_a_cursor_is_of_one_rule(api: Api) -> None:
    await stored(api, Occurrence(RULE, SLOT), Occurrence(RULE, SLOT + 1))
    query = {"recurringId": RULE, "limit": 1}
    cursor = (await api.client.get("/schedule", params=query)).json()["nextCursor"]
    assert cursor is not None
    query |= {"recurringId": OTHER, "cursor": cursor}
    assert bad_fields(await api.client.get("/schedule", params=query)) == ["cursor"]
