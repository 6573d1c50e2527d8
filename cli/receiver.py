"""The server of `postdate listen`: it reads every request, and answers all with one status."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any

import uvicorn

from cli.port import Port, reserve

_KEPT_BYTES = 1 << 20

Message = MutableMapping[str, Any]
OnReady = Callable[[Port], None]
OnRequest = Callable[[Message, bytes, int], None]


async def receive(
    host: str, number: int, status: int, on_ready: OnReady, on_request: OnRequest
) -> None:
    """Serves until SIGINT or SIGTERM. Raises PortError, or OSError for a host that is none.

    `on_request` is given the ASGI scope, the body, and `time.time_ns` at the end of the head.
    """
    port = await reserve(host, number, patience_s=0.0)
    config = uvicorn.Config(
        _app(status, on_request),
        loop="none",  # asyncio.run has chosen it
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=1,
    )
    server = _Server(config, lambda: on_ready(port))
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(signal_number, server.end)
    try:
        await server.serve(sockets=port.listen())
    finally:
        port.free()


def _app(status: int, on_request: OnRequest) -> Any:
    async def app(
        scope: Message,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        arrived_ns = time.time_ns()
        body = await _read(receive)
        headers = [] if status == 204 else [(b"content-length", b"0")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body"})
        on_request(scope, body, arrived_ns)

    return app


async def _read(receive: Callable[[], Awaitable[Message]]) -> bytes:
    """The body; of a long one the beginning is kept."""
    kept, more = b"", True
    while more:
        event = await receive()
        if len(kept) < _KEPT_BYTES:
            kept += event.get("body", b"")
        more = event.get("more_body", False)
    return kept


class _Server(uvicorn.Server):
    """Uvicorn that says when it listens, and takes its end for no failure."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self._on_ready()

    def end(self) -> None:
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the event loop's, see `receive`."""
        yield
