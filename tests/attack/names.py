"""A name server of the attack's own: names by what they begin with, all of them below .test."""

from __future__ import annotations

import asyncio
import ipaddress
import struct
import threading
from typing import Any, Self

A = 1
BLACK_HOLES = 120
_TTL_S = 60


def host_address(number: int) -> str:
    """An address of this machine for each host of a flood."""
    return f"127.{32 + number // 62_500}.{number // 250 % 250}.{1 + number % 250}"


def addresses(name: str) -> list[str] | None:
    """What a name has; None: no answer at all. `host-7.…` is a flood's host, `black-…` has many
    addresses that let nobody in, `dead-…` is never answered for; all others are this machine."""
    first = name.partition(".")[0]
    kind, _, number = first.partition("-")
    if kind == "dead":
        return None
    if kind == "black":
        return [f"127.66.0.{n + 1}" for n in range(BLACK_HOLES)]
    if kind == "host":
        return [host_address(int(number))]
    return ["127.0.0.1"]


class _Answering(asyncio.DatagramProtocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def datagram_received(self, data: bytes, address: Any) -> None:
        name, end = _question(data)
        found = addresses(name)
        if found is None:
            return
        fitting = found if struct.unpack_from("!H", data, end)[0] == A else []
        answer = data[:2] + struct.pack("!5H", 0x8180, 1, len(fitting), 0, 0) + data[12 : end + 4]
        for text in fitting:
            packed = ipaddress.ip_address(text).packed
            answer += struct.pack("!HHHIH", 0xC00C, A, 1, _TTL_S, len(packed)) + packed
        self._transport.sendto(answer, address)


def _question(data: bytes) -> tuple[str, int]:
    labels, at = [], 12
    while data[at]:
        labels.append(data[at + 1 : at + 1 + data[at]].decode().lower())
        at += 1 + data[at]
    return ".".join(labels), at + 1


class NameServer:
    """In a thread of its own; `server` is what a resolver is to be told."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.server = ""

    def __enter__(self) -> Self:
        self._thread.start()
        made = self._loop.create_datagram_endpoint(_Answering, local_addr=("127.0.0.1", 0))
        self._transport, _ = asyncio.run_coroutine_threadsafe(made, self._loop).result(10)
        self.server = "127.0.0.1:{}".format(self._transport.get_extra_info("sockname")[1])
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._transport.close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
