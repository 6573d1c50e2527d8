"""The HTTP port of an API, reserved by a parent before its children start."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Sequence
from typing import Any

from scheduler.errors import PostdateError

_POLL_S = 0.05
# What the kernel keeps of a connection before we read it, which is inherited from the listener. By
# itself it goes up to `tcp_rmem`, 6 to 32 MB, and fills that at the expense of all others.
_RECEIVED_BYTES = 256 * 1024
_BACKLOG = 2048
_Address = tuple[Any, ...]


class Port:
    """A port, reserved on every address of the host that this machine has.

    Only the sockets of `listen` accept. The kernel spreads connections over them and skips a
    process that is gone; one shared socket would give most of a burst to one process.
    """

    def __init__(self, host: str, reservations: Sequence[socket.socket]) -> None:
        self.host = host
        self.address: str = reservations[0].getsockname()[0]
        self.number: int = reservations[0].getsockname()[1]
        self._reservations = reservations

    @property
    def url(self) -> str:
        return url_of(self.host, self.number)

    def listen(self) -> list[socket.socket]:
        """Listening sockets for one process; the caller passes them on and closes them."""
        listeners = [
            socket.create_server(
                each.getsockname(), family=each.family, backlog=_BACKLOG, reuse_port=True
            )
            for each in self._reservations
        ]
        for each in listeners:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVED_BYTES)
        return listeners

    def free(self) -> None:
        """Safe to repeat."""
        for each in self._reservations:
            each.close()


async def reserve(host: str, number: int, *, patience_s: float) -> Port:
    """Reserves the port, any free one for 0. Raises PostdateError if it is still taken after
    `patience_s`: the API of a killed parent needs a moment to go."""
    deadline = asyncio.get_running_loop().time() + patience_s
    while True:
        try:
            return _reserve(host, number)
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            if not taken or asyncio.get_running_loop().time() >= deadline:
                raise PostdateError(_sentence(host, number, error)) from None
        await asyncio.sleep(_POLL_S)


def url_of(host: str, number: int) -> str:
    return f"http://{_in_url(host)}:{number}"


def _reserve(host: str, number: int) -> Port:
    found = socket.getaddrinfo(host, number, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    made: list[socket.socket] = []
    try:
        for family, _, _, _, address in dict.fromkeys(found):
            port = made[0].getsockname()[1] if made else number
            try:
                made.append(_reserved(family, (address[0], port, *address[2:])))
            except OSError as error:
                # A name may stand for an address that this machine lacks, ::1 for instance.
                if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                    raise
    except OSError:
        for each in made:
            each.close()
        raise
    if not made:
        raise OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))
    return Port(host, made)


def _reserved(family: int, address: _Address) -> socket.socket:
    """A socket that keeps the port. Listening for a moment without sharing finds out whether
    somebody listens there already, even with sharing."""
    with socket.create_server(address, family=family, backlog=_BACKLOG) as alone:
        address = alone.getsockname()
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(address)
    except OSError:
        made.close()
        raise
    return made


def _sentence(host: str, number: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"Port {number} on {host} is taken by another program; choose another with --port."
    why = str(error.strerror).partition(" (")[0]  # (while attempting to bind on address …)
    return f"The API cannot listen on {_in_url(host)}:{number}: {why}."


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
