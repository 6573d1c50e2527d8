"""Targets: a targetUrl is parsed here alone, so that the connection goes to the judged address.
`urlsplit` drops CR, LF and tabs in silence, and lets backslashes pass. Pure, no look-ups."""

from __future__ import annotations

import functools
import ipaddress
import re
from urllib.parse import quote

import idna
import msgspec

from scheduler.schema import LONGEST_URL
from scheduler.target.http import CONTROL

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

MAX_NAME_CHARACTERS = 253
# Taken apart, a URL weighs at most some 30 bytes a character: 16 MB for all that are remembered.
_MAX_REMEMBERED_CHARACTERS = 256
_DEFAULT_PORTS = {"http": 80, "https": 443}

_URL = re.compile(r"(https?)://([^/?#]*)([^#]*)(?:#.*)?", re.IGNORECASE | re.DOTALL)
# Most URLs: only their host needs a close look, which takes thrice as long. Where each schedule has
# a URL of its own, each fire comes here.
_USUAL = re.compile(r"(https?)://([a-z0-9.:-]+)(/[A-Za-z0-9_.\-!$%&'()*+,/:;=?@\[\]~]*)")
# Whether the rest of such a URL, from a place on, has no escapes.
unescaped_from = re.compile(r"[A-Za-z0-9_.\-!$&'()*+,/:;=?@\[\]~]*").fullmatch
_AUTHORITY = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([0-9]*))?")
_BLANK = re.compile(r"\s")
_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*")
# A last label that is a number makes the whole host a number, to inet_aton and so to getaddrinfo.
_NUMERIC_END = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)", re.DOTALL)
# All that RFC 3986 allows in a path or query, `%` of escapes, and brackets, common in queries.
_KEPT = "!$%&'()*+,/:;=?@[]~"
_PLAIN = re.compile(r"[A-Za-z0-9_.\-!$%&'()*+,/:;=?@\[\]~]*")


class DestinationNotAllowed(ValueError):
    """The target is an address that may not be reached, or an odd spelling of an address."""

    def __init__(self) -> None:
        super().__init__("Destination not allowed")


class Origin(msgspec.Struct, frozen=True, cache_hash=True):
    """What connections are kept by: scheme, host as in `Target.host`, port."""

    scheme: str
    host: str
    port: int


class Target(msgspec.Struct, frozen=True, cache_hash=True):
    """A targetUrl taken apart. `host` is ASCII, lower case, without brackets or trailing dot: as in
    SNI. `path` is the request target with its query, ready for the wire. `host_header` names the
    port unless it is the scheme's own. `literal` is the address if the host is one."""

    scheme: str
    host: str
    port: int
    path: str
    host_header: str
    origin: Origin
    literal: Address | None = None


def parse_target(url: str) -> Target:
    """Takes a targetUrl apart. Raises ValueError with the rule that it breaks,
    DestinationNotAllowed for an odd spelling of an address. `Destinations.judge` says whether it
    may be reached; a name's addresses are judged by each connection. Cached, but for long ones: a
    cache would hold hundreds of MB."""
    return _remembered(url) if len(url) <= _MAX_REMEMBERED_CHARACTERS else _taken_apart(url)


def split_url(url: str) -> tuple[str, str]:
    """An http URL's part before its path, and the rest; else empty. `urlsplit` would cache it."""
    match = _URL.fullmatch(url)
    return (match[2], match[3]) if match else ("", "")


def usual_place(url: str) -> tuple[str, str] | None:
    """Scheme and authority of a URL whose other parts keep every rule of `parse_target`; None of
    one that needs a closer look."""
    match = _USUAL.fullmatch(url) if len(url) <= LONGEST_URL else None
    return match and (match[1], match[2])


def _taken_apart(url: str) -> Target:
    usual = _USUAL.fullmatch(url) if len(url) <= LONGEST_URL else None
    scheme, authority, path = _looked_at_closely(url) if usual is None else usual.groups()
    known = len(authority) <= _MAX_REMEMBERED_CHARACTERS
    place = _known_place(scheme, authority) if known else _place(scheme, authority)
    origin, header, literal = place
    return Target(scheme, origin.host, origin.port, path, header, origin, literal)


