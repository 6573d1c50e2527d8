"""An outage of the store: clients get a 503, and the log has the reason."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace
from unittest.mock import AsyncMock

import pytest
from structlog.testing import capture_logs

from api.service import Outage
from scheduler.errors import StoreFull, StoreUnavailable
from tests.api.conftest import Api

HOST = {"host": "localhost"}  # where pages are shown
REFUSED = "requests are refused because of the store"


def test_it_is_told_as_it_begins_and_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = count()
    clock = SimpleNamespace(monotonic=lambda: next(seconds))
    monkeypatch.setattr("scheduler.reminder.time", clock)
    outage, away = Outage(), StoreUnavailable("The store cannot be reached")
    with capture_logs() as told:
        for _ in range(100):
            outage.note(away)
    assert [(each["event"], each["refused"]) for each in told] == [(REFUSED, 1), (REFUSED, 61)]
    assert told[0]["error"] == str(away)


def test_another_kind_of_error_is_told_by_itself() -> None:
    outage = Outage()
    with capture_logs() as told:
        for _ in range(3):
            outage.note(StoreUnavailable("The store cannot be reached"))
            outage.note(StoreFull("The store is full"))
    assert [each["error"] for each in told] == ["The store cannot be reached", "The store is full"]


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
