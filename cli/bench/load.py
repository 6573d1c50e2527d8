"""The client: as many creates as the API takes, over connections that are kept."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from functools import partial
from itertools import cycle, islice
from typing import NamedTuple, cast

from cli.port import Port
from scheduler.errors import PostdateError
from scheduler.models import Request
from scheduler.times import format_iso8601

CONNECTIONS = 64
_HEADERS = {"Authorization": "Bearer abcdef0123456789", "X-Order": "ord_8412"}
_BODY = {"order": "ord_8412", "action": "remind", "attempt": 1, "text": "Your trial ends tomorrow"}


class Loaded(NamedTuple):
    """What a stretch of load came to."""

    accepted: int
    took_s: float


def stored_request(url: str, trigger_at_ms: int) -> Request:
    """About 190 bytes: what is fired here, and what `creating` has accepted."""
    body = json.dumps(_BODY, separators=(",", ":")).encode()
    return Request(trigger_at_ms, "POST", url, _HEADERS, body)


def creating(key: str, trigger_at_ms: int) -> bytes:
    """The whole HTTP request of one create."""
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


async def load(port: Port, requests: Sequence[bytes], seconds: float) -> Loaded:
    """Sends them over and over for that long. Raises PostdateError if the API refuses one."""
    loop = asyncio.get_running_loop()
    made: list[_Connection] = []
    for request in islice(cycle(requests), CONNECTIONS):
        _, connection = await loop.create_connection(
            partial(_Connection, request), port.address, port.number
        )
        made.append(connection)
    began_s = time.monotonic()
    for each in made:
        each.begin()
    await asyncio.wait([each.over for each in made], timeout=seconds)
    for each in made:  # which send no more, and are answered what they have sent
        each.ending = True
    await asyncio.wait([each.over for each in made], timeout=30)
    took_s = time.monotonic() - began_s
    for each in made:
        each.close()
    refusals = [each.refused for each in made if each.refused]
    if refusals:
        raise PostdateError(f"The API refused a schedule: {refusals[0]}")
    return Loaded(sum(each.accepted for each in made), took_s)


class _Connection(asyncio.Protocol):
    """Sends the next request when the answer to the one before has come."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._unread = b""
        self._transport: asyncio.Transport
        self.over = asyncio.get_running_loop().create_future()
        self.accepted = 0
        self.refused = ""
        self.ending = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's inherits nothing

    def begin(self) -> None:
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """An answer may come in two pieces, head and body; a `}` ends it."""
        self._unread += data
        if not self._unread.endswith(b"}"):
            return
        answer, self._unread = self._unread, b""
        if not answer.startswith(b"HTTP/1.1 201"):
            self._end(answer.decode(errors="replace").rpartition("\n")[2])
            return
        self.accepted += 1
        if self.ending:
            self._end()
        else:
            self._transport.write(self._request)

    def connection_lost(self, error: Exception | None) -> None:
        self._end("it closed the connection")

    def close(self) -> None:
        self._transport.abort()

    def _end(self, refused: str = "") -> None:
        if not self.over.done():
            self.refused = refused
            self.over.set_result(None)
