"""The field `reference`, and filters by it."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.models import Outcome, Status
from tests.api.conftest import Api, past

NAMES = ("order-1", "order-2", "other")
NO_REFERENCE = "It must have 1 to 128 visible ASCII characters, no space, and no * at its end."
NO_FILTER = "It must be a reference, or how references begin and a * behind that."


async def create_three(api: Api) -> list[str]:
    return [await api.create_id(reference=name) for name in NAMES]


def names_of(found: list[dict[str, Any]]) -> list[str]:
    return [each["reference"] for each in found]


@pytest.mark.parametrize("reference", ["", " ", "a b", "a*", "*", "é", "\x7f", "a\n", "a" * 129])
async def test_what_can_be_no_reference_is_refused(api: Api, reference: str) -> None:
    answer = await api.create(reference=reference)
    assert answer.status_code == 400
    assert answer.json()["details"] == [{"field": "reference", "message": NO_REFERENCE}]
    await api.holds(credits=1000, waiting=set())


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("order-1", ["order-1"]),
        ("order-*", ["order-1", "order-2"]),
        ("o*", list(NAMES)),
        ("*", list(NAMES)),
        ("order", []),
    ],
)
async def test_lists_and_cancels_go_by_reference(api: Api, wanted: str, found: list[str]) -> None:
    await create_three(api)
    await api.create_id()
    assert names_of(await api.listed(reference=wanted, limit=1)) == found
    assert names_of(await api.listed(reference=wanted, order="desc")) == found[::-1]
    logged = await api.client.get("/stats/logs", params={"reference": wanted})
    assert sorted(names_of(logged.json()["logs"])) == found
    body = {"status": "scheduled", "reference": wanted}
    cancelled = (await api.client.post("/schedule/cancel", json=body)).json()
    assert [each["status"] for each in cancelled["schedules"]] == ["cancelled"] * len(found)
    logged = await api.client.get("/stats/logs", params={"reference": wanted})
    assert {each["status"] for each in logged.json()["logs"]} <= {"cancelled"}
    assert sorted(names_of(logged.json()["logs"])) == found
    assert await api.listed(reference=wanted) == []
    assert len(await api.listed()) == 4 - len(found)


async def test_dead_letters_are_found_and_replayed_by_reference(api: Api) -> None:
    for name in NAMES[::-1]:
        await api.create_id(reference=name, triggerAt=past())
    await api.execute(Outcome(Status.FAILED, 500, 1, "no"))
    failed = await api.listed(status="failed", reference="order-*", limit=1)
    assert names_of(failed) == ["order-1", "order-2"]
    failed = await api.listed(status="failed", reference="order-*", order="desc")
    assert names_of(failed) == ["order-2", "order-1"]
    body = {"status": "failed", "reference": "order-2"}
    replayed = (await api.client.post("/schedule/replay", json=body)).json()["schedules"]
    assert len(replayed) == 1
    assert (await api.read(replayed[0]["scheduleId"]))["reference"] == "order-2"
    assert names_of(await api.listed(status="failed", reference="order-*")) == ["order-1"]


@pytest.mark.parametrize("wanted", ["", "a b", "é", "a" * 130])
async def test_a_filter_that_names_no_reference_is_refused(api: Api, wanted: str) -> None:
    details = [{"field": "reference", "message": NO_FILTER}]
    for path in ("/schedule", "/stats/logs"):
        answer = await api.client.get(path, params={"reference": wanted})
        assert (answer.status_code, answer.json()["details"]) == (400, details)
    body = {"status": "scheduled", "reference": wanted}
    answer = await api.client.post("/schedule/cancel", json=body)
    assert (answer.status_code, answer.json()["details"]) == (400, details)


@pytest.mark.parametrize("path", ["/schedule", "/stats/logs"])
async def test_a_cursor_goes_with_its_reference(api: Api, path: str) -> None:
    await create_three(api)
    answer = await api.client.get(path, params={"reference": "order-*", "limit": 1})
    cursor = answer.json()["nextCursor"]
    for other in ({}, {"reference": "order-1"}):
        answer = await api.client.get(path, params={"cursor": cursor, **other})
        assert answer.status_code == 400
