"""Each test of the client is run with both."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.client.both import BASE_URL, KEY, Client, Clock, Server


@pytest.fixture(params=["blocking", "awaiting"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("postdate.patience.monotonic", clock)
    return clock


@pytest.fixture
def client(mode: str, server: Server, clock: Clock) -> Iterator[Client]:
    """A client of the scripted server, in whose world only sleeping takes time."""
    with Client(mode, BASE_URL, KEY, handler=server.handle, retry_for=30.0) as client:
        client.inner._sleep = clock.sleep  # type: ignore[method-assign]
        yield client