def _looked_at_closely(url: str) -> tuple[str, str, str]:
    """Scheme, authority and request target. Raises as `parse_target` does."""
    _check_characters(url)
    match = _URL.fullmatch(url)
    if match is None:
        raise ValueError("It must be an absolute http or https URL.")
    path = match[3] if match[3].startswith("/") else "/" + match[3]
    if _PLAIN.fullmatch(path) is None:
        path = quote(path, safe=_KEPT)
    return match[1].lower(), match[2], path


def _place(scheme: str, authority: str) -> tuple[Origin, str, Address | None]:
    """Origin, Host header and literal address: most URLs of one target have them in common."""
    host_text, port = _split_authority(authority, _DEFAULT_PORTS[scheme])
    host, literal = _read_host(host_text)
    shown = f"[{host}]" if ":" in host else host
    header = shown if port == _DEFAULT_PORTS[scheme] else f"{shown}:{port}"
    return Origin(scheme, host, port), header, literal


_known_place = functools.lru_cache(maxsize=2048)(_place)
_remembered = functools.lru_cache(maxsize=2048)(_taken_apart)


def _check_characters(url: str) -> None:
    if len(url) > LONGEST_URL:
        raise ValueError(f"It may have at most {LONGEST_URL:,} characters.")
    if CONTROL.search(url):
        raise ValueError("It may not contain control characters.")
    if _BLANK.search(url):
        raise ValueError("It may not contain spaces.")
    if "\\" in url:
        raise ValueError("It may not contain backslashes.")
    try:
        url.encode()
    except UnicodeEncodeError:
        raise ValueError("It may not contain unpaired surrogates.") from None


def _split_authority(authority: str, default_port: int) -> tuple[str, int]:
    if "@" in authority:
        raise ValueError("It may not contain a user name or password.")
    match = _AUTHORITY.fullmatch(authority)
    if match is None:
        raise ValueError("Its host or port is not valid.")
    host, digits = match[1], match[2]
    if not host:
        raise ValueError("It must have a host.")
    if not digits:
        return host, default_port
    # The length first: int() of thousands of digits is slow, then refuses with a text of its own.
    if len(digits) > 5 or not 1 <= int(digits) <= 65535:
        raise ValueError("Its port must be from 1 to 65535.")
    return host, int(digits)


def _read_host(text: str) -> tuple[str, Address | None]:
    """The host as in SNI, and the address if it is one, spelled the usual way."""
    if text.startswith("["):
        literal = _read_ipv6(text[1:-1])
        return str(literal), literal
    host = text.lower() if text.isascii() else _to_ascii(text)
    name = host.removesuffix(".")
    if _NAME.fullmatch(name) is None:
        raise ValueError("Its host is not valid.")
    if _NUMERIC_END.fullmatch(name) is None:
        return name, None
    # Only four plain decimal numbers, exactly as they were given, are an address.
    if name != text:
        raise DestinationNotAllowed
    try:
        return name, ipaddress.IPv4Address(name)
    except ValueError:
        raise DestinationNotAllowed from None


def _read_ipv6(text: str) -> ipaddress.IPv6Address:
    if "%" in text:  # a zone id: it names an interface of the worker's own machine
        raise DestinationNotAllowed
    try:
        return ipaddress.IPv6Address(text)
    except ValueError:
        raise ValueError("Its IPv6 address is not valid.") from None


def _to_ascii(text: str) -> str:
    """An international name as DNS has it. Fullwidth digits and dots come out as plain ones."""
    if len(text) > MAX_NAME_CHARACTERS:
        raise ValueError("Its host is not valid.")
    try:
        mapped = idna.uts46_remap(text)
        return mapped if mapped.isascii() else idna.encode(mapped).decode("ascii")
    except idna.IDNAError:
        raise ValueError("Its host is not a valid international name.") from None
