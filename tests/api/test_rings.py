"""No refusal leaves anything to the garbage collector, which may take long to find it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest

from cli.embedded import ask as command
from tests.api.conftest import payload
from tests.api.process import ApiProcess, serving
from tests.api.refusals import SETTINGS, Kind, Scene, ask, http, leavers, pages, refusals, scene
from tests.servers import ValkeyProcess

EACH = 12


class Watched(NamedTuple):
    """A process that collects no garbage, and what can be asked of it."""

    server: ApiProcess
    scene: Scene

    @contextmanager
    def leaving_nothing(self) -> Iterator[None]:
        """Around so many requests of each kind."""
        self.server.uncollected()
        yield
        left = self.server.uncollected()
        assert not {name for name, count in left.items() if count >= EACH // 2}, left


@pytest.fixture
async def watched(own_valkey: ValkeyProcess) -> AsyncIterator[Watched]:
    with serving(own_valkey.url, **SETTINGS) as server:
        yield Watched(server, await scene(own_valkey.url))


@pytest.mark.parametrize("kinds", [refusals, pages])
def test_refusals_leave_nothing(
    watched: Watched, kinds: Callable[[Scene], dict[str, Kind]]
) -> None:
    every = kinds(watched.scene).values()
    for data, _ in every:  # create objects now that are made once and stay
        ask(watched.server, data, 1)
    with watched.leaving_nothing():
        for data, status in every:
            assert status in ask(watched.server, data, EACH), data


def test_clients_that_go_leave_nothing(watched: Watched) -> None:
    with watched.leaving_nothing():
        for leaves in leavers(watched.server, watched.scene):
            for _ in range(EACH):
                leaves()


@pytest.mark.parametrize("store", ["away", "full"])
def test_a_lost_store_leaves_nothing(
    watched: Watched, own_valkey: ValkeyProcess, store: str
) -> None:
    key, waiting = f"x-api-key: {watched.scene.key}", f"/schedule/{watched.scene.waiting}"
    every = [
        http("POST", "/schedule", key, body=payload(targetBodyText="x" * 50_000)),
        http("POST", "/schedule/batch", key, body={"schedules": [payload()] * 3}),
        http("PATCH", waiting, key, body={"targetBodyText": "x" * 50_000}),
    ]
    if store == "away":
        page = http("GET", "/dashboard", f"Cookie: postdate_session={watched.scene.session}")
        every += [http("GET", waiting, key), http("GET", "/readyz"), page]
        own_valkey.kill()
    else:
        assert command(own_valkey.socket, "CONFIG SET maxmemory 1") == "+OK"
    for data in every:
        ask(watched.server, data, 1)
    with watched.leaving_nothing():
        for data in every:
            assert ask(watched.server, data, EACH) == {503}
