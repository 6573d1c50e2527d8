"""The metrics port of a process: /metrics, /healthz, /readyz.

It shares the event loop with the work, so it costs little: few connections at a time, few new ones
a second, one answer for all who ask within a second.
"""

from __future__ import annotations

import asyncio
import http
import re
import socket
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Protocol

import structlog

from metrics.common import LoopLag
from metrics.families import CONTENT_TYPE, Metric, text
from scheduler.runtime.settings import Settings

# From the connection to the last byte of the answer that the client has read.
LIMIT_S = 5.0
_MOST_AT_ONCE = 16
# After each connection: 50 a second at most. Others wait in the system's queue, and cost nothing.
_PAUSE_S = 0.02
_BACKLOG = 64
# How old an answer may be.
_KEPT_S = 1.0
# A port that is taken, perhaps by the process that we replace and which still drains.
_TRY_AGAIN_S = 2.0
_NOT_OURS = (
    "cannot be listened on; everything works but metrics and health, until it is free."
    " POSTDATE_METRICS_PORT chooses another one, 0 none"
)
_REQUEST_LINE = re.compile(rb"(GET|HEAD) ([^ ?]+)\S* HTTP/1\.[01]\r\n")
_log = structlog.get_logger(__name__)


class Source(Protocol):
    """What a process reports."""

    async def look(self) -> None:
        """Reads what `families` needs from elsewhere. Does not raise."""

    def families(self) -> Iterable[Metric]: ...

    async def unready(self) -> str | None:
        """Why it should get no work, as a sentence; None if it should."""


@asynccontextmanager
async def serving_metrics(
    settings: Settings, source: Callable[[LoopLag], Source]
) -> AsyncIterator[None]:
    """Serves within it, if the settings name a port; `source` is not called otherwise."""
    if not settings.metrics_port:
        yield
        return
    pulse = LoopLag()
    port = MetricsPort(settings.metrics_host, settings.metrics_port, source(pulse), pulse)
    serving = asyncio.create_task(port.run())
    try:
        yield
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        pulse.close()


class MetricsPort:
    def __init__(self, host: str, number: int, source: Source, pulse: LoopLag) -> None:
        self._at = host, number
        self._source = source
        self._pulse = pulse
        self._loop = asyncio.get_running_loop()
        self._serving: dict[asyncio.Task[None], None] = {}
        self._made: dict[str, tuple[float, asyncio.Task[bytes]]] = {}

    async def run(self) -> None:
        """Serves until it is cancelled. A taken port is logged once, and tried until it is free."""
        try:
            with await self._listening() as listener:
                while True:
                    await self._accept(listener)
                    await asyncio.sleep(_PAUSE_S)
        finally:
            unended = [*self._serving, *(made for _, made in self._made.values())]
            for each in unended:
                each.cancel()
            await asyncio.gather(*unended, return_exceptions=True)

    async def _listening(self) -> socket.socket:
        host, number = self._at
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        warned = False
        while True:
            try:
                listener = socket.create_server(
                    self._at, family=family, backlog=_BACKLOG, dualstack_ipv6=":" in host
                )
            except (OSError, ValueError) as error:  # ValueError: IPv6 is off
                if not warned:
                    _log.warning(f"port {number} on {host} {_NOT_OURS}", error=str(error))
                warned = True
                await asyncio.sleep(_TRY_AGAIN_S)
            else:
                listener.setblocking(False)
                return listener

    async def _accept(self, listener: socket.socket) -> None:
        """The oldest connection gives way to a new one."""
        try:
            connection, _ = await self._loop.sock_accept(listener)
        except OSError:  # it has gone again, or we have no file left for it
            return
        serving = self._loop.create_task(self._serve(connection))
        self._serving[serving] = None
        serving.add_done_callback(self._serving.pop)
        if len(self._serving) > _MOST_AT_ONCE:
            next(iter(self._serving)).cancel()

    async def _serve(self, connection: socket.socket) -> None:
        """A request, its answer, the end; a body is not waited for."""
        try:
            reader, writer = await asyncio.open_connection(sock=connection)
        except OSError:
            connection.close()
            return
        try:
            async with asyncio.timeout(LIMIT_S):
                writer.write(await self._answer_to(reader))
                writer.close()
                await writer.wait_closed()
        except (OSError, EOFError):  # it has gone, or took too long
            pass
        finally:
            writer.transport.abort()

    async def _answer_to(self, reader: asyncio.StreamReader) -> bytes:
        try:
            request = _REQUEST_LINE.match(await reader.readuntil(b"\r\n\r\n"))
        except asyncio.LimitOverrunError:
            request = None
        if request is None:
            return _answer(400, b"Only short GET and HEAD requests are answered here.\n")
        method, path = request.groups()
        answer = await self._answer(path.decode("latin-1"))
        return answer if method == b"GET" else answer[: answer.index(b"\r\n\r\n") + 4]

    async def _answer(self, path: str) -> bytes:
        if path == "/healthz":
            if self._pulse.beats:
                return _answer(200, b"ok\n")
            return _answer(503, b"The event loop has stood still for seconds.\n")
        if path in ("/metrics", "/readyz"):
            return await asyncio.shield(self._made_of_late(path))
        return _answer(404, b"Here are /metrics, /healthz and /readyz.\n")

    def _made_of_late(self, path: str) -> asyncio.Task[bytes]:
        """One answer for all who ask within a second."""
        at_s, made = self._made.get(path, (0.0, None))
        if made is None or (made.done() and self._loop.time() - at_s > _KEPT_S):
            made = self._loop.create_task(self._make(path))
            self._made[path] = (self._loop.time(), made)
        return made

    async def _make(self, path: str) -> bytes:
        try:
            if path == "/readyz":
                reason = await self._source.unready()
                return _answer(503 if reason else 200, f"{reason or 'ready'}\n".encode())
            await self._source.look()
            parts = []
            for family in self._source.families():
                parts.append(text(family))
                await asyncio.sleep(0)  # due work does not wait for all of it
            return _answer(200, b"".join(parts), CONTENT_TYPE)
        except Exception:
            _log.exception("metrics cannot be read", path=path)
            return _answer(500, b"Internal error.\n")


def _answer(status: int, body: bytes, content_type: str = "text/plain; charset=utf-8") -> bytes:
    head = (
        f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
