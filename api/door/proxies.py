"""What a proxy before this API says of the client: its address and scheme. Only proxies that
POSTDATE_TRUSTED_PROXIES names are believed. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from litestar.types import Scope

from scheduler.runtime.settings import Settings
from scheduler.target.destinations import Network

Trusted = tuple[Network, ...]

_FOR = b"x-forwarded-for"
_PROTO = b"x-forwarded-proto"
# No chain of proxies is longer; a client may invent more.
_MOST_PROXIES = 16


def is_trusted(address: str, trusted: Trusted) -> bool:
    """Whether a proxy of ours has this address, which may be a Unix socket's name."""
    if not trusted:
        return False
    found = parsed(address)
    return found is not None and any(found in network for network in trusted)


def client_address(scope: Scope, trusted: Trusted) -> str:
    """The address that connected, or the one that a trusted proxy names. Each of several proxies
    names the one before it; the first that is not ours is the client. What stands before that is
    the client's own word."""
    client = scope.get("client")
    address = client[0] if client else "unknown"
    named = ",".join(_values(scope, _FOR)).split(",")
    for each in reversed(named[-_MOST_PROXIES:]):
        if not is_trusted(address, trusted):
            break
        before = parsed(_without_port(each.strip()))
        if before is None:
            break
        address = str(before)
    return address


def scheme(scope: Scope, trusted: Trusted) -> str:
    """`https` where the client speaks TLS, to us or to the proxy."""
    client = scope.get("client")
    if client and is_trusted(client[0], trusted):
        named = [text.strip().lower() for text in ",".join(_values(scope, _PROTO)).split(",")]
        # The nearest proxy's word, which is the last.
        if named[-1] in ("http", "https"):
            return named[-1]
    return str(scope["scheme"])


def is_https(scope: Scope, settings: Settings) -> bool:
    """Whether browsers come over TLS: to us, to a proxy before us, or by what the operator says."""
    if settings.public_url:
        return settings.public_url.startswith("https://")
    return scheme(scope, settings.trusted_proxies) == "https"


def address_of(host: str) -> str:
    """What counts as one address: of IPv6 a /64, which one client usually has whole."""
    address = parsed(host)
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.IPv6Network((int(address) >> 64 << 64, 64)))
    return host if address is None else str(address)


def _values(scope: Scope, name: bytes) -> Iterable[str]:
    return (value.decode("latin-1") for key, value in scope["headers"] if key == name)


def parsed(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """An IPv4 address that IPv6 wraps is that IPv4 address."""
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


def _without_port(text: str) -> str:
    """`192.0.2.1:4711` and `[2001:db8::1]:4711` are how some proxies write it."""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0] if text.count(":") == 1 else text
