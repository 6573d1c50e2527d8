"""Which addresses are this machine's own, asked of the system each time: they come and go."""

from __future__ import annotations

import errno
import socket

_ANY_PORT = 9


def is_own_address(address: str) -> bool:
    """Whether a connection to this address would stay within this machine.

    What goes to an address of one's own, a public one too, goes over loopback, and so past the
    firewall that keeps others from what listens there. The system takes such an address as the
    source of what goes to it, and no other. Nothing is sent; it takes some microseconds.

    Raises OSError if the system has no socket to ask it with.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        probe = socket.socket(family, socket.SOCK_DGRAM)
    except OSError as error:
        if error.errno == errno.EAFNOSUPPORT:
            return False  # then none of these is anybody's here
        raise
    with probe:
        try:
            probe.connect((address, _ANY_PORT))
        except OSError:
            return False  # there is no way to it, not even within this machine
        return bool(probe.getsockname()[0] == address)
