"""The worker's loops are quick, and the firing tests run on both event loops: what uvloop's
transports do differently shows here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest
import uvloop

from tests.virtual_time import VirtualTimeLoop
from tests.worker.scene import Scene

IN_VIRTUAL_TIME = frozenset({"test_race.py"})
ON_BOTH_LOOPS = frozenset(
    {"test_wire.py", "test_firer.py", "test_ceiling.py", "test_hasty_targets.py", "test_closing.py"}
)


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    if item.path.name in ON_BOTH_LOOPS:
        return {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}
    if item.path.name in IN_VIRTUAL_TIME:
        return {"asyncio": VirtualTimeLoop}
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a worker does again after a while it does again at once."""
    monkeypatch.setattr("worker.worker._RECOVER_EVERY_S", 0.001)
    monkeypatch.setattr("worker.upkeep._FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr("worker.worker.spare_the_collector", lambda: None)


@pytest.fixture
async def scene(quickly: None) -> AsyncIterator[Scene]:
    """Its worker is the test's to start."""
    scene = Scene()
    yield scene
    if scene.running is not None:
        await scene.stop()
