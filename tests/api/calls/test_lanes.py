"""/lanes, /lanes/{lane} and /account."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from scheduler.lanes import MOST_LANES
from scheduler.store import keys
from tests.api.conftest import Api, bad_fields, past, payload
from tests.api.errors import error_of
from tests.api.letters import BROKEN
from tests.support.plain import redis_of

PAUSED = {"paused": True, "pauseNote": "x"}
LIMITS = {"rate": 10, "per": "1m", "burst": 5, "parallelism": 20, "note": "für B"}
UNSET: dict[str, Any] = dict.fromkeys(
    (*LIMITS, "pausedUntil", "pausedBy", "pauseNote", "calmUntil")
)
UNSET |= dict.fromkeys(("oldestDueAt", "emptyAt")) | {"paused": False, "state": "open"}
UNSET |= dict.fromkeys(("waiting", "due", "running"), 0)


def in_an_hour(hours: float = 1) -> str:
    moment = datetime.now(UTC) + timedelta(hours=hours)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


async def lane(api: Api, name: str = "a") -> dict[str, Any]:
    answer = await api.client.get(f"/lanes/{name}")
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


@pytest.mark.parametrize("name", ["a", "Z9._:-", "x" * 64, "schedule", "lanes", "healthz", "7"])
async def test_a_lane_is_set_read_and_cleared(api: Api, name: str) -> None:
    assert await lane(api, name) == {"lane": name, **UNSET}
    put = await api.client.put(f"/lanes/{name}", json=LIMITS)
    assert put.status_code == 200
    assert put.json() == {"lane": name, **UNSET, **LIMITS} == await lane(api, name)
    put = await api.client.put(f"/lanes/{name}", json={"rate": 1, "per": 90, "burst": None})
    assert put.json() == {"lane": name, **UNSET, "rate": 1, "per": "1m30s", "burst": 1}
    cleared = await api.client.delete(f"/lanes/{name}")
    said = {"lane": name, "waiting": 0, "message": "Cleared; nothing waits in it"}
    assert (cleared.status_code, cleared.json()) == (200, said)
    assert await lane(api, name) == {"lane": name, **UNSET}


async def test_a_deploy_resumes_nothing(api: Api) -> None:
    until = in_an_hour()
    paused = await api.client.patch("/lanes/a", json={"paused": True, "pausedUntil": until})
    assert paused.status_code == 200
    pause = {"paused": True, "pausedUntil": until, "pausedBy": "test", "state": "paused"}
    assert paused.json() == {"lane": "a", **UNSET, **pause}
    assert (await api.client.put("/lanes/a", json=LIMITS)).status_code == 200
    assert await lane(api) == {"lane": "a", **UNSET, **LIMITS, **pause}
    await api.client.patch("/lanes/a", json={"pausedUntil": None})
    assert await lane(api) == {"lane": "a", **UNSET, **LIMITS, **pause, "pausedUntil": None}
    resumed = await api.client.patch("/lanes/a", json={"paused": False})
    assert resumed.json() == {"lane": "a", **UNSET, **LIMITS}


BAD = [
    ({"rate": 5}, ["rate"]),
    ({"per": "1s"}, ["per"]),
    ({"burst": 2}, ["burst"]),
    ({"rate": 5, "per": "1s", "burst": 6}, ["burst"]),
    ({"rate": 0, "per": "1s"}, ["rate"]),
    ({"rate": 100_001, "per": "1s"}, ["rate"]),
    ({"rate": 1.5, "per": "1s"}, ["rate"]),
    ({"rate": 5, "per": "999ms"}, ["per"]),
    ({"rate": 5, "per": "1d1s"}, ["per"]),
    ({"rate": 5, "per": True}, ["per"]),
    ({"burst": 0}, ["burst"]),
    ({"parallelism": 0}, ["parallelism"]),
    ({"parallelism": 10_001}, ["parallelism"]),
    ({"parallelism": "7"}, ["parallelism"]),
    ({"note": "x" * 201}, ["note"]),
    ({"note": "\x00"}, ["note"]),
    ({"note": 5}, ["note"]),
    ({"rates": 5}, ["rates"]),
    ({"rate": "x", "per": 0, "burst": -1}, ["rate", "per", "burst"]),
    ([], ["body"]),
]


@pytest.mark.parametrize(("body", "fields"), BAD)
@pytest.mark.parametrize("method", ["PUT", "PATCH"])
async def test_a_bad_setting_is_named_and_nothing_is_changed(
    api: Api, method: str, body: Any, fields: list[str]
) -> None:
    answer = await api.client.request(method, "/lanes/a", json=body)
    assert bad_fields(answer) == fields
    assert await redis_of(api.store).keys(keys.account(api.account_id) + "lane*") == []


@pytest.mark.parametrize(
    ("body", "field", "says"),
    [
        ({}, "body", "at least one"),
        ({"per": None}, "per", "It is needed while rate is set."),
        ({"rate": None}, "rate", "It is needed while per is set."),
        ({"rate": None, "per": None}, "burst", "It needs rate and per."),
        ({"rate": 4}, "rate", "It may not be below burst, 5."),
        ({"burst": 11}, "burst", "It may be at most the rate, 10."),
        ({"paused": None}, "paused", "It must be true or false."),
        ({"paused": 1}, "paused", "It must be true or false."),
        ({"pausedUntil": in_an_hour(5)}, "pausedUntil", "It needs paused to be true."),
        ({"paused": True, "pausedUntil": "2020-01-01"}, "pausedUntil", "It must be an ISO 8601"),
        ({"paused": True, "pausedUntil": in_an_hour(-1)}, "pausedUntil", "It must be in the fut"),
        ({"paused": True, "pausedUntil": in_an_hour(10**5)}, "pausedUntil", "It may be at most 1"),
        ({"paused": False, "pausedUntil": in_an_hour()}, "pausedUntil", "It needs paused"),
        ({"calmUntil": in_an_hour()}, "calmUntil", "It can only be null"),
    ],
)
async def test_a_change_is_judged_on_its_result(
    api: Api, body: dict[str, Any], field: str, says: str
) -> None:
    await api.client.put("/lanes/a", json=LIMITS)
    before = await lane(api)
    answer = await api.client.patch("/lanes/a", json=body)
    assert bad_fields(answer) == [field]
    assert says in answer.json()["details"][0]["message"]
    assert await lane(api) == before


async def test_only_a_change_pauses(api: Api) -> None:
    answer = await api.client.put("/lanes/a", json={"paused": True, "calmUntil": None})
    assert sorted(bad_fields(answer)) == ["calmUntil", "paused"]
    assert "PATCH" in answer.json()["details"][0]["message"]


@pytest.mark.parametrize("name", ["-a", "a b", "ä", "x" * 65, "a*", "_"])
@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
async def test_a_bad_name_is_a_400(api: Api, method: str, name: str) -> None:
    body = None if method in ("GET", "DELETE") else {"note": "x"}
    answer = await api.client.request(method, f"/lanes/{name}", json=body)
    assert bad_fields(answer) == ["lane"]
    assert error_of(answer)["reason"] == "invalid_field"


async def test_a_calm_that_a_target_asked_for_is_ended(api: Api) -> None:
    until_ms = api.store.clock.now_ms() + 60_000
    key = keys.account(api.account_id) + keys.LANE + "a"
    await redis_of(api.store).hset(key, "calm", until_ms)
    before = await lane(api)
    assert before["state"] == "calm"
    assert before["calmUntil"] is not None
    answer = await api.client.patch("/lanes/a", json={"calmUntil": None})
    assert answer.json() == {"lane": "a", **UNSET}


async def test_a_lane_too_many_is_a_409_on_every_way_in(api: Api) -> None:
    """And what stays in the lanes that there are goes through."""
    waits = await api.create_id(lane="one", reference="ours")
    failed = await api.create_id(triggerAt=past())
    await api.execute(BROKEN)
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
        await api.client.put("/lanes/new", json=LIMITS),
    ):
        assert (answer.status_code, answer.json()["reason"]) == (409, "too_many_lanes")
        assert "status" not in answer.json()
    answer = await post("/schedule/batch", json={"schedules": [payload(lane="1"), replaced]})
    stored, refused = answer.json()["schedules"]
    assert (refused["code"], refused["reason"]) == (409, "too_many_lanes")
    assert (await api.read(stored["scheduleId"]))["lane"] == "1"
    assert (await api.client.put("/lanes/7", json=LIMITS)).status_code == 200
    left = (await api.client.get("/stats/remaining-credits")).json()["creditsRemaining"]
    assert left == before["creditsRemaining"] - 1
    assert (await api.read(waits))["lane"] == "one"


async def test_lanes_come_page_by_page(api: Api) -> None:
    for name in ("c", "a", "b"):
        await api.client.put(f"/lanes/{name}", json={"parallelism": 1})
    first = (await api.client.get("/lanes", params={"limit": 2})).json()
    query = {"limit": 2, "cursor": first["nextCursor"]}
    second = (await api.client.get("/lanes", params=query)).json()
    assert [each["lane"] for each in first["lanes"] + second["lanes"]] == ["a", "b", "c"]
    assert second["nextCursor"] is None
    assert bad_fields(await api.client.get("/lanes", params={"cursor": "YQ"})) == ["cursor"]
    assert bad_fields(await api.client.get("/lanes", params={"limit": 101})) == ["limit"]
    async with api.another() as other:
        assert (await other.client.get("/lanes")).json() == {"lanes": [], "nextCursor": None}


async def test_the_account_is_paused_and_resumed(api: Api) -> None:
    free = {"paused": False, "pausedUntil": None, "pausedBy": None, "pauseNote": None}
    free |= {"callbackUrl": None, "callbackOn": None}
    await api.create_id(delay="0s", triggerAt=None)
    whole = (await api.client.get("/account")).json()
    free = {**whole, **free}
    assert whole == free
    paused = await api.client.patch("/account", json={"paused": True, "pauseNote": "we move"})
    assert paused.json() == {**free, "paused": True, "pausedBy": "test", "pauseNote": "we move"}
    assert await api.claim() == []
    assert len(await api.listed()) == 1
    resumed = await api.client.patch("/account", json={"paused": False})
    assert resumed.json() == free
    assert len(await api.claim()) == 1


@pytest.mark.parametrize(
    ("body", "field"),
    [({}, "body"), ({"rate": 5}, "rate"), ({"paused": "x"}, "paused"), ({"note": "x"}, "note")],
)
async def test_a_bad_account_change_is_named(api: Api, body: dict[str, Any], field: str) -> None:
    assert bad_fields(await api.client.patch("/account", json=body)) == [field]
