"""Under which names the API answers."""

from __future__ import annotations

import httpx
import msgspec
import pytest

from api.app import Hosts
from scheduler.runtime.settings import Settings, from_environment
from scheduler.store import Store
from tests.api.conftest import Api
from tests.support.apps import app_of

PUBLIC = Settings(host="0.0.0.0", public_url="https://postdate.example/x")
NAMED = from_environment({"POSTDATE_ALLOWED_HOSTS": "Postdate.example, *.internal,10.0.0.7"})


@pytest.mark.parametrize(
    ("settings", "host", "path", "allowed"),
    [
        (Settings(), "127.0.0.1:8000", "/dashboard", True),
        (Settings(), "evil.example:8000", "/dashboard", False),
        (Settings(), "localhost.evil.example", "/dashboard", False),
        (Settings(), "api", "/schedule", True),
        (Settings(host="0.0.0.0"), "anything.example", "/dashboard", True),
        (PUBLIC, "POSTDATE.example.:443", "/dashboard", True),
        (PUBLIC, "other.example", "/dashboard", False),
        (NAMED, "postdate.example", "/schedule", True),
        (NAMED, "a.b.internal:8000", "/schedule", True),
        (NAMED, "other.example", "/schedule", False),
        (NAMED, "postdatexexample", "/schedule", False),
        (NAMED, "other.example", "/healthz", True),
    ],
)
def test_its_own_names(settings: Settings, host: str, path: str, allowed: bool) -> None:
    assert Hosts(settings).allows(host, path) is allowed


async def test_another_host_is_421(settings: Settings, store: Store, api: Api) -> None:
    settings = msgspec.structs.replace(settings, allowed_hosts=("postdate.example",))
    transport = httpx.ASGITransport(app_of(settings, store))  # type: ignore[arg-type]
    for host, status in (("evil.example", 421), ("postdate.example", 200)):
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{host}") as client:
            client.headers["x-api-key"] = api.key
            answer = await client.get("/stats/remaining-credits")
            assert answer.status_code == status
            assert (await client.get("/healthz")).status_code == 200
        if status == 421:
            assert "POSTDATE_ALLOWED_HOSTS" in answer.json()["error"]


async def test_no_spelling_of_a_path_leads_past_the_names(settings: Settings, store: Store) -> None:
    transport = httpx.ASGITransport(app_of(settings, store))  # type: ignore[arg-type]
    async with httpx.AsyncClient(transport=transport, base_url="http://evil.example") as client:
        for path in ("/dashboard", "//dashboard", "/dashboard/", "/dashboard//sign-in", "//x"):
            answer = await client.get(f"http://evil.example{path}")
            assert answer.status_code == (404 if path.startswith("//") else 421), path


async def test_no_answer_is_kept_on_the_way(api: Api) -> None:
    for path in ("/stats", "/schedule", "/nowhere", "/schedule/x", "/healthz"):
        assert (await api.client.get(path)).headers["cache-control"] == "no-store"
