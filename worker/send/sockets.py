"""Sockets: how many the system gives this process, what they are for, and how they end."""

from __future__ import annotations

import asyncio
import errno
import resource
import socket
import struct
from typing import NamedTuple

import structlog

# For the store, look-ups, logs and what libraries open.
_RESERVED = 256
# The same number that the start asks for where the system sets no limit.
_ENOUGH = 65_536
# Of all sockets, this part is for second attempts, which a fire can do without.
_SPARE_PART = 8
_RESET = struct.pack("ii", 1, 0)  # struct linger: on, for no time
_ANY_PORT = 9
OUT_OF_FILES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_log = structlog.get_logger(__name__)


class SocketBudget(NamedTuple):
    """`sockets`: to targets, in all. `fires`: how many can be in flight, each with a socket.
    `spares`: those that second attempts may have."""

    sockets: int
    fires: int
    spares: int


def budget() -> SocketBudget:
    """This process's, as its limit is now (RLIMIT_NOFILE)."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = _ENOUGH if soft == resource.RLIM_INFINITY else soft
    sockets = max(files // 2, files - _RESERVED)
    spares = sockets // _SPARE_PART
    return SocketBudget(sockets, sockets - spares, spares)


def fires_at_once(concurrency: int) -> int:
    """So many fires as were asked for, or as there are sockets for: an account's share of a worker
    is then its share of the sockets as well."""
    most = budget().fires
    if most < concurrency:
        _log.warning("the limit of open files (ulimit -n) allows fewer fires in flight", fires=most)
    return min(most, concurrency)


def is_out_of_ports(error: OSError, address: str, port: int) -> bool:
    """Whether the system has no local port left for a connection to this address and port. A host
    without an address of that family has the same error, but for UDP as well. Sends nothing."""
    return error.errno == errno.EADDRNOTAVAIL and has_way(address, port)


def has_way(address: str, port: int = _ANY_PORT) -> bool:
    """Whether this machine can send to this address. Nothing is sent."""
    try:
        return _source_for(address, port) is not None
    except OSError:
        return False


def is_own_address(address: str) -> bool:
    """Whether a connection to this address would stay within this machine, past its firewall: then
    the system takes the address itself as the source. Sends nothing, and takes some microseconds.
    Raises OSError if the system has no socket to ask it with."""
    return _source_for(address, _ANY_PORT) == address


def _source_for(address: str, port: int) -> str | None:
    """The local address of what goes there; None if there is no way. Raises OSError if the system
    has no socket to ask it with."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        probe = socket.socket(family, socket.SOCK_DGRAM)
    except OSError as error:
        if error.errno == errno.EAFNOSUPPORT:
            return None
        raise
    with probe:
        try:
            probe.connect((address, port))
        except OSError:
            return None
        return str(probe.getsockname()[0])


def reset(transport: asyncio.WriteTransport) -> None:
    """Close a connection at once, with an RST. After a FIN of ours the system would keep its local
    port for a minute (TIME_WAIT)."""
    if not transport.is_closing():
        opened = transport.get_extra_info("socket")
        if opened is not None:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    transport.abort()
