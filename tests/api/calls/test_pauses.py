"""Lanes, the account and recurring schedules are paused in one way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.api.calls.test_lanes import in_an_hour
from tests.api.conftest import Api, bad_fields

FREE = {"paused": False, "pausedUntil": None, "pausedBy": None, "pauseNote": None}
RULE = {"cron": "0 9 * * *", "targetUrl": "https://example.com/hook"}
PATHS = ("/lanes/a", "/account", "/recurring/")


class Pausable:
    def __init__(self, api: Api, path: str) -> None:
        self.api = api
        self.path = path

    @property
    def is_rule(self) -> bool:
        return self.path.startswith("/recurring")

    async def read(self) -> dict[str, Any]:
        found = (await self.api.client.get(self.path)).json()
        assert not self.is_rule or (found["state"] == "paused") is found["paused"]
        return {name: found[name] for name in FREE}

    async def send(self, method: str, act: str = "", **body: Any) -> dict[str, Any]:
        """The pause in the answer, which is what is read then."""
        sent = {"json": body} if body else {}
        answer = await self.api.client.request(method, self.path + act, **sent)
        assert answer.status_code == 200, answer.text
        found = {name: answer.json()[name] for name in FREE}
        assert found == await self.read()
        return found


@pytest.fixture(params=PATHS)
async def pausable(api: Api, request: pytest.FixtureRequest) -> Pausable:
    path = request.param
    if path == "/recurring/":
        path += (await api.client.post("/recurring", json=RULE)).json()["recurringId"]
    return Pausable(api, path)


def paused(until: str | None = None, note: str | None = None) -> dict[str, Any]:
    return {"paused": True, "pausedUntil": until, "pausedBy": "test", "pauseNote": note}


async def test_a_pause_and_its_end(pausable: Pausable) -> None:
    send, until, later = pausable.send, in_an_hour(), in_an_hour(2)
    assert await pausable.read() == FREE
    assert await send("POST", "/pause") == paused()
    whole = {"pausedUntil": until, "pauseNote": "we move"}
    for _ in range(2):
        assert await send("POST", "/pause", **whole) == paused(until, "we move")
    assert await send("POST", "/pause", pausedUntil=later) == paused(later)
    for _ in range(2):
        assert await send("POST", "/resume") == FREE


async def test_a_change_sets_what_is_given_of_a_pause(pausable: Pausable) -> None:
    send, until = pausable.send, in_an_hour()
    assert await send("PATCH", paused=True, pauseNote="we move") == paused(None, "we move")
    assert await send("PATCH", pausedUntil=until) == paused(until, "we move")
    assert await send("PATCH", paused=True) == paused(until, "we move")
    assert await send("PATCH", pauseNote=None) == paused(until)
    assert await send("PATCH", pausedUntil=None) == paused()
    assert await send("PATCH", paused=False) == FREE
    assert await send("PATCH", paused=True, pausedUntil=until) == paused(until)
    assert await send("PATCH", paused=False, pausedUntil=None, pauseNote=None) == FREE


BAD: list[tuple[str, Callable[[], dict[str, Any]]]] = [
    ("pausedUntil", lambda: {"pausedUntil": in_an_hour(-1)}),
    ("pausedUntil", lambda: {"pausedUntil": in_an_hour(10**5)}),
    ("pausedUntil", lambda: {"pausedUntil": "soon"}),
    ("pauseNote", lambda: {"pauseNote": "x" * 201}),
    ("pauseNote", lambda: {"pauseNote": "\x00"}),
    ("pauseNote", lambda: {"pauseNote": 5}),
    ("until", lambda: {"until": in_an_hour()}),
]
WITHOUT = [
    ("pausedUntil", lambda: {"pausedUntil": in_an_hour()}),
    ("pausedUntil", lambda: {"paused": False, "pausedUntil": in_an_hour()}),
    ("pauseNote", lambda: {"pauseNote": "we move"}),
    ("paused", lambda: {"paused": None}),
]


@pytest.mark.parametrize(("field", "body"), BAD)
async def test_a_bad_pause_is_named_and_nothing_is_changed(
    pausable: Pausable, field: str, body: Callable[[], dict[str, Any]]
) -> None:
    request, path = pausable.api.client.request, pausable.path
    for method, act, more in (("POST", "/pause", {}), ("PATCH", "", {"paused": True})):
        assert bad_fields(await request(method, path + act, json=body() | more)) == [field]
    assert bad_fields(await request("POST", path + "/pause", json={"paused": True})) == ["paused"]
    assert bad_fields(await request("POST", path + "/resume", json=body())) == [field]
    assert await pausable.read() == FREE


@pytest.mark.parametrize(("field", "body"), WITHOUT)
async def test_an_end_and_a_note_need_a_pause(
    pausable: Pausable, field: str, body: Callable[[], dict[str, Any]]
) -> None:
    answer = await pausable.api.client.patch(pausable.path, json=body())
    assert bad_fields(answer) == [field]
    assert await pausable.read() == FREE


@pytest.mark.parametrize("path", PATHS[:2])
async def test_a_pause_may_be_bound_to_what_was_seen(api: Api, path: str) -> None:
    post, seen = api.client.post, (await api.client.get(path)).headers["etag"]
    stale = {"if-match": '"x"'}
    assert (await post(path + "/pause", headers=stale)).status_code == 412
    now = (await post(path + "/pause", headers={"if-match": seen})).headers["etag"]
    assert now == (await api.client.get(path)).headers["etag"] != seen
    assert (await post(path + "/resume", headers=stale)).status_code == 412
    resumed = await post(path + "/resume", headers={"if-match": now})
    assert (resumed.status_code, resumed.json()["paused"]) == (200, False)


async def test_a_lane_is_there_while_it_is_paused(api: Api) -> None:
    async def there() -> tuple[list[str], int]:
        lanes = (await api.client.get("/lanes")).json()["lanes"]
        account = (await api.client.get("/account")).json()
        return [each["lane"] for each in lanes], account["lanes"]

    only_there = {"if-match": "*"}
    answer = await api.client.post("/lanes/a/pause", headers=only_there)
    assert (answer.status_code, await there()) == (412, ([], 0))
    assert (await api.client.post("/lanes/a/pause")).status_code == 200
    assert await there() == (["a"], 1)
    answer = await api.client.post("/lanes/a/resume", headers=only_there)
    assert (answer.status_code, await there()) == (200, ([], 0))
    answer = await api.client.put("/lanes/a", json={}, headers={"if-none-match": "*"})
    assert (answer.status_code, await there()) == (200, ([], 0))


async def test_a_deploy_ends_no_pause(api: Api) -> None:
    """And takes no note away from it, nor from the lane."""
    for path, body in (("/lanes/a", {"note": "ours"}), ("/recurring/by-name/r", RULE)):
        put = (await api.client.put(path, json=body)).json()
        path = f"/recurring/{put['recurringId']}" if "recurringId" in put else path
        await api.client.post(path + "/pause", json={"pauseNote": "we move"})
    for path, body in (("/lanes/a", {"note": "other"}), ("/recurring/by-name/r", RULE)):
        changed = (
            await api.client.put(path, json={**body, "lane": "b"} if body is RULE else body)
        ).json()
        assert (changed["paused"], changed["pauseNote"]) == (True, "we move")
    assert (await api.client.get("/lanes/a")).json()["note"] == "other"


async def test_a_rule_is_changed_and_paused_in_one_step(api: Api) -> None:
    rule = (await api.client.post("/recurring", json=RULE)).json()["recurringId"]
    path, patch = f"/recurring/{rule}", api.client.patch
    until = in_an_hour()
    change = {"cron": "30 9 * * *", "lane": "a", "paused": True, "pausedUntil": until}
    found = (await patch(path, json=change)).json()
    assert {name: found[name] for name in change} == change
    assert (found["state"], found["scheduleId"]) == ("paused", None)
    assert await api.listed() == []
    assert bad_fields(await patch(path, json={"paused": False, "cron": "x"})) == ["cron"]
    found = (await patch(path, json={"paused": False, "cron": "45 9 * * *"})).json()
    assert (found["state"], found["nextAt"][14:16]) == ("active", "45")
    [waiting] = await api.listed()
    assert (waiting["scheduleId"], waiting["lane"]) == (found["scheduleId"], "a")
    stale = await patch(path, json={"paused": True}, headers={"if-match": '"x"'})
    assert stale.status_code == 412


async def test_a_rule_that_has_ended_is_not_paused(api: Api) -> None:
    body = {**RULE, "every": "1s", "cron": None, "endsAt": in_an_hour()}
    rule = (await api.client.post("/recurring", json=body)).json()["recurringId"]
    await api.client.patch(f"/recurring/{rule}", json={"paused": True})
    await api.client.patch(f"/recurring/{rule}", json={"endsAt": in_an_hour(-1)})
    ended = await Pausable(api, f"/recurring/{rule}").send("POST", "/resume")
    assert ended == FREE
    for method, act in (("POST", "/pause"), ("PATCH", "")):
        answer = await api.client.request(
            method, f"/recurring/{rule}{act}", json={"paused": True} if method == "PATCH" else {}
        )
        assert (answer.json()["state"], answer.json()["paused"]) == ("ended", False)
