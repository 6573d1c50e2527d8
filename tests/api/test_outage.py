"""An outage of the store: clients get a 503, and the log has the reason."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from typing import Any
from unittest.mock import AsyncMock

import pytest
from structlog.testing import capture_logs

from api.service import Service
from scheduler.errors import StoreUnavailable
from scheduler.runtime.settings import Settings
from tests.api.conftest import Api
from tests.support.waiting import until_async

HOST = {"host": "localhost"}  # where pages are shown
REFUSED = "requests are refused because of the store"
AWAY = "the store cannot be reached; trying on"
BACK = "the store can be reached again"


def lines(told: Sequence[MutableMapping[str, Any]], event: str) -> list[MutableMapping[str, Any]]:
    return [each for each in told if each["event"] == event]


@pytest.mark.parametrize("path", ["/stats", "/dashboard/link/00_x"])
async def test_the_log_has_the_reason(api: Api, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    away = AsyncMock(side_effect=StoreUnavailable("The store cannot be reached"))
    monkeypatch.setattr(api.store.api_keys, "admit", away)
    monkeypatch.setattr(api.store.sessions, "leads_to", away)
    with capture_logs() as told:
        for _ in range(3):
            assert (await api.client.get(path, headers=HOST)).status_code == 503
    assert [(each["event"], each["error"]) for each in told] == [
        (REFUSED, "The store cannot be reached")
    ]


async def test_the_log_has_the_reason_though_nobody_asks_for_anything(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.service._BEAT_EVERY_S", 0.01)
    service = Service(settings)
    with capture_logs() as told:
        async with service.running():
            with monkeypatch.context() as patch:
                away = AsyncMock(side_effect=StoreUnavailable("It hangs"))
                patch.setattr(service.store.apis, "beat", away)
                await until_async(lambda: lines(told, AWAY), "the reason")
            await until_async(lambda: lines(told, BACK), "the end")
    assert [each["reason"] for each in lines(told, AWAY)] == ["It hangs"]
