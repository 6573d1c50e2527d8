"""The client: as many creates as the API takes, over connections that are kept."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from itertools import cycle

from cli.port import Port
from scheduler.errors import PostdateError
from scheduler.models import Request
from scheduler.times import format_iso8601

CONNECTIONS = 64
# For the last answers.
_PATIENCE_S = 30.0
_HEADERS = {"Authorization": "Bearer abcdef0123456789", "X-Order": "ord_8412"}
_BODY = {"order": "ord_8412", "action": "remind", "attempt": 1, "text": "Your trial ends tomorrow"}


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
