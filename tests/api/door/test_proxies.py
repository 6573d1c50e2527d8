"""Whom a proxy names, and when it is believed."""

from __future__ import annotations

import ipaddress
from typing import Any, cast

import pytest
from litestar.types import Scope

from api.door.connections import Connections
from api.door.proxies import client_address, is_https, scheme
from scheduler.runtime.settings import Settings

TRUSTED = (ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("fd00::/8"))


def scope_of(peer: str, *headers: tuple[str, str]) -> Scope:
    raw = [(name.encode(), value.encode()) for name, value in headers]
    return cast("Scope", {"client": (peer, 4711), "headers": raw, "scheme": "http"})


@pytest.mark.parametrize(
    ("peer", "named", "client"),
    [
        # No proxy, or a stranger.
        ("192.0.2.1", None, "192.0.2.1"),
        ("192.0.2.1", "198.51.100.1", "192.0.2.1"),
        # One proxy, which adds whom it sees to what the client said of itself.
        ("10.0.0.1", "198.51.100.1", "198.51.100.1"),
        ("10.0.0.1", "1.2.3.4, 198.51.100.1", "198.51.100.1"),
        # Two of ours in a line.
        ("10.0.0.1", "1.2.3.4, 198.51.100.1, 10.0.0.2", "198.51.100.1"),
        # All are ours: the first of them is who asks.
        ("10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3"),
        # How they are written.
        ("fd00::1", "[2001:db8::1]:4711", "2001:db8::1"),
        ("::ffff:10.0.0.1", "::ffff:198.51.100.1", "198.51.100.1"),
        # A text that is no address names no client.
        ("10.0.0.1", "1.2.3.4, nonsense", "10.0.0.1"),
    ],
)
def test_the_first_who_is_not_ours_is_the_client(peer: str, named: str | None, client: str) -> None:
    headers = [] if named is None else [("x-forwarded-for", named)]
    assert client_address(scope_of(peer, *headers), TRUSTED) == client


def test_headers_of_one_name_are_one_line() -> None:
    scope = scope_of("10.0.0.1", ("x-forwarded-for", "1.1.1.1"), ("x-forwarded-for", "2.2.2.2"))
    assert client_address(scope, TRUSTED) == "2.2.2.2"


@pytest.mark.parametrize(
    ("peer", "said", "found"),
    [
        ("10.0.0.1", "https", "https"),
        ("10.0.0.1", "https, http", "http"),
        ("192.0.2.1", "https", "http"),
    ],
)
def test_tls_before_a_proxy_is_tls(peer: str, said: str, found: str) -> None:
    assert scheme(scope_of(peer, ("x-forwarded-proto", said)), TRUSTED) == found


def test_the_public_url_has_the_last_word() -> None:
    scope = scope_of("192.0.2.1")
    assert is_https(scope, Settings(public_url="https://postdate.example"))
    assert not is_https(scope, Settings(public_url="http://postdate.example"))
    assert not is_https(scope, Settings())


class Held:
    """A connection that has a request carried out."""

    recent = True
    waits = False

    def give_way(self) -> None:
        raise AssertionError("nobody has to")


@pytest.mark.parametrize(("address", "admitted"), [("192.0.2.1", False), ("10.0.0.1", True)])
def test_a_proxys_connections_are_as_many_as_there_may_be(address: str, admitted: bool) -> None:
    settings = Settings(max_connections_per_address=2, trusted_proxies=TRUSTED)
    connections: Any = Connections(settings)
    for _ in range(2):
        assert connections.add(Held(), address)
    assert connections.add(Held(), address) is admitted
