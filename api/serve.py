"""One API process: uvicorn on uvloop and httptools, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import math
import resource
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import structlog
import uvicorn

from api.app import App, create_app
from api.door.connections import ConnectionLimits
from api.door.fast_path import FastPath, KnownHeads
from api.door.protocol import Protocol
from api.limits import FOR_HEALTH
from api.metrics_source import ApiSource
from api.service import Service
from metrics.port import serving_metrics
from scheduler.errors import StoreMisconfigured
from scheduler.runtime.collector import spare_the_collector
from scheduler.runtime.settings import Settings

_log = structlog.get_logger()

_BACKLOG = 2048
_SEND_BUFFER_BYTES = 256 * 1024
_DRAIN_S = 10
# Beside connections of clients: 128 to the store, files that it serves.
_SPARE_FILES = 160
# How long a thread that renders a page keeps the event loop waiting; Python has 5 ms.
_SWITCH_S = 0.0002
_FEWEST = 16


def serve(
    settings: Settings,
    listeners: list[socket.socket],
    *,
    parent_fd: int | None = None,
    on_ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve the API until SIGTERM, SIGINT or EOF on `parent_fd`, then drain and return.

    Draining: /readyz answers 503, no new connection is accepted, requests in flight finish, for ten
    seconds at most. A second signal ends it at once. `parent_fd` is the read end of a pipe that the
    parent holds. The `listeners` are closed at the end. `on_ready` is called once requests are
    accepted and the store is open; until then they are answered 503.

    Raises StoreMisconfigured if the store answers but cannot be used.
    """
    sys.setswitchinterval(_SWITCH_S)
    make, path = (create_app, FastPath) if settings.qstash == "off" else _with_door()
    app = make(settings)
    guard = ConnectionLimits(settings)
    service: Service = app.state.service
    config = uvicorn_config(app, guard, service, path)
    server = _Server(config, service, guard, parent_fd, on_ready)
    with contextlib.ExitStack() as stack:
        for listener in listeners:
            stack.enter_context(listener)
            # Connections inherit it: else each client that does not read keeps megabytes here.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
        server.run(listeners)
    if server.misconfigured is not None:
        raise server.misconfigured


def _with_door() -> tuple[Callable[[Settings], App], type[FastPath]]:
    """Imported by those alone who want it."""
    from api.qstash.app import create_door
    from api.qstash.fast_path import MessageFastPath

    return create_door, MessageFastPath


def uvicorn_config(
    app: object,
    guard: ConnectionLimits | None = None,
    service: Service | None = None,
    path: type[FastPath] = FastPath,
) -> uvicorn.Config:
    """How an app is served, and creates of a service, past the app; benchmarks serve other apps the
    same way."""
    guard = guard or ConnectionLimits(Settings())
    protocol: Callable[..., Protocol] = functools.partial(Protocol, guard)
    if service is not None:
        protocol = functools.partial(path, service, KnownHeads(), guard)
    return uvicorn.Config(
        app,  # type: ignore[arg-type]  # litestar's own names for the ASGI types
        loop="uvloop",
        http=protocol,  # type: ignore[arg-type]  # it is only called
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=_BACKLOG,
        timeout_keep_alive=math.ceil(guard.idle_s),
        timeout_graceful_shutdown=_DRAIN_S,
    )


def _fit_open_files(guard: ConnectionLimits) -> None:
    """Allows fewer connections than the settings where the limit of open files is too low: at that
    limit the system would refuse all of them, health checks included."""
    most_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most_files == resource.RLIM_INFINITY:
        return
    asked, open_files = guard.connections.most, sum(1 for _ in Path("/dev/fd").iterdir())
    free = most_files - open_files - _SPARE_FILES - FOR_HEALTH
    guard.connections.most = min(asked, max(free, _FEWEST))
    if guard.connections.most < asked:
        _log.warning(
            "the limit of open files allows fewer connections than the settings",
            open_files=most_files,
            connections=guard.connections.most,
        )


class _Server(uvicorn.Server):
    """Uvicorn, ending the way Postdate ends."""

    def __init__(
        self,
        config: uvicorn.Config,
        service: Service,
        guard: ConnectionLimits,
        parent_fd: int | None,
        on_ready: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self.misconfigured: StoreMisconfigured | None = None
        self._service = service
        self._guard = guard
        self._parent_fd = parent_fd
        self._on_ready = on_ready
        service.on_misconfigured = self._give_up

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        if self._parent_fd is not None:
            loop = asyncio.get_running_loop()
            loop.add_reader(self._parent_fd, self._on_parent_gone, loop, self._parent_fd)
        source = functools.partial(ApiSource, self._service, self._guard)
        async with serving_metrics(self._guard.settings, source):
            await super().serve(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        _fit_open_files(self._guard)
        await super().startup(sockets)
        spare_the_collector()
        if not self.started or self.misconfigured is not None:
            return
        if self._service.opened is not None:
            self._on_ready()
        else:
            self._service.on_opened = self._on_ready

    def handle_exit(self, sig: int, frame: object) -> None:
        """Uvicorn's own notes the signal and raises it again at the end: a failure, it seems."""
        if self.should_exit:
            self.force_exit = True
        self._drain()

    def _drain(self) -> None:
        self._service.draining = True
        self.should_exit = True

    def _on_parent_gone(self, loop: asyncio.AbstractEventLoop, fd: int) -> None:
        """A parent never writes to its children, so readable means end-of-file."""
        loop.remove_reader(fd)
        self._drain()

    def _give_up(self, error: StoreMisconfigured) -> None:
        self.misconfigured = error
        self._drain()
