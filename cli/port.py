"""The HTTP port of `up`: checked before anything is started, and kept for the API."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import os
import socket
import sys

from scheduler.errors import PostdateError

_POLL_S = 0.05


class PortError(PostdateError):
    """The API cannot listen where it was told to; the sentence says why."""


class Port:
    """A free port, reserved: bound but not listening, so that only the API can listen on it.

    `address` is the first of the host's that this machine has.
    """

    def __init__(self, host: str, reservation: socket.socket) -> None:
        self.host = host
        self.address: str = reservation.getsockname()[0]
        self.number: int = reservation.getsockname()[1]
        self._reservation = reservation

    @property
    def url(self) -> str:
        return f"http://{_in_url(self.host)}:{self.number}"

    @property
    def local_address(self) -> str:
        """Where this machine itself reaches the API."""
        return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.address, self.address)  # noqa: S104

    def free(self) -> None:
        self._reservation.close()


async def reserve(host: str, number: int, *, patience_s: float) -> Port:
    """Reserves the port, any free one for 0. Raises PortError if it stays taken.

    `patience_s` is for the API of an `up` that was killed: it is about to notice and to go.
    """
    deadline = asyncio.get_running_loop().time() + patience_s
    while True:
        try:
            return _reserve(host, number)
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            if not taken or asyncio.get_running_loop().time() >= deadline:
                raise PortError(_sentence(host, number, error)) from None
        await asyncio.sleep(_POLL_S)


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _reserve(host: str, number: int) -> Port:
    found = socket.getaddrinfo(host, number, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    for family, kind, protocol, _, address in found:
        reservation = socket.socket(family, kind, protocol)
        try:
            # Two sockets may be bound to one port if both say this and neither listens yet.
            reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            reservation.bind(address)
        except OSError as error:
            reservation.close()
            # A name may stand for an address that this machine does not have, ::1 for instance.
            if error.errno != errno.EADDRNOTAVAIL:
                raise
            continue
        port = Port(host, reservation)
        if sys.platform != "linux":
            port.free()  # elsewhere a bound port is taken: free for a moment, then the API's
        return port
    raise OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))


def _sentence(host: str, number: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"Port {number} on {host} is taken by another program; choose another with --port."
    return f"The API cannot listen on {_in_url(host)}:{number}: {error.strerror}."


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
