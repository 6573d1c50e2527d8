"""The worker's loops are quick, and the firing tests run on both event loops: what uvloop's
transports do differently shows here."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest
import trustme
import uvloop

from scheduler import stages
from scheduler.models import Invocation
from scheduler.stages import Stage
from tests.support.virtual_time import VirtualTimeLoop
from tests.worker.scene import Scene
from tests.worker.send.firing import always
from worker.send.handshakes import Unexamined

IN_VIRTUAL_TIME = frozenset({"test_happy_eyeballs.py"})
ON_BOTH_LOOPS = frozenset(
    {
        *("test_wire.py", "test_loose_http.py", "test_firer.py", "test_certificates.py"),
        *("test_ceiling.py", "test_hasty_targets.py", "test_closing.py"),
    }
)


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    if item.path.name in ON_BOTH_LOOPS:
        return {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}
    if item.path.name in IN_VIRTUAL_TIME:
        return {"asyncio": VirtualTimeLoop}
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(autouse=True)
def _stages_follow(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each invocation of a whole worker goes from stage to stage as the table says."""

    def enter(invocation: Invocation, stage: Stage) -> None:
        assert stage in stages.NEXT[invocation.stage], (invocation.stage, stage)
        invocation.stage = stage

    if "scene" in request.fixturenames:  # elsewhere some are sent as they are made
        monkeypatch.setattr(Invocation, "enter", enter)


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="session")
def trusting(authority: trustme.CA) -> ssl.SSLContext:
    """A client's context, for certificates of the authority."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    context.sslobject_class = Unexamined
    return context


@pytest.fixture
def options(trusting: ssl.SSLContext) -> dict[str, Any]:
    """A firer's: it trusts the authority, and every name is this machine's."""
    return {"resolve": always(["127.0.0.1"]), "ssl_context": trusting}


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
