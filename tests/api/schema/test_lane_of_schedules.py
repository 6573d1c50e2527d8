"""The field `lane` of a schedule. What a lane does to schedules is tested elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.lanes import MOST_LANES
from scheduler.models import Outcome, Status
from scheduler.store import keys
from tests.api.conftest import Api, past, payload
from tests.support.plain import redis_of

NO_LANE = (
    "It must have 1 to 64 letters, digits, dots, underscores, colons and hyphens, and begin with a"
    " letter or digit."
)
FAILED = Outcome(Status.FAILED, 500, 1, "no")


@pytest.mark.parametrize("lane", ["", "-a", "_", "a b", "a/b", "a*", "\u00e9", "a\n", "a" * 65])
async def test_what_can_be_no_lane_is_refused(api: Api, lane: str) -> None:
    details = [{"field": "lane", "message": NO_LANE}]
    answer = await api.create(lane=lane)
    assert (answer.status_code, answer.json()["details"]) == (400, details)
    batch = {"schedules": [{"targetUrl": "https://example.com", "delay": 60, "lane": lane}]}
    answer = await api.client.post("/schedule/batch", json=batch)
    [item] = answer.json()["schedules"]
    assert (item["code"], item["details"]) == (400, details)
    await api.holds(credits=1000, waiting=set())


@pytest.mark.parametrize(
    ("given", "lane"), [({}, "one"), ({"lane": "b"}, "b"), ({"lane": None}, None)]
)
async def test_a_replay_keeps_it_unless_it_names_another(
    api: Api, given: dict[str, Any], lane: str | None
) -> None:
    schedule_id = await api.create_id(lane="one", triggerAt=past())
    await api.execute(FAILED)
    assert (await api.read(schedule_id))["lane"] == "one"
    answer = await api.client.post(f"/schedule/{schedule_id}/replay", json=given)
    assert (await api.read(answer.json()["scheduleId"]))["lane"] == lane


@pytest.mark.parametrize(("way", "lane"), [("keep", "one"), ("replace", "two")])
async def test_the_one_that_waits_keeps_its_lane_or_gets_another(
    api: Api, way: str, lane: str
) -> None:
    schedule_id = await api.create_id(lane="one", reference="ours")
    answer = await api.create(lane="two", reference="ours", onExisting=way)
    assert (answer.status_code, answer.json()["scheduleId"]) == (200, schedule_id)
    assert (await api.read(schedule_id))["lane"] == lane


async def test_a_cancelled_one_keeps_it(api: Api) -> None:
    schedule_id = await api.create_id(lane="one", targetBody={"a": 1})
    await api.client.delete(f"/schedule/{schedule_id}")
    assert (await api.read(schedule_id))["lane"] == "one"


async def test_lists_the_log_and_cancels_go_by_lane(api: Api) -> None:
    made = [await api.create_id(lane=lane) for lane in ("a", None, "b", "a")]
    assert [each["scheduleId"] for each in await api.listed(lane="a", limit=1)] == made[::3]
    logged = (await api.client.get("/stats/logs", params={"lane": "b"})).json()["logs"]
    assert [(each["scheduleId"], each["lane"]) for each in logged] == [(made[2], "b")]
    body = {"status": "scheduled", "lane": "a"}
    cancelled = (await api.client.post("/schedule/cancel", json=body)).json()["schedules"]
    assert [each["scheduleId"] for each in cancelled] == made[::3]
    assert [each["scheduleId"] for each in await api.listed()] == made[1:3]


async def test_dead_letters_are_found_and_replayed_by_lane(api: Api) -> None:
    made = [await api.create_id(lane=lane, triggerAt=past()) for lane in ("a", "b")]
    await api.execute(FAILED)
    found = await api.listed(status="failed", lane="b", limit=1)
    assert [each["scheduleId"] for each in found] == made[1:]
    body = {"status": "failed", "lane": "b"}
    replayed = (await api.client.post("/schedule/replay", json=body)).json()["schedules"]
    assert [each["replayOf"] for each in replayed] == made[1:]
    assert [each["lane"] for each in await api.listed(status="failed")] == ["a"]


@pytest.mark.parametrize("path", ["/schedule", "/stats/logs"])
async def test_a_bad_lane_in_a_filter_is_refused_and_a_cursor_goes_with_its_lane(
    api: Api, path: str
) -> None:
    answer = await api.client.get(path, params={"lane": "a*"})
    details = [{"field": "lane", "message": NO_LANE}]
    assert (answer.status_code, answer.json()["details"]) == (400, details)
    for _ in range(2):
        await api.create_id(lane="a")
    answer = await api.client.get(path, params={"lane": "a", "limit": 1})
    cursor = answer.json()["nextCursor"]
    for other in ({}, {"lane": "b"}):
        answer = await api.client.get(path, params={"cursor": cursor, **other})
        assert answer.status_code == 400


async def test_a_lane_too_many_is_a_409_on_every_way_in(api: Api) -> None:
    """And what stays in the lanes that there are goes through."""
    waits = await api.create_id(lane="one", reference="ours")
    failed = await api.create_id(triggerAt=past())
    await api.execute(FAILED)
    lanes = keys.account(api.account_id) + keys.LANES
    await redis_of(api.store).zadd(lanes, {f"{n}": 0 for n in range(MOST_LANES - 1)})
    before = (await api.client.get("/stats/remaining-credits")).json()
    item, post = payload(lane="new"), api.client.post
    replaced = item | {"reference": "ours", "onExisting": "replace"}
    for answer in (
        await post("/schedule", json=item),
        await post("/schedule", json=item, headers={"Idempotency-Key": "a"}),
        await post("/schedule", json=replaced),
        await post("/schedule/batch", json={"schedules": [payload(lane="one"), item]}),
        await api.client.patch(f"/schedule/{waits}", json={"lane": "new"}),
        await post(f"/schedule/{failed}/replay", json={"lane": "new"}),
    ):
        assert (answer.status_code, answer.json()["reason"]) == (409, "too_many_lanes")
        assert "status" not in answer.json()
    answer = await post("/schedule/batch", json={"schedules": [payload(lane="1"), replaced]})
    stored, refused = answer.json()["schedules"]
    assert (refused["code"], refused["reason"]) == (409, "too_many_lanes")
    assert (await api.read(stored["scheduleId"]))["lane"] == "1"
    left = (await api.client.get("/stats/remaining-credits")).json()["creditsRemaining"]
    assert left == before["creditsRemaining"] - 1
    assert (await api.read(waits))["lane"] == "one"
