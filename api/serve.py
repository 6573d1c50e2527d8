"""One API process: uvicorn on uvloop and httptools, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Callable, Iterator, Sequence

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from api.app import create_app
from api.service import Service
from scheduler.collector import spare_the_collector
from scheduler.errors import SettingsError, StoreMisconfigured
from scheduler.settings import Settings

_BACKLOG = 2048
_KEEP_ALIVE_S = 75
_DRAIN_S = 10
_BAD_REQUEST = (
    b'{"error":"The request is not valid HTTP",'
    b'"details":[{"field":"request","message":"It is not valid HTTP."}]}'
)


def serve(
    settings: Settings,
    *,
    parent_fd: int | None = None,
    listeners: Sequence[socket.socket] = (),
    on_ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve the API until SIGTERM, SIGINT or EOF on `parent_fd`, then drain and return.

    Draining: /readyz answers 503, no new connection is accepted, requests in flight finish,
    for ten seconds at most. A second signal ends it at once. `parent_fd` is the read end of a
    pipe whose other end the parent holds: it breaks when the parent dies, however it dies.
    `listeners` are sockets that a parent has bound for several processes; without any it listens
    where the settings say. `on_ready` is called once requests are accepted.

    Raises SettingsError if the address cannot be listened on, StoreMisconfigured if the store
    answers but cannot be used.
    """
    listeners = list(listeners) or _listen(settings.host, settings.port)
    app = create_app(settings)
    server = _Server(uvicorn_config(app), app.state.service, parent_fd, on_ready)
    with contextlib.ExitStack() as stack:
        for listener in listeners:
            stack.enter_context(listener)
        server.run(listeners)
    if server.misconfigured is not None:
        raise server.misconfigured


def uvicorn_config(app: object) -> uvicorn.Config:
    """How an app of ours is served; benchmarks serve others the same way."""
    return uvicorn.Config(
        app,  # type: ignore[arg-type]  # litestar's own names for the ASGI types
        loop="uvloop",
        http=_Protocol,
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=_BACKLOG,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_DRAIN_S,
    )


def _listen(host: str, port: int) -> list[socket.socket]:
    """Sockets on every address of `host`, before anything is started: a taken port is one
    sentence."""
    listeners: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        ):
            listeners.append(socket.socket(family, kind, protocol))
            # Also what lets us bind a port that `up` holds for us without listening on it.
            listeners[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listeners[-1].setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listeners[-1].bind(address)
            listeners[-1].listen(_BACKLOG)
    except OSError as error:
        for listener in listeners:
            listener.close()
        raise SettingsError(f"Cannot listen on {host}:{port}: {error.strerror}.") from None
    return listeners


class _Server(uvicorn.Server):
    """Uvicorn, ending the way Postdate ends."""

    def __init__(
        self,
        config: uvicorn.Config,
        service: Service,
        parent_fd: int | None,
        on_ready: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self.misconfigured: StoreMisconfigured | None = None
        self._service = service
        self._parent_fd = parent_fd
        self._on_ready = on_ready
        service.on_misconfigured = self._give_up

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        if self._parent_fd is not None:
            os.set_blocking(self._parent_fd, False)
            loop = asyncio.get_running_loop()
            loop.add_reader(self._parent_fd, self._watch_parent, self._parent_fd)
        await super().serve(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        spare_the_collector()
        if self.started:
            self._on_ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As uvicorn has it, but a process that was asked to end and did is not a failure: the
        signal is not raised again afterwards."""
        names = (signal.SIGINT, signal.SIGTERM)
        before = {name: signal.signal(name, self.handle_exit) for name in names}
        try:
            yield
        finally:
            for name, handler in before.items():
                signal.signal(name, handler)

    def handle_exit(self, sig: int, frame: object) -> None:
        if self.should_exit:
            self.force_exit = True
        self._drain()

    def _drain(self) -> None:
        self._service.draining = True
        self.should_exit = True

    def _watch_parent(self, fd: int) -> None:
        try:
            if os.read(fd, 4096):
                return  # a parent that speaks is alive
        except BlockingIOError:
            return
        except ConnectionResetError:
            pass  # it went without having read what we had said
        asyncio.get_running_loop().remove_reader(fd)
        self._drain()

    def _give_up(self, error: StoreMisconfigured) -> None:
        self.misconfigured = error
        self._drain()


class _Protocol(HttpToolsProtocol):
    """Uvicorn's, but what is no HTTP at all is answered in our own shape as well."""

    def send_400_response(self, msg: str) -> None:
        lines = [
            b"HTTP/1.1 400 Bad Request",
            b"content-type: application/json",
            b"content-length: %d" % len(_BAD_REQUEST),
            b"connection: close",
        ]
        self.transport.write(b"\r\n".join(lines) + b"\r\n\r\n" + _BAD_REQUEST)
        self.transport.close()
