"""The resolver: a name's addresses as this machine is set up to find them, without a thread each.

c-ares reads /etc/hosts and /etc/resolv.conf. Its cache of answers has no bound, so a new one takes
its place after some look-ups.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence

import aiodns
import pycares

from worker.send.sockets import has_way

# A server that does not answer is asked again, after twice as long each time. The first wait is
# this, or 0.25 s once the server has been quick; four tries last almost as long as the guard waits.
_AGAIN_AFTER_S = 1.5
_TRIES = 4
# ARES_AI_NOSORT, which pycares has no name for. To sort its addresses (RFC 6724) c-ares connects a
# socket to each while others' look-ups, and so our loop, wait: two milliseconds for a hundred.
_NO_SORT = 1 << 7
# EDNS is c-ares' default: with it an answer has up to 1,232 bytes, some 70 addresses. What does not
# fit is not asked for by TCP: c-ares takes ten milliseconds for the 4,000 addresses of 64 KiB, and
# locks out our loop meanwhile.
_FLAGS = pycares.ARES_FLAG_EDNS | pycares.ARES_FLAG_IGNTC
_LOOK_UPS_EACH = 1000


class SystemResolver:
    """For one running loop. `servers` (address:port) are asked instead of the system's."""

    def __init__(self, servers: Sequence[str] | None = None) -> None:
        self._servers = servers
        self._resolver: aiodns.DNSResolver | None = None
        self._look_ups = 0
        # How many look-ups wait for each that is open.
        self._waiting: dict[aiodns.DNSResolver, int] = {}

    async def __call__(self, name: str) -> list[str]:
        """The addresses of a name, in the order of preference. Raises OSError."""
        if self._resolver is None or self._look_ups == _LOOK_UPS_EACH:
            await self._replace()
        self._look_ups += 1
        resolver = self._resolver
        assert resolver is not None
        self._waiting[resolver] += 1
        try:
            found = await resolver.getaddrinfo(name, type=socket.SOCK_STREAM, flags=_NO_SORT)
        except aiodns.error.DNSError as error:
            raise OSError(f"{name}: {error.args[-1]}") from error
        finally:
            self._waiting[resolver] -= 1
            await self._close_if_replaced(resolver)
        return _preferred(list(dict.fromkeys(node.addr[0].decode() for node in found.nodes)))

    async def aclose(self) -> None:
        for resolver in self._waiting:
            await resolver.close()
        self._waiting.clear()
        self._resolver = None

    async def _replace(self) -> None:
        replaced = self._resolver
        self._look_ups = 0
        self._resolver = aiodns.DNSResolver(
            self._servers, flags=_FLAGS, timeout=_AGAIN_AFTER_S, tries=_TRIES
        )
        self._waiting[self._resolver] = 0
        if replaced is not None:
            await self._close_if_replaced(replaced)

    async def _close_if_replaced(self, resolver: aiodns.DNSResolver) -> None:
        """Closes a replaced resolver that no look-up waits for: c-ares might report to a loop
        that has ended, and each resolver has four descriptors and a thread."""
        if resolver is not self._resolver and self._waiting.get(resolver) == 0:
            del self._waiting[resolver]
            await resolver.close()


def _preferred(addresses: list[str]) -> list[str]:
    """Of two families IPv6 comes first, if this machine has a way there (RFC 6724, rules 1 and 6);
    within one the name server's order stays."""
    sixes = [each for each in addresses if ":" in each]
    fours = [each for each in addresses if ":" not in each]
    return sixes + fours if not fours or (sixes and has_way(sixes[0])) else fours + sixes
