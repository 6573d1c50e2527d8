"""A store on a real server; where a test lets time pass, on fakeredis too, whose clock is moved."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any

import fakeredis
import pytest
import uvloop
from msgspec.structs import replace

from scheduler.runtime.settings import Settings
from scheduler.store import Store
from scheduler.store.server.connection import Single
from tests.store.clocks import Clock, FakeClock, ServerClock, fakeredis_time
from tests.store.keyed import Stores
from tests.store.recurring.rules import Rules
from tests.store.scene import Scene
from tests.support.servers import ValkeyCluster, ValkeyProcess

SHARDS = 2
ON_BOTH_LOOPS = frozenset({"test_line.py"})


@pytest.fixture
def settings() -> Settings:
    return Settings(shards=SHARDS)


@pytest.fixture(scope="session")
def shared_cluster(store_server: str) -> Iterator[ValkeyCluster]:
    with ValkeyCluster(3) as started:
        yield started


@pytest.fixture
def cluster(shared_cluster: ValkeyCluster) -> ValkeyCluster:
    """A Redis Cluster of three nodes, emptied. Other tests may have moved slots."""
    shared_cluster.flush()
    return shared_cluster


@pytest.fixture
def fake_clock() -> Iterator[FakeClock]:
    clock = FakeClock()
    with fakeredis_time(clock):
        yield clock


@pytest.fixture
async def fake_store(settings: Settings, fake_clock: FakeClock) -> AsyncIterator[Store]:
    """A store on fakeredis, whose clock can be moved."""
    store = await open_fake(settings)
    yield store
    await store.aclose()


@pytest.fixture
async def valkey_store(settings: Settings, valkey: ValkeyProcess) -> AsyncIterator[Store]:
    """A store on the suite's server, emptied."""
    store = await Store.open(replace(settings, redis_url=valkey.url))
    yield store
    await store.aclose()


@pytest.fixture
async def processes(settings: Settings, valkey: ValkeyProcess) -> AsyncIterator[list[Store]]:
    """The store of two processes."""
    opened = [await Store.open(replace(settings, redis_url=valkey.url)) for _ in range(2)]
    yield opened
    for each in opened:
        await each.aclose()


@pytest.fixture
def checks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check looks at once again whether what it has found is still so."""
    monkeypatch.setattr("scheduler.store.check.check._LOOK_AGAIN_S", 0)


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """What uvloop's transports do differently shows where connections break."""
    if item.path.name in ON_BOTH_LOOPS:
        return {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}
    return {"asyncio": asyncio.new_event_loop}


@pytest.fixture
def store(request: pytest.FixtureRequest, store_server: str) -> Store:
    """Waiting shows that statements about time hold; a clock that is set, that it does to the
    millisecond: a test marked `time_passes` is run on fakeredis too."""
    name = "fake_store" if store_server == "fakeredis" else "valkey_store"
    return request.getfixturevalue(name)  # type: ignore[no-any-return]


@pytest.fixture
def clock(request: pytest.FixtureRequest, store: Store) -> Clock:
    """The clock of `store`."""
    if "fake_store" in request.fixturenames:
        return request.getfixturevalue("fake_clock")  # type: ignore[no-any-return]
    return ServerClock(store)


@pytest.fixture
async def scene(store: Store, clock: Clock, request: pytest.FixtureRequest) -> AsyncIterator[Scene]:
    """An account with 100 credits."""
    async for made in _scene(store, clock, request):
        yield made


@pytest.fixture
async def fake_scene(
    fake_store: Store, fake_clock: FakeClock, request: pytest.FixtureRequest
) -> AsyncIterator[Scene]:
    """The same on fakeredis only, for what takes hours or days."""
    async for made in _scene(fake_store, fake_clock, request):
        yield made


@pytest.fixture
async def valkey_scene(valkey_store: Store, request: pytest.FixtureRequest) -> AsyncIterator[Scene]:
    """The same on a real server only, for what fakeredis does not do."""
    async for made in _scene(valkey_store, ServerClock(valkey_store), request):
        yield made


async def _scene(
    store: Store, clock: Clock, request: pytest.FixtureRequest
) -> AsyncIterator[Scene]:
    scene = await Scene.of(store, clock)
    yield scene
    if request.node.get_closest_marker("sound") and not request.node.get_closest_marker("harmed"):
        await scene.assert_sound()


async def open_fake(settings: Settings) -> Store:
    """A store on a fakeredis of its own; `fakeredis_time` must be in force."""
    server = fakeredis.FakeServer(version=(7,))
    store = Store(FakeWay(server), settings)
    await store.start()
    return store


class FakeWay(Single):
    """To a fakeredis, which has no connections."""

    def __init__(self, server: fakeredis.FakeServer) -> None:
        self.client = fakeredis.aioredis.FakeRedis(server=server, protocol=2)
        self._sentinels = None

    async def replies(self, commands: Any, *_: object, **__: object) -> list[Any]:
        async with self.client.pipeline(transaction=False) as pipe:
            for name, *words in commands:
                # Under its name in bytes the client knows no command, and leaves replies alone.
                pipe.execute_command(name.encode(), *words)
            return await pipe.execute(raise_on_error=False)  # type: ignore[no-any-return]

    async def aclose(self) -> None:
        await self.client.aclose()


@pytest.fixture
async def stores(valkey: ValkeyProcess) -> AsyncIterator[Stores]:
    stores = Stores(valkey.url)
    yield stores
    for store in stores.opened:
        await store.aclose()


@pytest.fixture
def rules(scene: Scene) -> Rules:
    return Rules(scene)


@pytest.fixture
def fake_rules(fake_scene: Scene) -> Rules:
    return Rules(fake_scene)
