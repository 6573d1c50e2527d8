"""The resolver: a name's addresses as this machine is set up to find them, without a thread each.

c-ares reads /etc/hosts, and servers, search list and options from /etc/resolv.conf; it keeps
answers for as long as their TTL says.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence

import aiodns

# Of a server that does not answer: once more, after so long. The rest is for the guard's limit.
_AGAIN_AFTER_S = 1.5
_TRIES = 2


class SystemResolver:
    """To be made and used inside one running loop; nothing is opened before the first look-up.

    `servers` (address:port) are asked instead of the system's.
    """

    def __init__(self, servers: Sequence[str] | None = None) -> None:
        self._servers = servers
        self._resolver: aiodns.DNSResolver | None = None

    async def __call__(self, name: str) -> list[str]:
        """The addresses of a name, in the order of preference. Raises OSError if there are none to
        be had."""
        if self._resolver is None:
            self._resolver = aiodns.DNSResolver(self._servers, timeout=_AGAIN_AFTER_S, tries=_TRIES)
        try:
            found = await self._resolver.getaddrinfo(name, type=socket.SOCK_STREAM)
        except aiodns.error.DNSError as error:
            raise OSError(f"{name}: {error.args[-1]}") from error
        return list(dict.fromkeys(node.addr[0].decode() for node in found.nodes))

    async def aclose(self) -> None:
        if self._resolver is not None:
            await self._resolver.close()
            self._resolver = None
