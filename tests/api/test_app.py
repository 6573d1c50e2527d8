"""What holds for every path: errors in one shape, health, a store that is away."""

from __future__ import annotations

import asyncio
from unittest.mock import AsyncMock, Mock

import pytest

from api.app import Hosts, create_app
from scheduler.errors import StoreError, StoreUnavailable
from scheduler.runtime.settings import Settings
from tests.api.conftest import CREDITS, Api, bad_fields, client_of, payload
from tests.api.errors import error_of, refusal_of
from tests.support.servers import ValkeyProcess, until_async

AWAY = {"error": "The service is temporarily unavailable", "reason": "store_unavailable"}


async def test_an_unknown_path_is_404(api: Api) -> None:
    for method in ("GET", "POST", "DELETE", "PUT"):
        for path in ("/nothing", "/schedules", "/schedule/a/b", "/stats/log"):
            answer = await api.client.request(method, path)
            assert refusal_of(answer) == (404, "Not found", "not_found")
            assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/schedule", "GET, HEAD, OPTIONS, POST"),
        ("/schedule/batch", "OPTIONS, POST"),
        ("/schedule/sch_x", "DELETE, GET, HEAD, OPTIONS, PATCH"),
        ("/schema/assets/schema.js", "GET, HEAD, OPTIONS"),
    ],
)
async def test_a_wrong_method_is_405_and_names_others(api: Api, path: str, allowed: str) -> None:
    answer = await api.client.options(path)
    assert (answer.status_code, answer.headers["allow"]) == (204, allowed)
    assert "content-length" not in answer.headers
    for method in {"GET", "POST", "PUT", "PATCH", "DELETE"} - {*allowed.split(", ")}:
        answer = await api.client.request(method, path)
        assert (answer.status_code, answer.headers["allow"]) == (405, allowed)
        assert error_of(answer) == {"error": "Method not allowed", "reason": "method_not_allowed"}


@pytest.mark.parametrize("path", ["/schedule", "/schedule/sch_x", "/healthz", "/schema"])
async def test_a_head_is_answered_as_a_get_is_without_the_body(api: Api, path: str) -> None:
    got, head = await api.client.get(path), await api.client.head(path)
    assert (head.status_code, head.content) == (got.status_code, b"")
    ids = {answer.headers.pop("postdate-request-id") for answer in (head, got)}
    assert len(ids) == 2
    assert dict(head.headers) == dict(got.headers)
    assert int(head.headers["content-length"]) == len(got.content) > 0


KNOWING_NONE = """POST /schedule, POST /schedule/batch, GET /schedule/{id}, PATCH /schedule/{id},
DELETE /schedule/{id}, GET /schema, GET /schema/openapi.json,
GET /schema/assets/schema.js"""


@pytest.mark.parametrize(("method", "path"), [each.split() for each in KNOWING_NONE.split(",")])
async def test_an_unknown_parameter_is_a_400_everywhere(api: Api, method: str, path: str) -> None:
    schedule_id = await api.create_id()
    body = {"schedules": [payload()]} if path.endswith("batch") else payload()
    url = path.format(id=schedule_id) + "?dryRun=1"
    answer = await api.client.request(method, url, json=body)
    assert bad_fields(answer) == ["dryRun"]
    await api.holds(credits=CREDITS - 1, waiting={schedule_id})


@pytest.mark.parametrize(
    ("encoding", "status"), [("gzip", 415), ("deflate, gzip", 415), ("identity", 201)]
)
async def test_a_compressed_body_is_415(api: Api, encoding: str, status: int) -> None:
    headers = {"content-encoding": encoding}
    answer = await api.client.post("/schedule", json=payload(), headers=headers)
    assert answer.status_code == status


async def test_the_public_paths_need_no_key(api: Api) -> None:
    async with client_of(api.app) as client:
        assert (await client.get("/healthz")).json() == {"status": "ok"}
        assert (await client.get("/readyz")).json() == {"status": "ready"}
        assert (await client.get("/schema/openapi.json")).json()["info"]["title"] == "Postdate"


async def test_a_draining_process_is_alive_but_not_ready(api: Api) -> None:
    api.app.state.service.draining = True
    assert (await api.client.get("/healthz")).status_code == 200
    answer = await api.client.get("/readyz")
    assert refusal_of(answer) == (503, "The service is draining", "draining")


async def test_without_its_store_it_is_alive_but_not_ready(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api.store, "ping", AsyncMock(side_effect=StoreUnavailable("gone")))
    monkeypatch.setattr(api.store.accounts, "get", AsyncMock(side_effect=StoreError("secret")))
    assert (await api.client.get("/healthz")).status_code == 200
    for path in ("/readyz", "/stats/remaining-credits"):
        answer = await api.client.get(path)
        assert (answer.status_code, error_of(answer)) == (503, AWAY)


async def test_an_api_without_a_store_answers_503_and_goes_on_trying() -> None:
    valkey = ValkeyProcess()
    app = create_app(Settings(redis_url=valkey.url, shards=4))
    try:
        async with app.lifespan(), client_of(app, "pd_00_" + "x" * 43) as client:
            assert (await client.get("/healthz")).status_code == 200
            for path in ("/readyz", "/stats", "/stats/logs", "/stats/remaining-credits"):
                answer = await client.get(path)
                assert (answer.status_code, error_of(answer)) == (503, AWAY)
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


async def test_a_browser_is_led_to_the_dashboard(api: Api) -> None:
    browser = await api.client.get("/", headers={"accept": "text/html,*/*;q=0.8"})
    assert (browser.status_code, browser.headers["location"]) == (303, "/dashboard")
    other = await api.client.get("/", headers={"accept": "*/*"})
    assert (other.status_code, other.json()["documentation"]) == (200, "/schema")
    assert other.headers["vary"] == "accept"


async def test_a_fault_outside_of_any_handler_is_a_500_in_the_usual_shape(
    api: Api, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Hosts, "allows", Mock(side_effect=RuntimeError("secret detail")))
    answer = await api.client.get("/schedule")
    assert refusal_of(answer) == (500, "Internal server error", "internal_error")
    assert "secret detail" in "".join(capfd.readouterr())
