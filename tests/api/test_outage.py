"""An outage of the store: clients get a 503, and the log has the reason."""

from __future__ import annotations

from unittest.mock import AsyncMock

import pytest
from structlog.testing import capture_logs

from scheduler.errors import StoreUnavailable
from tests.api.conftest import Api

HOST = {"host": "localhost"}  # where pages are shown
REFUSED = "requests are refused because of the store"


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
