"""Knowing that the API serves: by asking it, as a load balancer would."""

from __future__ import annotations

import asyncio

from cli.children import NotReadyError
from cli.port import Port

_ANSWER_PATIENCE_S = 5.0
_POLL_S = 0.02
_QUESTION = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


async def until_served(port: Port, patience_s: float) -> None:
    """Returns once /readyz answers 200. Raises NotReadyError if it does not within `patience_s`."""
    try:
        async with asyncio.timeout(patience_s):
            while not await _api_ready(port):  # noqa: ASYNC110 - it is another process's state
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        raise NotReadyError(f"The API did not serve after {patience_s:.0f} s.") from None


async def _api_ready(port: Port) -> bool:
    try:
        async with asyncio.timeout(_ANSWER_PATIENCE_S):
            reader, writer = await asyncio.open_connection(port.local_address, port.number)
            try:
                writer.write(_QUESTION)
                status_line = await reader.readline()
            finally:
                writer.close()
    except (OSError, TimeoutError, ValueError):
        return False
    return status_line.split(b" ")[1:2] == [b"200"]
