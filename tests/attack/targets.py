"""Targets that mean harm, in a process of their own: each behaviour has a port, on every address of
127.0.0.0/8, so that a flood has as many hosts as it likes.

    python -m tests.attack.targets DIRECTORY

prints the ports as one line of JSON, and works until its input ends; then it prints for how long
the longest connection to each was kept open. DIRECTORY has the certificates.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, cast

import uvloop

from cli.roles import raise_limit

DRIP_EVERY_S = 0.25
LATE_S = 4.0
_SIZE = 64 * 1024
_OK = b"HTTP/1.1 200 OK\r\n"
_CHUNKED = _OK + b"Transfer-Encoding: chunked\r\n\r\n"
_WHOLE = _OK + b"Content-Length: 0\r\n\r\n"

longest_s: defaultdict[str, float] = defaultdict(float)


class Hostile(asyncio.Protocol):
    """One connection. What it says is said when the first bytes of a request are here."""

    name = ""
    _transport: asyncio.Transport
    _began_s = 0.0
    _asked = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._began_s = time.monotonic()

    def connection_lost(self, exc: Exception | None) -> None:
        kept_s = time.monotonic() - self._began_s
        longest_s[self.name] = max(longest_s[self.name], kept_s)

    def data_received(self, data: bytes) -> None:
        if not self._asked:
            self._asked = True
            self.begin()

    def begin(self) -> None: ...


class Silent(Hostile):
    name = "silent"


class Drip(Hostile):
    """A body of one byte, and of another, and so on."""

    name = "drip"
    all: set[Drip] = set()  # noqa: RUF012

    def begin(self) -> None:
        self._transport.write(_OK + b"Content-Length: 100000\r\n\r\n")
        Drip.all.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        Drip.all.discard(self)

    @staticmethod
    async def drip() -> None:
        while True:
            await asyncio.sleep(DRIP_EVERY_S)
            for each in list(Drip.all):
                each._transport.write(b"x")


class Endless(Hostile):
    """An answer without an end, as fast as it is taken."""

    name = "endless"
    head = _OK + b"\r\n"
    piece = b"x" * _SIZE
    _paused = False

    def begin(self) -> None:
        self._transport.write(self.head)
        self._pour()

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._pour()

    def _pour(self) -> None:
        while not self._paused and not self._transport.is_closing():
            self._transport.write(self.piece)


class Chunks(Endless):
    """The same in chunks of one byte."""

    name = "chunks"
    head = _CHUNKED
    piece = b"1\r\nx\r\n" * (_SIZE // 6)


class Interims(Endless):
    """Nothing but 1xx, as short as can be."""

    name = "interims"
    head = b""
    piece = b"HTTP/1.1 100 \r\n\r\n" * (_SIZE // 18)


class Served(Hostile):
    """Answers correctly: its certificate or its number of handshakes is hostile."""

    name = "tls"

    def begin(self) -> None:
        self._asked = False
        self._transport.write(_WHOLE)


class Heavy(Served):
    name = "certificates"


class Mute(Hostile):
    """The same certificate, and then not a word: the connection is kept for a whole time limit."""

    name = "mute"


# With whose certificate each of these speaks TLS.
SECRETS: dict[type[Hostile], str] = {Served: "tls", Heavy: "certificates", Mute: "certificates"}


def _listener(**options: int) -> socket.socket:
    made = socket.socket()
    for name, value in options.items():
        made.setsockopt(socket.SOL_SOCKET, getattr(socket, name), value)
    made.bind(("0.0.0.0", 0))
    return made


def _context(directory: Path, name: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / f"{name}.pem")
    return context


async def _serve(directory: Path) -> None:
    loop = asyncio.get_running_loop()
    ports = {}
    held: list[socket.socket] = []  # accepted, and nothing read of what they bring
    for kind in (Silent, Drip, Endless, Chunks, Interims, Served, Heavy, Mute):
        made = _listener()
        secret = _context(directory, SECRETS[kind]) if kind in SECRETS else None
        await loop.create_server(cast("Any", kind), sock=made, backlog=20_000, ssl=secret)
        ports[kind.name] = made.getsockname()[1]
    unread = _listener(SO_RCVBUF=4096)
    unread.setblocking(False)
    unread.listen(20_000)
    ports["unread"] = unread.getsockname()[1]
    loop.add_reader(unread, lambda: held.append(unread.accept()[0]))
    late = _listener()
    late.setblocking(False)
    late.listen(20_000)
    ports["late"] = late.getsockname()[1]
    others = _context(directory, "tls")
    loop.add_reader(late, lambda: loop.call_later(LATE_S, _shake, late.accept()[0], others))
    hole = _listener()
    hole.listen(0)
    ports["black hole"] = hole.getsockname()[1]
    full = [_knock(ports["black hole"]) for _ in range(4)]  # the listen queue is full from here on
    dripping = loop.create_task(Drip.drip())
    sys.stdout.write(json.dumps(ports) + "\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    sys.stdout.write(json.dumps(longest_s) + "\n")
    dripping.cancel()
    for each in (unread, late):
        loop.remove_reader(each)
    for each in [*full, *held, unread, late]:
        each.close()


def _shake(accepted: socket.socket, secret: ssl.SSLContext) -> None:
    """TLS, with a certificate of another name; whoever has had enough is gone."""
    loop = asyncio.get_running_loop()
    made = loop.connect_accepted_socket(asyncio.Protocol, accepted, ssl=secret)
    loop.create_task(made).add_done_callback(lambda task: task.cancelled() or task.exception())


def _knock(port: int) -> socket.socket:
    made = socket.socket()
    made.setblocking(False)
    made.connect_ex(("127.0.0.1", port))
    return made


if __name__ == "__main__":
    raise_limit()
    uvloop.run(_serve(Path(sys.argv[1])))
