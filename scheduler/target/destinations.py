"""Destinations: which targets may be reached. Pure, no look-ups."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import NamedTuple

from scheduler.target.targets import Address, DestinationNotAllowed, Target

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Ports = tuple[tuple[int, int], ...]
"""Ranges, from and to, both included."""

WEB_PORTS: Ports = ((80, 80), (443, 443), (1024, 65535))

_PATTERN = re.compile(r"[a-z0-9*_-]+(?:\.[a-z0-9*_-]+)*")
# A pattern for addresses; names never look like this.
_NUMERIC = re.compile(r"(?=.*[0-9])[0-9.*]+|(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)")
_RANGE = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")


class Denied(NamedTuple):
    """Networks and host names to deny in any case; in a name `*` stands for any characters."""

    networks: tuple[Network, ...] = ()
    names: tuple[str, ...] = ()


_DENIED_IPV4 = tuple(
    ipaddress.IPv4Network(text)
    for text in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.31.196.0/24",
        "192.52.193.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "192.175.48.0/24",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
        "168.63.129.16/32",  # the metadata and health address of one large cloud
    )
)
_PUBLIC_IPV6 = ipaddress.IPv6Network("2000::/3")
_DENIED_IPV6 = tuple(
    ipaddress.IPv6Network(text)
    for text in ("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20")
)
_NOTHING = Denied()


class Destinations:
    """Allows public addresses and `allowed` networks, without those that are `denied`, on these
    ports. The lists are our own: `is_global` of Python 3.11 calls NAT64, 6to4, `::127.0.0.1`,
    `fec0::/10`, `192.0.0.8` and multicast global."""

    def __init__(
        self,
        allowed: Iterable[Network] = (),
        denied: Denied = _NOTHING,
        ports: Ports = WEB_PORTS,
    ) -> None:
        self._allowed = tuple(allowed)
        self._denied = denied.networks
        self._denied_name = any_of(denied.names)
        self._ports = ports

    def judge(self, target: Target) -> None:
        """Judges without a look-up. Raises DestinationNotAllowed for a denied name or literal
        address, ValueError with a sentence for a port."""
        if not self.allows_port(target.port):
            raise ValueError(f"Its port may not be reached, only {ranges(self._ports)} may.")
        if target.literal is None:
            allowed = self.allows_name(target.host)
        else:
            allowed = self.allows(target.literal)
        if not allowed:
            raise DestinationNotAllowed

    def allows_port(self, port: int) -> bool:
        for low, high in self._ports:  # noqa: SIM110  # for each fire: `any` takes five times as long
            if low <= port <= high:
                return True
        return False

    def allows_name(self, host: str) -> bool:
        """Whether the name itself is allowed: its addresses are judged as well."""
        return self._denied_name is None or self._denied_name.fullmatch(host) is None

    def opens(self, address: Address) -> bool:
        """Whether the operator has opened this very address, whatever it is."""
        return _lies_in(address, self._allowed)

    def allows(self, address: Address) -> bool:
        if _lies_in(address, self._denied):
            return False
        if isinstance(address, ipaddress.IPv4Address):
            return self.opens(address) or not any(address in net for net in _DENIED_IPV4)
        if address.scope_id is not None:
            return False
        is_public = address in _PUBLIC_IPV6 and not any(address in net for net in _DENIED_IPV6)
        return is_public or self.opens(address)


def read_networks(text: str) -> tuple[Network, ...]:
    """A list of CIDRs, with commas; `none` for none. Raises ValueError."""
    return () if text == "none" else tuple(ipaddress.ip_network(each) for each in _parts(text))


def read_denied(text: str) -> Denied:
    """A list of CIDRs and host names, with commas. Raises ValueError."""
    networks: list[Network] = []
    names: list[str] = []
    for part in _parts(text.lower()):
        name = part.removesuffix(".")
        if _PATTERN.fullmatch(name) and not _NUMERIC.fullmatch(name):
            names.append(name)
        elif part.isascii():
            networks.append(ipaddress.ip_network(part))
        else:
            raise ValueError(f"{part!r} must be written as DNS has it, xn--…")
    return Denied(tuple(networks), tuple(names))


def read_names(text: str) -> tuple[str, ...]:
    """A list of host names or addresses, with commas; `*` for any characters. Raises ValueError."""
    names = tuple(_parts(text.lower()))
    for name in names:
        if re.fullmatch(r"[a-z0-9*._:\[\]-]+", name) is None:
            raise ValueError(f"{name!r} is no host name")
    return names


def read_ports(text: str) -> Ports:
    """A list of ports and ranges of them, as `80,443,1024-65535`. Raises ValueError."""
    return tuple(_read_range(part) for part in _parts(text))


def ranges(ports: Ports) -> str:
    return ",".join(f"{low}" if low == high else f"{low}-{high}" for low, high in ports)


def _read_range(text: str) -> tuple[int, int]:
    match = _RANGE.fullmatch(text)
    if match is not None:
        low, high = int(match[1]), int(match[2] or match[1])
        if 1 <= low <= high <= 65535:
            return low, high
    raise ValueError(f"{text!r} is no port, and no range of them as 1024-65535 is")


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def any_of(names: Iterable[str]) -> re.Pattern[str] | None:
    """What matches any of these names, in which `*` stands for any characters; None for none."""
    patterns = (re.escape(name).replace(r"\*", ".*") for name in names)
    return re.compile("|".join(patterns) or r"(?!)") if names else None


def _lies_in(address: Address, networks: tuple[Network, ...]) -> bool:
    """The kernel connects to the IPv4 address that lies in an IPv6 one, so that counts too."""
    mapped = getattr(address, "ipv4_mapped", None)
    return any(address in net or (mapped is not None and mapped in net) for net in networks)


def is_loopback(host: str) -> bool:
    """Whether this host is surely the machine itself, by its address or as `localhost`."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback
