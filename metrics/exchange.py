"""One connection to the metrics port: a request, its answer, the end. Within limits, because
anybody may come."""

from __future__ import annotations

import asyncio
import http
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol, cast

import httptools

MAX_HEAD_BYTES = 8 * 1024
# From the connection to the last byte of the answer that the client has read.
LIMIT_S = 5.0
_METHODS = ("GET", "HEAD")


class Answer(NamedTuple):
    """What is told of a path."""

    status: int
    content_type: str
    body: bytes


def sentence(status: int, said: str) -> Answer:
    return Answer(status, "text/plain; charset=utf-8", f"{said}\n".encode())


Answers = Callable[[str], Awaitable[Answer]]
"""The answer to a GET of a path."""


class Doorkeeper(Protocol):
    """Who counts the connections."""

    def entered(self, exchange: Exchange) -> None: ...

    def left(self, exchange: Exchange) -> None: ...


class Exchange(asyncio.Protocol):
    """Reads a head of at most so many bytes, for at most so long; a body is not waited for."""

    def __init__(self, answers: Answers, door: Doorkeeper) -> None:
        self._answers = answers
        self._door = door
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._path = ""
        self._read_bytes = 0
        self._answering: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def abort(self) -> None:
        self._transport.abort()

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by descent
        self._timer = self._loop.call_later(LIMIT_S, self.abort)
        self._door.entered(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._door.left(self)
        if self._timer is not None:
            self._timer.cancel()
        if self._answering is not None:
            self._answering.cancel()

    def data_received(self, data: bytes) -> None:
        if self._answering is not None or self._transport.is_closing():
            return
        self._read_bytes += len(data)
        if self._read_bytes > MAX_HEAD_BYTES:
            self._say(sentence(431, "The head is too large."))
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._say(sentence(400, "This is no HTTP request."))

    # What the parser calls

    def on_url(self, url: bytes) -> None:
        if self._answering is None:  # else it is a second request's, which nobody reads
            self._path += url.decode("latin-1")

    def on_headers_complete(self) -> None:
        if self._answering is None:
            method = self._parser.get_method().decode()
            self._answering = self._loop.create_task(self._answer(method))

    async def _answer(self, method: str) -> None:
        if method not in _METHODS:
            self._say(sentence(405, "GET and HEAD are what is answered here."))
            return
        self._say(await self._answers(self._path.partition("?")[0]), silent=method == "HEAD")

    def _say(self, answer: Answer, *, silent: bool = False) -> None:
        head = (
            f"HTTP/1.1 {answer.status} {http.HTTPStatus(answer.status).phrase}\r\n"
            f"Content-Type: {answer.content_type}\r\n"
            f"Content-Length: {len(answer.body)}\r\n"
            "Connection: close\r\n\r\n"
        )
        self._transport.write(head.encode() + (b"" if silent else answer.body))
        self._transport.close()
