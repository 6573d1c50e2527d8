"""The target of the worker: answers 200, and notes when each request was complete."""

from __future__ import annotations

import asyncio
import re
import time
from typing import NamedTuple, cast

from scheduler.times import parse_iso8601

_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)", re.IGNORECASE)
_DUE = re.compile(rb"\r\npostdate-trigger-at: (\S+)", re.IGNORECASE)
_BACKLOG = 4096


class Arrival(NamedTuple):
    """When a request was complete, and the triggerAt that it carries."""

    at_ns: int
    due: bytes

    @property
    def late_ms(self) -> float:
        return self.at_ns / 1e6 - parse_iso8601(self.due.decode())


class Target:
    """Runs in this process, which is idle while requests are fired."""

    def __init__(self) -> None:
        self.arrivals: list[Arrival] = []
        self._wanted = 0
        self._all_came = asyncio.Event()
        self._server: asyncio.Server | None = None
        self.url = ""

    async def listen(self) -> str:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _Connection(self), "127.0.0.1", 0, backlog=_BACKLOG
        )
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/hook"
        return self.url

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    def expect(self, count: int) -> None:
        """Forgets what came, and starts counting."""
        self.arrivals = []
        self._wanted = count
        self._all_came.clear()

    async def all_came(self) -> list[Arrival]:
        """Waits for the expected number; returns the arrivals in order."""
        await self._all_came.wait()
        return self.arrivals

    def took(self, due: bytes) -> None:
        self.arrivals.append(Arrival(time.time_ns(), due))
        if len(self.arrivals) == self._wanted:
            self._all_came.set()


class _Connection(asyncio.Protocol):
    """Of a worker of ours: its requests have a Content-Length or no body."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._unread = b""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's inherits nothing

    def data_received(self, data: bytes) -> None:
        self._unread += data
        while (head_bytes := self._unread.find(b"\r\n\r\n") + 4) > 3:
            head = self._unread[:head_bytes]
            length = _LENGTH.search(head)
            whole_bytes = head_bytes + (int(length[1]) if length else 0)
            if len(self._unread) < whole_bytes:
                return
            self._unread = self._unread[whole_bytes:]
            due = _DUE.search(head)
            self._target.took(due[1] if due else b"")
            self._transport.write(_ANSWER)
