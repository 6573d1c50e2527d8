"""Knowing that the children of `up` are ready: the API over HTTP, workers by a byte each."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence

from cli.child import Child
from cli.port import Port
from scheduler.errors import PostdateError

_PATIENCE_S = 60.0
_ANSWER_PATIENCE_S = 5.0
_POLL_S = 0.02
_QUESTION = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


class NotReadyError(PostdateError):
    """A child did not get ready; the sentence says which."""


async def until_ready(
    port: Port, ours: socket.socket, api: Child, workers: Sequence[Child]
) -> None:
    """Returns once the API serves and every worker has said that it is ready."""
    ready = asyncio.create_task(_all_ready(port, ours, len(workers)))
    children = [api, *workers]
    ends = [asyncio.create_task(child.wait()) for child in children]
    try:
        await asyncio.wait([ready, *ends], timeout=_PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            raise NotReadyError(_why_not(children))
        ready.result()
    finally:
        for task in (ready, *ends):
            task.cancel()
        await asyncio.gather(ready, *ends, return_exceptions=True)


def _why_not(children: Sequence[Child]) -> str:
    for child in children:
        if not child.running:
            return f"The {child.name} process {child.ended} before it was ready."
    return f"Postdate was not ready after {_PATIENCE_S:.0f} s."


async def _all_ready(port: Port, ours: socket.socket, workers: int) -> None:
    await _workers_ready(ours, workers)
    while not await _api_ready(port):  # noqa: ASYNC110 - it is another process's state
        await asyncio.sleep(_POLL_S)


async def _workers_ready(ours: socket.socket, missing: int) -> None:
    ours.setblocking(False)
    while missing > 0:
        missing -= len(await asyncio.get_running_loop().sock_recv(ours, missing))


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
