"""Servers that the whole suite shares; under xdist each of its workers has its own."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest
import structlog
from hypothesis import settings

from scheduler.runtime.collector import spare_the_collector
from scheduler.store.scans import Scans
from scheduler.store.server import server
from tests.programs import SLOW, closing_line, lack_of
from tests.support import store_servers
from tests.support.servers import DroppingProxy, PostdateProcess, Receiver, ValkeyProcess
from tests.support.store_servers import REDIS, redis_embedded

# `make test` has the same inputs at each run, so that a failure is one of the change that was made.
# New ones are for `make fuzz`, which has the time for many. How long one takes says nothing on a
# busy machine.
settings.register_profile("short", max_examples=30, deadline=None, derandomize=True)
settings.register_profile("long", max_examples=1000, deadline=None)
settings.load_profile("short")

# Rich draws the locals of every frame of a traceback, for a second where these are large.
structlog.configure(
    processors=[
        *structlog.get_config()["processors"][:-1],
        structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback),
    ]
)

_TESTS = Path(__file__).parent
_MEMORY, _ROOM_BYTES = Path("/dev/shm"), 2**30
_SLOW_ROOMS = {_TESTS / "browser", _TESTS / "faults"}


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "Run slow tests as well. So do CI, and a run of named files or folders."
    parser.addoption("--slow", action="store_true", help=text)


def pytest_configure(config: pytest.Config) -> None:
    """Whatever tests and their servers write lies in memory, where there is a disk of that: each
    write of a store is synced before its answer, and no test here cuts the power."""
    # Whoever names a file or folder wants all tests of it.
    named = config.args_source is config.ArgsSource.ARGS
    config.option.slow |= named or bool(os.environ.get("CI"))
    roomy = os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free >= _ROOM_BYTES
    if roomy and "TMPDIR" not in os.environ:
        os.environ["TMPDIR"] = tempfile.tempdir = str(_MEMORY)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """While modules are read there is nothing to collect, and more and more to look through."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.option.slow:
        return
    for each in items:
        if each.get_closest_marker("slow") or not _SLOW_ROOMS.isdisjoint(each.path.parents):
            each.add_marker(pytest.mark.skip(reason=SLOW))


def pytest_collection_finish() -> None:
    """What has been imported and collected stays to the end: the garbage collector, which would
    walk all of it again and again, need not look at it, as in a process that serves."""
    spare_the_collector()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests of the store run on Valkey, and among the slow tests on Redis where that is installed;
    elsewhere the second run is skipped. CI must have both, and runs the tests that break a whole
    Postdate on both, too."""
    if "store_server" not in metafunc.fixturenames:
        return
    test, ci = metafunc.definition, bool(os.environ.get("CI"))
    rooms = {"store", "faults", "chaos"} if ci else {"store"}
    servers: list[Any] = ["valkey"]
    is_of_both = test.get_closest_marker("both_servers")
    if is_of_both or test.path.relative_to(_TESTS).parts[0] in rooms:
        lacks = () if REDIS or ci else (pytest.mark.skip(reason=lack_of("redis-server")),)
        servers.append(pytest.param("redis", marks=(pytest.mark.slow, *lacks)))
    if test.get_closest_marker("time_passes"):
        servers.append("fakeredis")
    if test.get_closest_marker("valkey_only"):
        servers = ["valkey"]
    if len(servers) > 1:
        metafunc.parametrize("store_server", servers, indirect=True, scope="session")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Iterator[object]:
    """CI has every program that a test needs, or a skip would hide that nothing was tested."""
    report = yield
    if os.environ.get("CI") and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"CI skips no test. {report.longrepr[2]}"
    return report


def pytest_unconfigure(config: pytest.Config) -> None:
    """The last line of all says what was skipped for want of what. A process of xdist has no
    terminal: its reports are in the one that has."""
    terminal: Any = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None:
        skips = terminal.stats.get("skipped", [])
        line = closing_line(each.longrepr[2].removeprefix("Skipped: ") for each in skips)
        if line:
            terminal.write_line(line)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Iterator[None]:
    """A test that leaves signals blocked would have later ones start servers that do not end."""
    yield
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, ()), "the test left signals blocked"


@pytest.fixture(scope="session", autouse=True)
def _children_hear_ctrl_c() -> Iterator[None]:
    """A shell starts its background jobs deaf to SIGINT, and what they start would inherit that.

    A handler, even one that does nothing, is not inherited.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:
        signal.signal(signal.SIGINT, lambda *_: None)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def store_server(request: pytest.FixtureRequest) -> Iterator[str]:
    """Which server holds the store of a test: "valkey" unless `pytest_generate_tests` says "redis",
    or "fakeredis", where the test needs none."""
    name = getattr(request, "param", "valkey")
    with redis_embedded() if name == "redis" else nullcontext():
        yield name


@pytest.fixture(autouse=True)
def _no_stand_in(request: pytest.FixtureRequest) -> None:
    """Redis stands in for the embedded Valkey until a test asks for another server. Those that ask
    for none, and come in between, are to find Valkey."""
    if store_servers.stand_ins and "store_server" not in request.fixturenames:
        monkeypatch = request.getfixturevalue("monkeypatch")
        path = [each for each in sys.path if each not in store_servers.stand_ins]
        monkeypatch.setattr(sys, "path", path)
        monkeypatch.setattr(store_servers, "stand_ins", [])


@pytest.fixture(scope="session")
def valkey_server(store_server: str) -> Iterator[ValkeyProcess]:
    """A running server, with data of other tests: see `valkey`."""
    with ValkeyProcess() as server:
        yield server


@pytest.fixture
def valkey(valkey_server: ValkeyProcess) -> ValkeyProcess:
    """The shared server, emptied. For faults (kill, pause) make a ValkeyProcess of your own."""
    valkey_server.flush()
    return valkey_server


@pytest.fixture
def endless_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an account's searches look through does not count."""
    monkeypatch.setattr(Scans, "_count", AsyncMock(return_value=0))


@pytest.fixture
def hasty_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call of the store whose reply is lost is repeated at once: as often, without the pauses."""
    monkeypatch.setattr(server, "_PAUSES_S", (0.0,) * len(server._PAUSES_S))


@pytest.fixture
def own_valkey(store_server: str) -> Iterator[ValkeyProcess]:
    """A running server for one test, which may kill it."""
    with ValkeyProcess() as server:
        yield server


@pytest.fixture
def proxy(valkey: ValkeyProcess) -> Iterator[DroppingProxy]:
    """A proxy before the emptied server."""
    with DroppingProxy(valkey.socket) as between:
        yield between


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A target that remembers what arrived."""
    with Receiver() as target:
        yield target


@pytest.fixture(scope="session")
def postdate_up() -> Iterator[PostdateProcess]:
    """A first start of `postdate up`, with data of other tests by now."""
    with PostdateProcess() as up:
        yield up
