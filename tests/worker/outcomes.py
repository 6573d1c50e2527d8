"""Every kind of outcome that a fire can have, and the targets that bring it about."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from typing import Any, NamedTuple

import trustme

from scheduler.models import Delivery, Request
from tests.attack.names import host_address
from tests.worker.firing import server_context
from tests.worker.scripted import Line, Script, answer, playing

LIMIT_MS = 2000
_FIRST_REFUSES = "two-{n}.test"
MAX_RESPONSE_BYTES = 10_000
_TIMEOUT = "Timeout after 2 seconds"
_UNRESOLVED = "Host not found, or destination not allowed"
_BAD_CERTIFICATE = "TLS certificate is not valid"
_CLOSED = "Connection closed before an answer"
_MIDWAY = "Connection closed before the answer was complete"
_TOO_LARGE = "Answer headers are too large"
_BAD_HANDSHAKE = "TLS handshake failed"


class Kind(NamedTuple):
    """`ended`: what its fires come to, a status code, or the error message if there was none; or a
    tuple of these. `host` has the number of each, or an address of its own, in it."""

    name: str
    ended: int | str | tuple[int | str, ...]
    script: Script | None = None
    host: str = "127.0.0.1"
    tls: ssl.SSLContext | None = None
    fields: dict[str, Any] = {}  # noqa: RUF012

    @property
    def ends(self) -> tuple[int | str, ...]:
        return self.ended if isinstance(self.ended, tuple) else (self.ended,)

    def request(self, n: int, port: int, due_ms: int) -> Request:
        host = self.host.format(n=n, address=host_address(n))
        scheme = "https" if ".tls." in host else "http"
        return Request(
            due_ms, **{"method": "GET", "url": f"{scheme}://{host}:{port}/", **self.fields}
        )


async def targets(kinds: list[Kind], stack: contextlib.AsyncExitStack) -> dict[str, int]:
    """Starts a target for each kind, and returns its port; one without a script refuses."""
    ports = {}
    for kind in sorted(kinds, key=lambda kind: kind.script is None):  # or they got such a port
        here = "127.0.0.1" if kind.host == _FIRST_REFUSES else "0.0.0.0"
        playing_it = playing(_cut_off(kind.script or _silent), tls=kind.tls, host=here)
        if kind.script is None:
            async with playing_it as gone:
                ports[kind.name] = gone.port
        else:
            ports[kind.name] = (await stack.enter_async_context(playing_it)).port
    return ports


def _cut_off(script: Script) -> Script:
    """Nothing that is not taken is waited for at the end."""

    async def play(line: Line) -> None:
        try:
            await script(line)
        finally:
            line.writer.transport.abort()

    return play


def _answering(*pieces: bytes) -> Script:
    """The same answer to each request, a piece after the other."""

    async def script(line: Line) -> None:
        while True:
            await line.request()
            for piece in pieces:
                await line.say(piece)
                if piece is not pieces[-1]:
                    await asyncio.sleep(0.01)

    return script


def _ending(end: Callable[[Line], None], *pieces: bytes) -> Script:
    """Something in answer to the first request, and the end."""

    async def script(line: Line) -> None:
        await line.request()
        for piece in pieces:
            await line.say(piece)
            await asyncio.sleep(0.01)
        end(line)

    return script


def _shaking(end: Callable[[Line], None]) -> Script:
    """An end amid a handshake."""

    async def script(line: Line) -> None:
        await line.reader.read(1)
        end(line)

    return script


def _pouring(head: bytes, piece: bytes) -> Script:
    """An answer without an end."""

    async def script(line: Line) -> None:
        await line.request()
        await line.say(head)
        while not line.writer.is_closing():
            await line.say(piece)
            await asyncio.sleep(0)

    return script


def _close(line: Line) -> None:
    line.writer.close()


def _reset(line: Line) -> None:
    line.reset()


async def _silent(line: Line) -> None:
    await line.until_closed()


async def _closing_as_it_is_used(line: Line) -> None:
    await line.request()
    await line.say(_OK)
    await line.request()


async def _unread(line: Line) -> None:
    line.writer.transport.pause_reading()  # type: ignore[attr-defined]
    await asyncio.sleep(2 * LIMIT_MS / 1000)


async def _dripping(line: Line) -> None:
    await line.request()
    await line.say(_HEAD)
    while not line.writer.is_closing():
        await line.say(b"x")
        await asyncio.sleep(0.2)


async def _plain(line: Line) -> None:
    await line.reader.read(1)
    await line.say(answer(b"", "400 Bad Request"))


_OK = answer()
_ENDLESS = b"HTTP/1.1 200 OK\r\n\r\n"
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n"
_CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
_BUSY = answer(b"later", "503 Service Unavailable", "Retry-After: 0")
_ONCE = {"delivery": Delivery.AT_MOST_ONCE}
_LARGE = {"method": "POST", "body": b"x" * 200_000}
_ELSEWHERE = {"headers": {"Host": "elsewhere"}}
_AGAIN = {"retries": 1, "retry_delays_ms": (10,)}

_ANSWERS = [
    Kind("2xx", 200, _answering(_OK)),
    Kind("2xx in chunks", 200, _answering(_CHUNKED, b"1\r\nx\r\n", b"0\r\n\r\n")),
    Kind("2xx to HEAD", 200, _answering(_HEAD), fields={"method": "HEAD"}),
    Kind("2xx at most once", 200, _answering(_OK), fields=_ONCE),
    Kind("2xx until it closes", 200, _ending(_close, b"HTTP/1.1 200 OK\r\n\r\nall")),
    Kind("2xx and more", 200, _answering(_OK + b"HTTP/1.1")),
    Kind("2xx too large", 200, _pouring(_ENDLESS, b"x" * 10_000)),
    Kind("2xx on the second of two addresses", 200, _answering(_OK), _FIRST_REFUSES),
    Kind("2xx after a kept connection closed", 200, _closing_as_it_is_used),
    Kind("1xx and 2xx", 200, _answering(b"HTTP/1.1 103 Early\r\n\r\n", _OK)),
    Kind("101", 101, _answering(b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n")),
    Kind("3xx", 301, _answering(answer(b"", "301 Moved", "Location: /x"))),
    Kind("4xx", 404, _answering(answer(b"no", "404 Not Found", "Content-Type: text/plain"))),
    Kind("4xx in pieces", 404, _answering(b"HTTP/1.1 404 No\r\n", b"Content-Length: 0\r\n\r\n")),
    Kind("5xx", 503, _answering(_BUSY)),
    Kind("5xx, tried again", 503, _answering(_BUSY), fields=_AGAIN),
]
_BROKEN = [
    Kind("reset before a byte", "Connection reset", _ending(_reset)),
    Kind("reset after a byte", "Connection reset", _ending(_reset, _HEAD)),
    Kind("closed before a byte", _CLOSED, _ending(_close)),
    Kind("closed after a byte", _MIDWAY, _ending(_close, _HEAD)),
    Kind("closed, tried again", _CLOSED, _ending(_close), fields=_AGAIN),
    Kind("not HTTP", "Answer is not valid HTTP", _answering(b"220 smtp.example ESMTP\r\n")),
    Kind("a broken chunk", "Answer is not valid HTTP", _answering(_CHUNKED, b"x\r\n")),
    Kind("a head without an end", _TOO_LARGE, _pouring(b"HTTP/1.1 200 OK\r\n", b"A: b\r\n" * 999)),
    Kind("1xx without an end", _TOO_LARGE, _pouring(b"", b"HTTP/1.1 100 \r\n\r\n" * 99)),
    Kind("silence", _TIMEOUT, _silent, "{address}"),
    Kind("a byte now and then", _TIMEOUT, _dripping, "{address}"),
    Kind("a body that is not read", _TIMEOUT, _unread, "{address}", fields=_LARGE),
]
_UNREACHED = [
    Kind("refused", "Connection refused"),
    Kind("refused at both addresses", "Connection refused", None, _FIRST_REFUSES),
    Kind("no such name", _UNRESOLVED, None, "none-{n}.test"),
    Kind("a name that is not answered for", (_UNRESOLVED, _TIMEOUT), None, "dead-{n}.test"),
    Kind("a name with 4,000 addresses", _UNRESOLVED, None, "many-{n}.test"),
    Kind("a name that leads inside", _UNRESOLVED, None, "inside-{n}.test"),
    Kind("an address inside", _UNRESOLVED, None, "10.0.0.1"),
    Kind("expired", "Expired before execution", fields={"expires_at_ms": 1}),
    Kind("not to be sent", "Request cannot be sent as stored", _silent, fields=_ELSEWHERE),
]


def kinds(authority: trustme.CA) -> list[Kind]:
    good, names = server_context(authority.issue_cert("*.tls.test")), "host-{n}.tls.test"
    other = server_context(authority.issue_cert("other.test"))
    strange = server_context(trustme.CA().issue_cert("*.tls.test"))
    heavy = server_context(
        authority.issue_cert("*.tls.test", *(f"n{n:060}.test" for n in range(600)))
    )
    return [
        *_ANSWERS,
        *_BROKEN,
        *_UNREACHED,
        Kind("TLS: 2xx", 200, _answering(_OK), "one.tls.test", good),
        Kind("TLS: 2xx at most once", 200, _answering(_OK), names, good, _ONCE),
        Kind("TLS: reset", "Connection reset", _ending(_reset), names, good),
        Kind("TLS: closed", _CLOSED, _ending(_close), names, good),
        Kind("TLS: silence", _TIMEOUT, _silent, names, good),
        Kind("TLS: too large", 200, _pouring(_ENDLESS, b"x" * 10_000), names, good),
        Kind("handshake: nobody's certificate", _BAD_CERTIFICATE, _silent, names, strange),
        Kind("handshake: another name", _BAD_CERTIFICATE, _silent, names, other),
        Kind("handshake: a certificate too large", _BAD_HANDSHAKE, _silent, names, heavy),
        Kind("handshake: plain HTTP", _BAD_HANDSHAKE, _plain, names),
        Kind("handshake: closed", "Connection reset", _shaking(_close), names),
        Kind("handshake: reset", "Connection reset", _shaking(_reset), names),
        Kind("handshake: silence", _TIMEOUT, _silent, names),
        Kind("handshake: silence at both addresses", _TIMEOUT, _silent, "two-{n}.tls.test"),
    ]
