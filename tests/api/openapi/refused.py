"""An answer of each kind of refusal that the OpenAPI document names."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import Mock

import httpx

from api.app import create_app
from api.door.refusals import BODY_TIMED_OUT, HEAD_TOO_LARGE, TARGET_TOO_LONG
from api.openapi.operations import LANE, NAME
from api.openapi.requests import EXAMPLE
from api.request_ids import new_request_id
from scheduler.lanes import MOST_LANES
from scheduler.models import Plan
from scheduler.runtime.settings import Settings
from scheduler.store import keys
from tests.api.conftest import Api, client_of
from tests.api.letters import UNKNOWN
from tests.support.apps import app_of
from tests.support.plain import redis_of

# What connections answer themselves.
_DOOR = {
    "RequestTimeout": BODY_TIMED_OUT,
    "TargetTooLong": TARGET_TOO_LONG,
    "HeadTooLarge": HEAD_TOO_LARGE,
}
_RULE = {"name": NAME["example"], "every": "1h", "targetUrl": EXAMPLE["targetUrl"]}
_SETTING = f"/lanes/{LANE['example']}"


async def all_refused(api: Api) -> dict[str, Any]:
    """The bodies, by their names in the document."""
    found = {
        **await _of_requests(api),
        **await _of_conflicts(api),
        **await _of_accounts(api),
        **await _of_the_service(api),
    }
    for answer in found.values():
        assert answer.is_error, answer.text
    bodies = {name: answer.json() for name, answer in found.items()}
    for name, rejection in _DOOR.items():
        said = rejection.response(new_request_id().decode())
        bodies[name] = json.loads(said.partition(b"\r\n\r\n")[2])
    return bodies


async def _of_requests(api: Api) -> dict[str, httpx.Response]:
    client = api.client
    bad = {"targetUrl": "nowhere", "triggerAt": "tomorrow", "colour": 1}
    once = {"Idempotency-Key": "order-8412"}
    assert (await client.post("/schedule", json=EXAMPLE, headers=once)).status_code == 201
    return {
        "BadRequest": await client.post("/schedule", json=bad),
        "NotFound": await client.get(f"/schedule/{UNKNOWN}"),
        "MethodNotAllowed": await client.put("/schedule"),
        "PreconditionFailed": await client.patch(
            _SETTING, json={"note": "Ours"}, headers={"If-Match": '"of-yesterday"'}
        ),
        "TooLarge": await client.post("/schedule", content=b" " * 300_000),
        "Encoded": await client.post("/schedule", headers={"Content-Encoding": "gzip"}),
        "KeyReused": await client.post("/schedule", json=bad, headers=once),
        "Unsupported": await client.request("FETCH", "/schedule"),
    }


async def _of_conflicts(api: Api) -> dict[str, httpx.Response]:
    client = api.client
    cancelled = f"/schedule/{await api.create_id()}"
    await client.delete(cancelled)
    for _ in range(2):
        await api.create_id(reference="order-8412")
        await client.post("/signing/rotate", json={"keepFor": "7d"})
    await client.post("/recurring", json=_RULE)
    found = {
        "Conflict": await client.patch(cancelled, json={"retries": 1}),
        "SeveralWaiting": await api.create(reference="order-8412", onExisting="keep"),
        "RecurringConflict": await client.post("/recurring", json=_RULE),
        "NothingToReport": await client.post(f"{cancelled}/callback"),
        "TooManySecrets": await client.post("/signing/rotate", json={"keepFor": "7d"}),
    }
    async with api.another() as full:
        lanes = keys.account(full.account_id) + keys.LANES
        names = {f"{n}": 0 for n in range(MOST_LANES)}
        await redis_of(api.store).zadd(lanes, names)
        batch = {"schedules": [EXAMPLE | {"lane": LANE["example"]}]}
        found["TooManyLanes"] = await full.client.post("/schedule/batch", json=batch)
        found["SettingsConflict"] = await full.client.put(_SETTING, json={"parallelism": 1})
    return found


async def _of_accounts(api: Api) -> dict[str, httpx.Response]:
    found = {}
    async with client_of(api.app) as stranger:
        found["Unauthorized"] = await stranger.get("/schedule")
    async with api.another(credits=0) as poor:
        found["InsufficientCredits"] = await poor.client.post("/schedule", json=EXAMPLE)
        await api.store.changes.suspend(poor.account_id)
        found["Suspended"] = await poor.client.get("/schedule")
    slow = app_of(Settings(rate_limits={"free": 1}), api.store)
    async with api.another(plan=Plan.FREE, app=slow) as limited:
        while (answer := await limited.client.get("/schedule")).is_success:
            pass
        found["TooManyRequests"] = answer
    return found


async def _of_the_service(api: Api) -> dict[str, httpx.Response]:
    found = {}
    named = app_of(Settings(allowed_hosts=("postdate.example",)), api.store)
    async with client_of(named) as client:
        found["Misdirected"] = await client.get("/schedule")
    named._hosts = Mock(allows=Mock(side_effect=RuntimeError))
    async with client_of(named) as client:
        found["InternalError"] = await client.get("/schedule")
    away = create_app(Settings(redis_url="unix:///nonexistent/store.sock"))
    async with away.lifespan(), client_of(away, api.key) as client:
        found["Unavailable"] = await client.get("/schedule")
    return found
