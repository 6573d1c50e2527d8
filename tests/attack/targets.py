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
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import cast

import uvloop

from cli.serving.roles import raise_limit

DRIP_EVERY_S = 0.25
_SIZE = 64 * 1024
_OK = b"HTTP/1.1 200 OK\r\n"

longest_s: defaultdict[str, float] = defaultdict(float)


class Hostile(asyncio.Protocol):
    """One connection, silent. Others speak once the first bytes of a request are here."""

    _transport: asyncio.Transport
    _began_s = 0.0
    _asked = False

    def __init__(self, name: str) -> None:
        self._name = name

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._began_s = time.monotonic()

    def connection_lost(self, exc: Exception | None) -> None:
        kept_s = time.monotonic() - self._began_s
        longest_s[self._name] = max(longest_s[self._name], kept_s)

    def data_received(self, data: bytes) -> None:
        if not self._asked:
            self._asked = True
            self.begin()

    def begin(self) -> None: ...


class Drip(Hostile):
    """A body of one byte, and of another, and so on."""

    def begin(self) -> None:
        self._transport.write(_OK + b"Content-Length: 100000\r\n\r\n")
        self._drip()

    def _drip(self) -> None:
        if not self._transport.is_closing():
            self._transport.write(b"x")
            asyncio.get_running_loop().call_later(DRIP_EVERY_S, self._drip)


class Endless(Hostile):
    """An answer without an end, as fast as it is taken."""

    _paused = False

    def __init__(self, name: str, head: bytes, piece: bytes) -> None:
        super().__init__(name)
        self._head, self._piece = head, piece

    def begin(self) -> None:
        self._transport.write(self._head)
        self._pour()

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._pour()

    def _pour(self) -> None:
        while not self._paused and not self._transport.is_closing():
            self._transport.write(self._piece)


class Served(Hostile):
    """Answers correctly: its certificate or its number of handshakes is hostile."""

    def begin(self) -> None:
        self._asked = False
        self._transport.write(_OK + b"Content-Length: 0\r\n\r\n")


_CHUNKED = _OK + b"Transfer-Encoding: chunked\r\n\r\n"
_CHUNKS = b"1\r\nx\r\n" * (_SIZE // 6)
_INTERIMS = b"HTTP/1.1 100 \r\n\r\n" * (_SIZE // 18)
# By its name, what each port does, and the certificate with which it speaks TLS.
BEHAVIOURS: dict[str, tuple[Callable[[str], Hostile], str | None]] = {
    "silent": (Hostile, None),
    "drip": (Drip, None),
    "endless": (partial(Endless, head=_OK + b"\r\n", piece=b"x" * _SIZE), None),
    "chunks": (partial(Endless, head=_CHUNKED, piece=_CHUNKS), None),
    "interims": (partial(Endless, head=b"", piece=_INTERIMS), None),
    "tls": (Served, "tls"),
    "certificates": (Served, "certificates"),
    "mute": (Hostile, "certificates"),
}


def _listener() -> socket.socket:
    made = socket.socket()
    made.bind(("0.0.0.0", 0))
    return made


async def _serve(directory: Path) -> None:
    loop = asyncio.get_running_loop()
    ports = {}
    held: list[socket.socket] = []  # accepted, and nothing read of what they bring
    for name, (behaviour, certificate) in BEHAVIOURS.items():
        made = _listener()
        secret = None
        if certificate:
            secret = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            secret.load_cert_chain(directory / f"{certificate}.pem")
        await loop.create_server(partial(behaviour, name), sock=made, backlog=20_000, ssl=secret)
        ports[name] = made.getsockname()[1]
    unread = _listener()
    unread.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    unread.setblocking(False)
    unread.listen(20_000)
    ports["unread"] = unread.getsockname()[1]
    loop.add_reader(unread, lambda: held.append(unread.accept()[0]))
    hole = _listener()
    hole.listen(0)
    ports["black hole"] = hole.getsockname()[1]
    full = [_knock(ports["black hole"]) for _ in range(4)]  # the listen queue is full from here on
    sys.stdout.write(json.dumps(ports) + "\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    sys.stdout.write(json.dumps(longest_s) + "\n")
    loop.remove_reader(unread)
    for each in [*full, *held, unread]:
        each.close()


def _knock(port: int) -> socket.socket:
    made = socket.socket()
    made.setblocking(False)
    made.connect_ex(("127.0.0.1", port))
    return made


if __name__ == "__main__":
    raise_limit()
    uvloop.run(_serve(Path(sys.argv[1])))
