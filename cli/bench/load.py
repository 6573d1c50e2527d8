"""Both ends of the bench: a client that makes as many creates as the API takes, over connections
that are kept, and the target of the worker."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Sequence
from itertools import cycle
from typing import cast

from cli.serving.port import Port
from scheduler.errors import PostdateError
from scheduler.models import Request
from scheduler.times import format_iso8601

CONNECTIONS = 64
# For the last answers.
_PATIENCE_S = 30.0
_HEADERS = {"Authorization": "Bearer abcdef0123456789", "X-Order": "ord_8412"}
_BODY = {"order": "ord_8412", "action": "remind", "attempt": 1, "text": "Your trial ends tomorrow"}
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)", re.IGNORECASE)
_DUE = re.compile(rb"\r\npostdate-trigger-at: (\S+)", re.IGNORECASE)
_BACKLOG = 4096


def stored_request(url: str, trigger_at_ms: int) -> Request:
    """A request of about 190 bytes, for fires and for `creating`."""
    body = json.dumps(_BODY, separators=(",", ":")).encode()
    return Request(trigger_at_ms, "POST", url, _HEADERS, body)


def creating(key: str, trigger_at_ms: int) -> bytes:
    payload = {
        "targetUrl": "https://example.com/webhooks/orders",
        "targetMethod": "POST",
        "targetHeaders": _HEADERS,
        "targetBody": _BODY,
        "triggerAt": format_iso8601(trigger_at_ms),
    }
    body = json.dumps(payload).encode()
    head = (
        f"POST /schedule HTTP/1.1\r\nHost: 127.0.0.1\r\nx-api-key: {key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def load(port: Port, requests: Sequence[bytes], seconds: float) -> tuple[int, float]:
    """Sends the requests over and over for that long; returns how many were accepted, and in how
    many seconds. Raises PostdateError if the API refuses one."""
    try:
        made = [
            await asyncio.open_connection(port.address, port.number) for _ in range(CONNECTIONS)
        ]
        began_s = time.monotonic()
        async with asyncio.timeout(seconds + _PATIENCE_S):
            accepted = await asyncio.gather(
                *(
                    _send(reader, writer, request, began_s + seconds)
                    for (reader, writer), request in zip(made, cycle(requests), strict=False)
                )
            )
    except (OSError, EOFError) as error:
        raise PostdateError(f"The API does not answer: {error!r}.") from None
    return sum(accepted), time.monotonic() - began_s


async def _send(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes, until_s: float
) -> int:
    """Sends the next when the last was answered; returns how many were accepted."""
    accepted = 0
    try:
        while not accepted or time.monotonic() < until_s:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            body = await reader.readuntil(b"}")
            if not head.startswith(b"HTTP/1.1 201"):
                raise PostdateError(f"The API refused a schedule: {body.decode(errors='replace')}")
            accepted += 1
    finally:
        writer.transport.abort()
    return accepted


class LoadTarget:
    """Answers 200, and notes when each request was complete (ns since the Unix epoch), and its
    triggerAt. This process is idle meanwhile."""

    def __init__(self) -> None:
        self.arrivals: list[tuple[int, bytes]] = []
        self._wanted = 0
        self._all_came = asyncio.Event()
        self._server: asyncio.Server | None = None
        self.url = ""

    async def listen(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _Connection(self), "127.0.0.1", 0, backlog=_BACKLOG
        )
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/hook"

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    def expect(self, count: int) -> None:
        self.arrivals = []
        self._wanted = count
        self._all_came.clear()

    async def all_came(self) -> list[tuple[int, bytes]]:
        """Waits for the expected number; returns the arrivals in order."""
        await self._all_came.wait()
        return self.arrivals

    def took(self, due: bytes) -> None:
        self.arrivals.append((time.time_ns(), due))
        if len(self.arrivals) == self._wanted:
            self._all_came.set()


class _Connection(asyncio.Protocol):
    """Of a worker of ours: its requests have a Content-Length or no body."""

    def __init__(self, target: LoadTarget) -> None:
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
