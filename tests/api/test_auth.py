"""API keys: whose request it is, before anything else is said about it."""

from __future__ import annotations

import itertools
from unittest.mock import AsyncMock

import pytest

from scheduler.errors import OutcomeUnknown, StoreUnavailable
from tests.api.conftest import Api, client_of, payload
from tests.api.errors import refusal_of

# Every endpoint that needs a key, each with a request that is wrong in other ways, too.
CALLS = """POST /schedule, GET /schedule?limit=0, POST /schedule/batch, GET /schedule/nothing,
PATCH /schedule/nothing, DELETE /schedule/nothing, POST /schedule/nothing/replay,
POST /schedule/nothing/callback, POST /schedule/replay, POST /schedule/cancel,
GET /stats?from=nothing, GET /stats/logs?limit=0,
GET /stats/remaining-credits?unknown=1, GET /signing?unknown=1, POST /signing/rotate,
POST /schedule/callback,
GET /lanes?limit=0, GET /lanes/-, PUT /lanes/-, PATCH /lanes/-, DELETE /lanes/-,
POST /lanes/-/pause, POST /lanes/-/resume,
GET /account?unknown=1, PATCH /account, POST /account/pause, POST /account/resume,
POST /recurring, GET /recurring?limit=0, GET /recurring/preview, PUT /recurring/by-name/_,
GET /recurring/none, PATCH /recurring/none, DELETE /recurring/none, POST /recurring/none/pause,
POST /recurring/none/resume, POST /recurring/none/trigger"""
ENDPOINTS = [tuple(each.split()) for each in CALLS.split(",")]
UNKNOWN = "x" * 43
TWO_KEYS = "More than one API key: give one, as x-api-key or as Authorization: Bearer"
# Public, or with sessions instead of keys.
PUBLIC = ("/healthz", "/readyz", "/schema", "/dashboard")


def test_every_route_is_either_public_or_in_the_table(api: Api) -> None:
    places = {"nothing": "{schedule_id:str}", "none": "{recurring_id:str}"}
    places |= {"-": "{lane:str}", "_": "{name:str}"}
    table = {
        (method, "/".join(places.get(part, part) for part in target.split("?")[0].split("/")))
        for method, target in ENDPOINTS
    }
    served = {
        (method, route.path)
        for route in api.app.routes
        for method in getattr(route, "methods", ())
        if method != "OPTIONS" and route.path != "/" and not route.path.startswith(PUBLIC)
    }
    assert served == table


@pytest.mark.parametrize(
    ("where", "order"),
    [
        *itertools.product(("x-api-key", "bearer"), [(0, 1), (1, 0), (0, 0), (0, 2)]),
        *itertools.product(("both",), [(0, 1), (1, 0), (0, 2), (2, 0)]),
    ],
)
async def test_with_two_keys_it_is_401_whichever_are_good(
    api: Api, where: str, order: tuple[int, int]
) -> None:
    keys = (api.key, f"pd_00_{UNKNOWN}", "")
    named = [("x-api-key", keys[each]) for each in order]
    borne = [("authorization", f"Bearer {keys[each]}") for each in order]
    headers = {"x-api-key": named, "bearer": borne, "both": [named[0], borne[1]]}[where]
    more = [("POST", "/schedule/"), ("GET", "/nothing"), ("PUT", "/stats")]
    async with client_of(api.app) as client:
        for method, path in (*ENDPOINTS, *more):
            answer = await client.request(method, path, headers=headers, json=payload())
            assert refusal_of(answer) == (401, TWO_KEYS, "unauthorized")
    assert await api.listed() == []


@pytest.mark.parametrize(
    ("headers", "error"),
    [
        ({}, "Missing API key"),
        ({"x-api-key": ""}, "Missing API key"),
        ({"authorization": "Bearer"}, "Missing API key"),
        ({"authorization": "Basic dXNlcjpwYXNz"}, "Missing API key"),
        ({"authorization": f"Bearer pd_00_{UNKNOWN}"}, "Invalid or inactive API key"),
        ({"x-api-key": "x"}, "Invalid or inactive API key"),
        ({"x-api-key": f"pd_00_{UNKNOWN}"}, "Invalid or inactive API key"),
        ({"x-api-key": f"pd_9999_{UNKNOWN}"}, "Invalid or inactive API key"),
        ({"x-api-key": f"pd_00_{UNKNOWN[:-1]}é"}, "Invalid or inactive API key"),
    ],
)
async def test_without_a_good_key_it_is_401(api: Api, headers: dict[str, str], error: str) -> None:
    given = {name: value.encode("latin-1") for name, value in headers.items()}
    async with client_of(api.app) as client:
        for method, path in ENDPOINTS:
            answer = await client.request(method, path, headers=given, content=b"{")
            assert refusal_of(answer) == (401, error, "unauthorized")
            assert answer.headers["www-authenticate"]


@pytest.mark.parametrize(
    "lines",
    [
        [("authorization", "Bearer {key}")],
        [("authorization", "bearer   {key}")],
        [("authorization", "Bearer {key}"), ("x-api-key", "{key}")],
        [("authorization", "Basic dXNlcjpwYXNz"), ("x-api-key", "{key}")],
        [("authorization", "Basic dXNlcjpwYXNz"), ("authorization", "Bearer {key}")],
    ],
)
async def test_a_key_may_come_as_a_bearer_token(api: Api, lines: list[tuple[str, str]]) -> None:
    headers = [(name, value.format(key=api.key)) for name, value in lines]
    async with client_of(api.app) as client:
        for _ in range(2):  # the second one goes to the store at once
            made = await client.post("/schedule", headers=headers, json=payload())
            assert made.status_code == 201
        assert (await client.get("/schedule", headers=headers)).status_code == 200
        assert (await client.get("/nothing", headers=headers)).status_code == 404


async def test_a_key_opens_its_own_account_only(api: Api) -> None:
    await api.create()
    async with api.another(credits=7) as other:
        assert await other.listed() == []
        answer = await other.client.get("/stats/remaining-credits")
        assert answer.json() == {"creditsRemaining": 7}


@pytest.mark.parametrize("error", [StoreUnavailable("x"), OutcomeUnknown("x")])
async def test_a_key_that_cannot_be_checked_is_503(
    api: Api, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(api.store.server, "run", AsyncMock(side_effect=error))
    answer = await api.create()
    assert refusal_of(answer) == (
        503,
        "The service is temporarily unavailable",
        "store_unavailable",
    )
    assert int(answer.headers["retry-after"]) >= 1


SENTENCE = "This account is suspended; due schedules wait until it is resumed"


async def test_every_call_is_a_403_and_changes_nothing(api: Api) -> None:
    kept = await api.create_id()
    await api.store.changes.suspend(api.account_id)
    calls = f"""POST /schedule, POST /schedule/batch, GET /schedule, PATCH /schedule/sch_x,
    DELETE /schedule/{kept}, GET /stats/remaining-credits, GET /no/such/path, PUT /schedule"""
    for method, path in map(str.split, calls.split(",")):
        answer = await api.client.request(method, path, json=payload())
        assert refusal_of(answer) == (403, SENTENCE, "suspended")
    assert (await api.client.get("/readyz")).status_code == 200  # no account's
    await api.store.changes.resume(api.account_id)
    await api.holds(credits=999, waiting={kept})
