"""An outage of the store: clients are told that there is one, the log is told why."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from api.outage import Outage
from scheduler.errors import StoreFull, StoreUnavailable
from tests.api.conftest import Api

HOST = {"host": "localhost"}  # where pages are shown
REFUSED = "requests are refused because of the store"
OVER = "no request has been refused because of the store for 30 s"


class Loop:
    """An event loop whose time passes when it is told to."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now_s

    def call_later(self, delay_s: float, call: Callable[[], None]) -> None:
        self.timers.append((self.now_s + delay_s, call))

    def pass_s(self, seconds: float) -> None:
        end_s = self.now_s + seconds
        while due := [each for each in self.timers if each[0] <= end_s]:
            timer = min(due, key=lambda each: each[0])
            self.timers.remove(timer)
            self.now_s = timer[0]
            timer[1]()
        self.now_s = end_s


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Loop:
    loop = Loop()
    monkeypatch.setattr("api.outage.asyncio", SimpleNamespace(get_running_loop=lambda: loop))
    return loop


def test_it_is_told_as_it_begins_once_a_minute_and_when_it_is_over(loop: Loop) -> None:
    outage, away = Outage(), StoreUnavailable("The store cannot be reached")
    with capture_logs() as told:
        for _ in range(100):
            outage.note(away)
            loop.pass_s(1)
        loop.pass_s(28)
        assert [(each["event"], each["refused"]) for each in told] == [(REFUSED, 1), (REFUSED, 61)]
        loop.pass_s(2)
        outage.note(away)
    assert [(each["event"], each["refused"]) for each in told[2:]] == [(OVER, 100), (REFUSED, 1)]
    assert told[0]["error"] == str(away)


def test_another_kind_of_error_is_told_by_itself(loop: Loop) -> None:
    outage = Outage()
    with capture_logs() as told:
        for _ in range(3):
            outage.note(StoreUnavailable("The store cannot be reached"))
            outage.note(StoreFull("The store is full"))
    assert [each["error"] for each in told] == ["The store cannot be reached", "The store is full"]


@pytest.mark.parametrize("path", ["/stats", "/dashboard/link/00_x"])
async def test_whoever_is_refused_the_log_is_told_why(
    api: Api, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    async def fail(*_: object) -> None:
        raise StoreUnavailable("The store cannot be reached")

    monkeypatch.setattr(api.store.api_keys, "admit", fail)
    monkeypatch.setattr(api.store.sessions, "is_good", fail)
    with capture_logs() as told:
        for _ in range(3):
            assert (await api.client.get(path, headers=HOST)).status_code == 503
    assert [(each["event"], each["error"]) for each in told] == [
        (REFUSED, "The store cannot be reached")
    ]
