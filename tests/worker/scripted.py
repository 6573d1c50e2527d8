"""A target that plays scripts: what each connection does, in the order they come in."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable

from tests.support.waiting import DEADLINE_S

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class Line:
    """One accepted connection, as a script sees it."""

    def __init__(
        self, target: Target, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.target = target
        self.reader = reader
        self.writer = writer

    async def request(self) -> bytes:
        """The next request, whole; also noted in `target.requests`. Raises IncompleteReadError."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = _LENGTH.search(head)
        body = await self.reader.readexactly(int(length[1])) if length else b""
        self.target.requests.append(head + body)
        return head + body

    async def say(self, data: bytes) -> None:
        if self.writer.is_closing():  # a write would raise a RuntimeError with uvloop
            raise ConnectionResetError("The client hung up")
        self.writer.write(data)
        await self.writer.drain()

    def reset(self) -> None:
        """End with an RST instead of a FIN, unless the client's end came first."""
        plug = self.writer.get_extra_info("socket")
        if plug is not None:
            plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def until_closed(self) -> None:
        """Wait for the client to hang up; what it still says is dropped."""
        with contextlib.suppress(ConnectionError):
            while await self.reader.read(65536):
                pass


Script = Callable[[Line], Awaitable[None]]


class Target:
    """The server: its port, the requests it has read, the connections it has accepted."""

    def __init__(self, scripts: tuple[Script, ...]) -> None:
        self.scripts = scripts
        self.requests: list[bytes] = []
        self.accepted = 0
        self.ended = 0
        self.port = 0
        self._lines: set[asyncio.Task[None]] = set()

    def url(self, path: str = "/hook", host: str = "127.0.0.1", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"

    async def play(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        script = self.scripts[min(self.accepted, len(self.scripts) - 1)]
        self.accepted += 1
        try:
            await script(Line(self, reader, writer))
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.ended += 1
            writer.close()

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = asyncio.get_running_loop().create_task(self.play(reader, writer))
        self._lines.add(line)
        line.add_done_callback(self._lines.discard)

    async def stop(self) -> None:
        for line in self._lines:
            line.cancel()
        await asyncio.gather(*self._lines, return_exceptions=True)


@contextlib.asynccontextmanager
async def playing(
    *scripts: Script, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> AsyncIterator[Target]:
    """A target on a port of its own; the last script is played for all further connections."""
    target = Target(scripts)
    server = await asyncio.start_server(target.accept, host, 0, ssl=tls, limit=2**21, backlog=1024)
    target.port = server.sockets[0].getsockname()[1]
    try:
        yield target
    finally:
        server.close()
        await target.stop()


def answering(*answers: bytes) -> Script:
    """Reads a request and gives an answer, for each of the answers; then waits to be hung up on."""

    async def script(line: Line) -> None:
        for answer in answers:
            await line.request()
            await line.say(answer)
        await line.until_closed()

    return script


def answering_then_closing(*answers: bytes) -> Script:
    """Like `answering`, but the target hangs up after the last answer."""

    async def script(line: Line) -> None:
        for answer in answers:
            await line.request()
            await line.say(answer)

    return script


async def silent(line: Line) -> None:
    """Reads a request, and never answers."""
    await line.request()
    await line.until_closed()


async def dying(line: Line) -> None:
    """Answers once; hangs up on reading the second request."""
    await line.request()
    await line.say(answer())
    await line.request()


def answer(body: bytes = b"ok", status: str = "200 OK", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


async def until(condition: Callable[[], bool], limit_s: float = DEADLINE_S) -> None:
    """Wait for a condition, a few times a millisecond's tick; fails when the limit is over."""
    async with asyncio.timeout(limit_s):
        while not condition():
            await asyncio.sleep(0.001)
