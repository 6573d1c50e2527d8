"""No refusal leaves anything to the garbage collector, which may take long to find it.

By hand, ten thousand times each, in an hour:
    REFUSALS_EACH=10000 .venv/bin/python -m pytest -s --timeout 7200 tests/api/test_rings.py
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest

from cli.serving.embedded import ask as command
from tests.api.conftest import payload
from tests.api.process import ApiProcess, serving
from tests.api.refusals import SETTINGS, Kind, Scene, ask, http, leavers, pages, refusals, scene
from tests.api.refusals import time_out as clients_time_out
from tests.support.servers import ValkeyProcess

EACH = int(os.environ.get("REFUSALS_EACH", "12"))
MB = 1_000_000


class Watched(NamedTuple):
    """A process that collects no garbage, and what can be asked of it."""

    server: ApiProcess
    scene: Scene

    @contextmanager
    def leaving_nothing(self) -> Iterator[None]:
        """Around so many requests of each kind."""
        self.server.inside()
        with self.growing("all"):
            yield
        left = self.server.inside().uncollected
        assert not {name for name, count in left.items() if count >= EACH // 2}, left

    @contextmanager
    def growing(self, kind: str) -> Iterator[None]:
        """By a little at most."""
        before = self.server.memory_bytes()
        yield
        grown = self.server.memory_bytes() - before
        sys.stdout.write(f"{kind}: {before / MB:.0f} MB and {grown / MB:.1f}\n")
        assert grown < 40 * MB, kind


@pytest.fixture
async def watched(own_valkey: ValkeyProcess) -> AsyncIterator[Watched]:
    with serving(own_valkey.url, **SETTINGS) as server:
        yield Watched(server, await scene(own_valkey.url))


@pytest.mark.slow
@pytest.mark.parametrize("kinds", [refusals, pages])
def test_refusals_leave_nothing(
    watched: Watched, kinds: Callable[[Scene], dict[str, Kind]]
) -> None:
    every = kinds(watched.scene).items()
    for _, (data, _) in every:  # create objects now that are made once and stay
        ask(watched.server, data, 1)
    with watched.leaving_nothing():
        for kind, (data, status) in every:
            with watched.growing(kind):
                assert status in ask(watched.server, data, EACH), data


def test_clients_that_go_or_that_are_too_slow_leave_nothing(watched: Watched) -> None:
    with watched.leaving_nothing():
        for number, leaves in enumerate(leavers(watched.server, watched.scene)):
            with watched.growing(f"leaver {number}"):
                for _ in range(EACH):
                    leaves()
        for _ in range(EACH // 12):
            clients_time_out(watched.server, watched.scene, 12)


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
            with watched.growing(f"{data[:20]!r}: 503"):
                assert ask(watched.server, data, EACH) == {503}
