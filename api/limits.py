"""How much, and for how long, a client may ask of a process before it has shown a key. Pure."""

from __future__ import annotations

import ipaddress

import msgspec

from scheduler.destinations import Network
from scheduler.settings import Settings

# No client of an API has use for more.
MAX_HEAD_LINES = 256
# Of a request's path and query.
MAX_TARGET_BYTES = 8 * 1024
# Requests that may wait on a connection for the answer to an earlier one.
MAX_PIPELINED = 32
# Connections that are kept for whoever asks /healthz or /readyz.
FOR_HEALTH = 32
# So much of each body is not counted: however full the budget is, small schedules get in.
# Nor does what can be sent without a key, a form of the dashboard's, take anything of it.
UNCOUNTED_BYTES = 64 * 1024
# Items of one call.
MAX_ITEMS = 1000
# What is made of a body until it is answered, for each of its bytes: the request that it asks for,
# that packed for the store, and packed again for the wire.
_MADE_OF_A_BYTE = 5
# And for each item of a batch: what it is, and what is answered.
_MADE_OF_AN_ITEM_BYTES = 1024
# A body is found to be too large when more of it than is allowed has been read.
_ONE_READ_BYTES = 256 * 1024
# What a process opens besides connections of clients: 128 to the store, files that it serves.
_SPARE_FILES = 160
_FEWEST = 16


class Limits(msgspec.Struct, frozen=True):
    """Those of one process; 0 connections an address are any number of them."""

    head_bytes: int
    head_s: float
    body_grace_s: float
    body_bytes_per_s: int
    idle_s: float
    connections: int
    connections_per_address: int
    bodies_bytes: int
    made_bytes: int
    trusted_proxies: tuple[Network, ...] = ()

    @classmethod
    def of(cls, settings: Settings) -> Limits:
        """Half of the budget is for bodies as they come, and half for what is made of them. A
        single body of the largest allowed size always fits into both."""
        largest_bytes = max(settings.max_batch_bytes, settings.max_body_bytes)
        half_bytes = settings.bodies_bytes // 2
        return cls(
            head_bytes=settings.max_head_bytes,
            head_s=settings.head_timeout_ms / 1000,
            body_grace_s=settings.body_grace_ms / 1000,
            body_bytes_per_s=settings.body_bytes_per_s,
            idle_s=settings.idle_timeout_ms / 1000,
            connections=settings.max_connections,
            connections_per_address=settings.max_connections_per_address,
            bodies_bytes=max(half_bytes, largest_bytes + _ONE_READ_BYTES),
            made_bytes=max(half_bytes, made_of(largest_bytes, MAX_ITEMS)),
            trusted_proxies=settings.trusted_proxies,
        )

    def body_deadline_s(self, began_s: float, received_bytes: int) -> float:
        """When a body that began then has to have brought more than it has, or ended."""
        return began_s + self.body_grace_s + received_bytes / self.body_bytes_per_s


def made_of(body_bytes: int, items: int) -> int:
    """How much is made of a body of so many items, in bytes; nothing that counts of a small one."""
    of_bytes = _MADE_OF_A_BYTE * (body_bytes - UNCOUNTED_BYTES)
    of_items = _MADE_OF_AN_ITEM_BYTES * items - UNCOUNTED_BYTES
    return max(0, of_bytes) + max(0, of_items)


def fitting(connections: int, most_files: int, open_files: int) -> int:
    """As many of the connections as may be open where a process may have so many files."""
    free = most_files - open_files - _SPARE_FILES - FOR_HEALTH
    return min(connections, max(free, _FEWEST))


def address_of(host: str) -> str:
    """What counts as one address: of IPv6 a /64, because who has one address there has them all."""
    if ":" not in host:
        return host
    try:
        address = ipaddress.IPv6Address(host.partition("%")[0])
    except ValueError:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(address) >> 64 << 64, 64)))
