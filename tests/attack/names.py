"""A name server of the attack's own: names by what they begin with, all of them below .test. An
answer that does not fit into a datagram is truncated."""

from __future__ import annotations

import asyncio
import functools
import ipaddress
import socket
import struct
import threading
from typing import Any, Self

from tests.support.waiting import free_port

A = 1
_TRUNCATED = 0x0200
_TTL_S = 60
_UNREAD_BYTES = 2**20
_FIXED: dict[str, list[str] | None] = {
    "dead": None,
    "none": [],
    "black": [f"127.66.0.{n + 1}" for n in range(64)],  # as many as fit into a datagram
    "many": [f"127.67.{n // 250}.{1 + n % 250}" for n in range(4000)],  # as many as there can be
    "inside": ["10.0.0.1"],
    "two": ["127.0.0.2", "127.0.0.1"],
}


def host_address(number: int) -> str:
    """An address of this machine for each host of a flood."""
    return f"127.{32 + number // 62_500}.{number // 250 % 250}.{1 + number % 250}"


def addresses(name: str) -> list[str] | None:
    """What a name has; None: no answer at all. `host-7.…` is a flood's host, `black-…` has many
    addresses that refuse all, `many-…` thousands of addresses, `inside-…` one of a private
    network, `two-…` this machine's after another one of it; `none-…` does not exist, `dead-…` is
    never answered for; all others are this machine."""
    first = name.partition(".")[0]
    kind, _, number = first.partition("-")
    if kind in _FIXED:
        return _FIXED[kind]
    if kind == "host":
        return [host_address(int(number))]
    return ["127.0.0.1"]


class _Answering(asyncio.DatagramProtocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def datagram_received(self, data: bytes, address: Any) -> None:
        answer = _answer(data)
        if answer is not None:
            if len(answer) > room_of(data):
                end = question(data)[1] + 4
                flags = struct.pack("!5H", 0x8180 | _TRUNCATED, 1, 0, 0, 0)
                answer = data[:2] + flags + data[12:end]
            self._transport.sendto(answer, address)


def _answer(query: bytes) -> bytes | None:
    name, end = question(query)
    found = addresses(name)
    if found is None:
        return None
    fitting = found if struct.unpack_from("!H", query, end)[0] == A else []
    flags = 0x8180 if found else 0x8183  # 3: no such name
    head = query[:2] + struct.pack("!5H", flags, 1, len(fitting), 0, 0) + query[12 : end + 4]
    return head + b"".join(map(_record, fitting))


@functools.cache
def _record(address: str) -> bytes:
    packed = ipaddress.ip_address(address).packed
    return struct.pack("!HHHIH", 0xC00C, A, 1, _TTL_S, len(packed)) + packed


def room_of(query: bytes) -> int:
    """How long an answer may be, by EDNS: a root name, type 41, and the size."""
    end = question(query)[1] + 4
    has_edns = query[end : end + 3] == b"\0\0\x29"
    return int(struct.unpack_from("!H", query, end + 3)[0]) if has_edns else 512


def question(data: bytes) -> tuple[str, int]:
    """The name that is asked for, and where it ends."""
    labels, at = [], 12
    while data[at]:
        labels.append(data[at + 1 : at + 1 + data[at]].decode().lower())
        at += 1 + data[at]
    return ".".join(labels), at + 1


class NameServer:
    """In a thread of its own; `server` is the address for a resolver."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.server = ""

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._serve(), self._loop).result(10)
        return self

    async def _serve(self) -> None:
        # A port that no connection has: a test listens there, too.
        self._by_udp, _ = await self._loop.create_datagram_endpoint(
            _Answering, local_addr=("127.0.0.1", free_port())
        )
        # Hundreds ask at a time: a lost packet is asked again, and late.
        opened = self._by_udp.get_extra_info("socket")
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _UNREAD_BYTES)
        self.server = "{}:{}".format(*opened.getsockname())

    async def _close(self) -> None:
        self._by_udp.close()
        await asyncio.sleep(0)  # the loop closes the sockets in its next round

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
