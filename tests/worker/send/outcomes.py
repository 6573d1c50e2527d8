"""Every kind of outcome that a fire can have, and the targets that bring it about."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from typing import Any, NamedTuple

import trustme

from scheduler.models import Delivery, Request
from tests.attack.names import host_address
from tests.worker.scripted import Line, Script, answer, dying, playing, silent
from tests.worker.send.firing import server_context

LIMIT_MS, MAX_RESPONSE_BYTES = 2000, 10_000
_FIRST_REFUSES = "two-{n}.test"
_TIMEOUT = "Timeout after 2 seconds"
_UNRESOLVED = "Host not found, or destination not allowed"
_BAD_CERTIFICATE = "TLS certificate is not valid"
_CLOSED = "Connection closed before an answer"
_MIDWAY = "Connection closed before the answer was complete"
_NOT_HTTP = "Answer is not valid HTTP"
_TOO_LARGE = "Answer headers are too large"
_BAD_HANDSHAKE = "TLS handshake failed"
_RESET, _REFUSED = "Connection reset", "Connection refused"


class Kind(NamedTuple):
    """`ended`: what its fires come to, a status code, or how the error message begins if there was
    none.
    `host` has the number of each, or an address of its own, in it."""

    name: str
    ended: int | str
    script: Script | None = None
    host: str = "127.0.0.1"
    tls: ssl.SSLContext | None = None
    fields: dict[str, Any] = {}  # noqa: RUF012

    def request(self, n: int, port: int, due_ms: int) -> Request:
        host = self.host.format(n=n, address=host_address(n))
        scheme = "https" if ".tls." in host else "http"
        return Request(
            due_ms, **{"method": "GET", "url": f"{scheme}://{host}:{port}/", **self.fields}
        )


async def targets(kinds: list[Kind], stack: contextlib.AsyncExitStack) -> dict[str, int]:
    """Starts a target for each kind, and returns its port; one without a script refuses."""
    ports = {}
    for kind in kinds:
        here = "127.0.0.1" if kind.host == _FIRST_REFUSES else "0.0.0.0"
        if kind.script is None:  # its port is taken, and without a listener
            taken = stack.enter_context(socket.socket())
            taken.bind((here, 0))
            ports[kind.name] = taken.getsockname()[1]
        else:
            playing_it = playing(_cut_off(kind.script), tls=kind.tls, host=here)
            ports[kind.name] = (await stack.enter_async_context(playing_it)).port
    return ports


def _cut_off(script: Script) -> Script:
    """At the end no client has to take the rest."""

    async def play(line: Line) -> None:
        try:
            await script(line)
        finally:
            line.writer.transport.abort()

    return play


def _always(*pieces: bytes) -> Script:
    """The same answer to each request, a piece after the other."""

    async def script(line: Line) -> None:
        while True:
            await line.request()
            for piece in pieces:
                await line.say(piece)
                if piece is not pieces[-1]:
                    await asyncio.sleep(0.01)

    return script


def _ending(*pieces: bytes, by_reset: bool = False) -> Script:
    """Something in answer to the first bytes, and the end."""

    async def script(line: Line) -> None:
        await line.reader.read(1)
        for piece in pieces:
            await line.say(piece)
            await asyncio.sleep(0.01)
        line.reset() if by_reset else line.writer.close()

    return script


def _pouring(head: bytes, piece: bytes, every_s: float = 0) -> Script:
    """An answer without an end."""

    async def script(line: Line) -> None:
        await line.request()
        await line.say(head)
        while not line.writer.is_closing():
            await line.say(piece)
            await asyncio.sleep(every_s)

    return script


async def _greeting(line: Line) -> None:
    await line.say(b"220 smtp.example ESMTP\r\n")
    await line.until_closed()


async def _unread(line: Line) -> None:
    line.writer.transport.pause_reading()  # type: ignore[attr-defined]
    await asyncio.sleep(2 * LIMIT_MS / 1000)


_OK = _always(answer())
_ENDLESS = b"HTTP/1.1 200 OK\r\n\r\n"
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n"
_CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
_BUSY = _always(answer(b"later", "503 Service Unavailable", "Retry-After: 0"))
_LARGE = _pouring(_ENDLESS, b"x" * 10_000)
_ONCE = {"delivery": Delivery.AT_MOST_ONCE}
_BODY = {"method": "POST", "body": b"x" * 200_000}
_AGAIN = {"retries": 1, "retry_delays_ms": (10,)}

_PLAIN = [
    Kind("2xx", 200, _OK),
    Kind("2xx in chunks", 200, _always(_CHUNKED, b"1\r\nx\r\n", b"0\r\n\r\n")),
    Kind("2xx to HEAD", 200, _always(_HEAD), fields={"method": "HEAD"}),
    Kind("2xx at most once", 200, _OK, fields=_ONCE),
    Kind("2xx until it closes", 200, _ending(_ENDLESS + b"all")),
    Kind("2xx and more", 200, _always(answer() + b"HTTP/1.1")),
    Kind("2xx too large", 200, _LARGE),
    Kind("2xx on the second of two addresses", 200, _OK, _FIRST_REFUSES),
    Kind("2xx after a kept connection closed", 200, dying),
    Kind("1xx and 2xx", 200, _always(b"HTTP/1.1 103 Early\r\n\r\n", answer())),
    Kind("101", 101, _always(b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n")),
    Kind("3xx", 301, _always(answer(b"", "301 Moved", "Location: /x"))),
    Kind("4xx", 404, _always(answer(b"no", "404 Not Found", "Content-Type: text/plain"))),
    Kind("4xx in pieces", 404, _always(b"HTTP/1.1 404 No\r\n", b"Content-Length: 0\r\n\r\n")),
    Kind("5xx", 503, _BUSY),
    Kind("5xx, tried again", 503, _BUSY, fields=_AGAIN),
    Kind("reset before a byte", _RESET, _ending(by_reset=True)),
    Kind("reset after a byte", _RESET, _ending(_HEAD[:9], by_reset=True)),
    Kind("reset in the body", 200, _ending(_HEAD, by_reset=True)),
    Kind("closed before a byte", _CLOSED, _ending()),
    Kind("closed after a byte", _MIDWAY, _ending(_HEAD[:9])),
    Kind("closed in the body", 200, _ending(_HEAD)),
    Kind("closed, tried again", _CLOSED, _ending(), fields=_AGAIN),
    Kind("not HTTP", _NOT_HTTP, _always(b"220 smtp.example ESMTP\r\n")),
    Kind("a broken chunk", 200, _always(_CHUNKED, b"x\r\n")),
    Kind("a loose head", 200, _always(b"HTTP/1.1 200 OK\n", b"Content-Length: 0\n\n")),
    Kind("a head without an end", _TOO_LARGE, _pouring(b"HTTP/1.1 200 OK\r\n", b"A: b\r\n" * 999)),
    Kind("1xx without an end", _TOO_LARGE, _pouring(b"", b"HTTP/1.1 100 \r\n\r\n" * 99)),
    Kind("silence", _TIMEOUT, silent, "{address}"),
    Kind("a byte now and then", _TIMEOUT, _pouring(_HEAD, b"x", 0.2), "{address}"),
    Kind("a body that is not read", _TIMEOUT, _unread, "{address}", fields=_BODY),
    Kind("refused", _REFUSED),
    Kind("refused at both addresses", _REFUSED, None, _FIRST_REFUSES),
    Kind("no such name", _UNRESOLVED, None, "none-{n}.test"),
    Kind("a name that is not answered for", _TIMEOUT, None, "dead-{n}.test"),
    Kind("a name with 4,000 addresses", _UNRESOLVED, None, "many-{n}.test"),
    Kind("a name that leads inside", _UNRESOLVED, None, "inside-{n}.test"),
    Kind("an address inside", _UNRESOLVED, None, "10.0.0.1"),
    Kind("expired", "Expired before execution", fields={"expires_at_ms": 1}),
    Kind(
        "not to be sent",
        "Request cannot be sent as stored",
        silent,
        fields={"headers": {"Host": "elsewhere"}},
    ),
]


def kinds(authority: trustme.CA) -> list[Kind]:
    good, names = server_context(authority.issue_cert("*.tls.test")), "host-{n}.tls.test"
    other = server_context(authority.issue_cert("other.test"))
    strange = server_context(trustme.CA().issue_cert("*.tls.test"))
    many = [f"n{n:060}.test" for n in range(600)]
    heavy = server_context(authority.issue_cert("*.tls.test", *many))
    return [
        *_PLAIN,
        Kind("TLS: 2xx", 200, _OK, "one.tls.test", good),
        Kind("TLS: 2xx at most once", 200, _OK, names, good, _ONCE),
        Kind("TLS: reset", _RESET, _ending(by_reset=True), names, good),
        Kind("TLS: closed", _CLOSED, _ending(), names, good),
        Kind("TLS: silence", _TIMEOUT, silent, names, good),
        Kind("TLS: too large", 200, _LARGE, names, good),
        Kind("handshake: an unknown authority", _BAD_CERTIFICATE, silent, names, strange),
        Kind("handshake: another name", _BAD_CERTIFICATE, silent, names, other),
        Kind("handshake: a certificate too large", _BAD_HANDSHAKE, silent, names, heavy),
        Kind("handshake: plain HTTP", _BAD_HANDSHAKE, _ending(answer()), names),
        Kind("handshake: not TLS, and at once", _BAD_HANDSHAKE, _greeting, names),
        Kind("handshake: closed", _RESET, _ending(), names),
        Kind("handshake: reset", _RESET, _ending(by_reset=True), names),
        Kind("handshake: silence", _TIMEOUT, silent, names),
        Kind("handshake: silence at both addresses", _TIMEOUT, silent, "two-{n}.tls.test"),
    ]
