"""What holds for every path: errors in one shape, health, a store that is away."""

from __future__ import annotations

import asyncio

import pytest

from api.app import create_app
from scheduler.errors import StoreError, StoreUnavailable
from scheduler.settings import Settings
from tests.api.conftest import Api, client_of, payload
from tests.servers import ValkeyProcess, until_async


@pytest.mark.parametrize("path", ["/", "/nothing", "/schedules", "/schedule/a/b", "/stats/log"])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "PUT"])
async def test_an_unknown_path_is_404(api: Api, method: str, path: str) -> None:
    answer = await api.client.request(method, path)
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {"error": "Not found"}


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/schedule", {"GET", "HEAD", "POST", "OPTIONS"}),
        ("GET", "/schedule/batch", {"POST", "OPTIONS"}),
        ("POST", "/schedule/sch_x", {"GET", "HEAD", "PATCH", "DELETE", "OPTIONS"}),
        ("POST", "/stats", {"GET", "HEAD", "OPTIONS"}),
        ("DELETE", "/stats/logs", {"GET", "HEAD", "OPTIONS"}),
        ("PATCH", "/stats/remaining-credits", {"GET", "HEAD", "OPTIONS"}),
        ("POST", "/healthz", {"GET", "HEAD", "OPTIONS"}),
        ("BREW", "/schedule", {"GET", "HEAD", "POST", "OPTIONS"}),
    ],
)
async def test_a_wrong_method_is_405_and_says_which_are_right(
    api: Api, method: str, path: str, allowed: set[str]
) -> None:
    answer = await api.client.request(method, path)
    assert answer.status_code == 405
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {"error": "Method not allowed"}
    assert {name.strip() for name in answer.headers["allow"].split(",")} == allowed


async def test_a_wrong_head_is_405_without_a_body(api: Api) -> None:
    answer = await api.client.head("/schedule/batch")
    assert answer.status_code == 405
    assert answer.content == b""


async def test_a_host_that_is_none_is_a_400_in_the_same_shape(api: Api) -> None:
    answer = await api.client.get("/healthz", headers={"host": "a b"})
    assert answer.status_code == 400
    assert answer.json()["error"]
    assert answer.json()["details"]


async def test_the_public_paths_need_no_key(api: Api) -> None:
    async with client_of(api.app) as client:
        assert (await client.get("/healthz")).json() == {"status": "ok"}
        assert (await client.get("/readyz")).json() == {"status": "ready"}
        assert (await client.head("/healthz")).status_code == 200
        document = (await client.get("/schema/openapi.json")).json()
    assert document["info"]["title"] == "Postdate"
    assert {"/schedule", "/stats", "/stats/logs"} <= set(document["paths"])


async def test_a_draining_process_is_alive_but_not_ready(api: Api) -> None:
    api.app.state.service.draining = True
    assert (await api.client.get("/healthz")).status_code == 200
    answer = await api.client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json() == {"error": "The service is draining"}


async def test_a_process_whose_store_is_away_is_alive_but_not_ready(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail() -> None:
        raise StoreUnavailable("gone")

    monkeypatch.setattr(api.store, "ping", fail)
    assert (await api.client.get("/healthz")).status_code == 200
    answer = await api.client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json() == {"error": "The service is temporarily unavailable"}


async def test_a_store_that_fails_any_other_way_is_503_too(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_: str) -> int:
        raise StoreError("secret")

    monkeypatch.setattr(api.store.accounts, "credits", fail)
    answer = await api.client.get("/stats/remaining-credits")
    assert answer.status_code == 503
    assert answer.json() == {"error": "The service is temporarily unavailable"}


async def test_an_api_without_a_store_answers_503_and_goes_on_trying() -> None:
    valkey = ValkeyProcess()
    app = create_app(Settings(redis_url=valkey.url, shards=4))
    try:
        async with app.lifespan(), client_of(app, "pd_00_" + "x" * 43) as client:
            assert (await client.get("/healthz")).status_code == 200
            for path in ("/readyz", "/stats", "/stats/logs", "/stats/remaining-credits"):
                answer = await client.get(path)
                assert answer.status_code == 503
                assert answer.json() == {"error": "The service is temporarily unavailable"}
                assert answer.headers["retry-after"]
            assert (await client.post("/schedule", json=payload())).status_code == 503
            await asyncio.to_thread(valkey.start)

            async def ready() -> bool:
                return (await client.get("/readyz")).status_code == 200

            await until_async(ready, "the API to find its store")
            assert (await client.get("/stats")).status_code == 401
    finally:
        valkey.remove()


async def test_an_api_that_ends_while_it_still_looks_for_its_store_ends() -> None:
    app = create_app(Settings(redis_url="unix:///nonexistent/store.sock"))
    async with app.lifespan(), client_of(app) as client:
        assert (await client.get("/readyz")).status_code == 503
    left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert left == []
