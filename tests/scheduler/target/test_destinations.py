"""Destinations: which targets may be reached, and how an operator says so."""

from __future__ import annotations

import ipaddress

import pytest

from scheduler.target.destinations import (
    Denied,
    Destinations,
    read_denied,
    read_networks,
    read_ports,
)
from scheduler.target.targets import DestinationNotAllowed, parse_target

PUBLIC = Destinations()
DENIED = """
0.0.0.0 0.1.2.3 10.0.0.1 100.64.0.1 100.127.255.255 127.0.0.1 127.255.255.255 169.254.169.254
172.16.0.1 172.31.255.255 192.0.0.8 192.0.0.170 192.0.2.1 192.31.196.1 192.52.193.1 192.88.99.1
192.168.1.1 192.175.48.1 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1
239.255.255.255 240.0.0.1 255.255.255.255 168.63.129.16 :: ::1 ::127.0.0.1 ::ffff:127.0.0.1
::ffff:8.8.8.8 64:ff9b::7f00:1 64:ff9b:1::1 100::1 2001::1 2001:1ff::1 2001:db8::1 2002:7f00:1::1
2620:4f:8000::1 3fff::1 4000::1 5f00::1 fc00::1 fd00::1 fe80::1 fe80::1%1 fec0::1 ff02::1
""".split()  # noqa: SIM905 - shorter
ALLOWED = """
1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0
172.15.255.255 172.32.0.0 192.0.1.1 198.17.255.255 198.20.0.0 223.255.255.255 168.63.129.17
2000::1 2001:200::1 2606:4700::1111 2a00:1450::1 3ffe::1 2620:4f:8001::1
""".split()  # noqa: SIM905 - shorter


@pytest.mark.parametrize(("texts", "allowed"), [(DENIED, False), (ALLOWED, True)])
def test_only_public_addresses_are_allowed(texts: list[str], allowed: bool) -> None:
    judged = {text: PUBLIC.allows(ipaddress.ip_address(text)) for text in texts}
    assert judged == dict.fromkeys(texts, allowed)


@pytest.mark.parametrize(
    ("opened", "denied", "address", "allowed"),
    [
        ("127.0.0.0/8", "", "127.0.0.1", True),
        ("127.0.0.0/8", "", "::ffff:127.0.0.1", True),
        ("127.0.0.0/8", "", "::ffff:10.0.0.1", False),
        ("::ffff:10.0.0.0/104", "", "::ffff:10.0.0.1", True),
        ("127.0.0.0/8", "", "::1", False),
        ("fe80::/10", "", "fe80::1%1", False),
        ("10.0.0.0/8", "8.8.8.0/24", "8.8.8.8", False),
        ("10.0.0.0/8", "8.8.8.0/24", "8.8.4.4", True),
        ("10.0.0.0/8", "10.0.0.0/24", "10.0.0.1", False),
        ("10.0.0.0/8", "10.0.0.0/24", "::ffff:10.0.0.1", False),
        ("10.0.0.0/8", "10.0.0.0/24", "10.0.1.1", True),
    ],
)
def test_networks_are_open_or_closed_and_closed_whatever_is_open(
    opened: str, denied: str, address: str, allowed: bool
) -> None:
    destinations = Destinations(read_networks(opened), read_denied(denied))
    assert destinations.allows(ipaddress.ip_address(address)) is allowed


@pytest.mark.parametrize(
    ("denied", "host", "allowed"),
    [
        ("db.example", "db.example", False),
        ("DB.Example.", "db.example", False),
        ("db.example", "www.db.example", True),
        ("*.corp.example", "db.corp.example", False),
        ("*.corp.example", "corp.example", True),
        ("*.corp.example", "corp.example.org", True),
        ("a.example, *.internal", "metadata.google.internal", False),
    ],
)
def test_a_denied_name_is_refused_before_it_is_looked_up(
    denied: str, host: str, allowed: bool
) -> None:
    destinations = Destinations(denied=read_denied(denied))
    assert destinations.allows_name(host) is allowed
    if allowed:
        destinations.judge(parse_target(f"http://{host}/"))
    else:
        with pytest.raises(DestinationNotAllowed):
            destinations.judge(parse_target(f"http://{host.upper()}./"))


@pytest.mark.parametrize(
    ("url", "refusal"),
    [
        ("http://8.8.8.8/", None),
        ("http://127.0.0.1/", DestinationNotAllowed),
        ("http://[::1]/", DestinationNotAllowed),
        ("http://[::ffff:7f00:1]/", DestinationNotAllowed),
        ("http://a.example/", None),  # a name is not judged before it is looked up
        ("http://a.example:1024/", None),
        ("http://a.example:1023/", ValueError),
    ],
)
def test_without_a_setting_public_addresses_web_ports_and_high_ones_may_be_reached(
    url: str, refusal: type[Exception] | None
) -> None:
    if refusal is None:
        PUBLIC.judge(parse_target(url))
        return
    with pytest.raises(refusal) as refused:
        PUBLIC.judge(parse_target(url))
    if refusal is ValueError:
        assert str(refused.value).endswith("only 80,443,1024-65535 may.")


def test_only_the_ports_that_are_named_may_be_reached() -> None:
    destinations = Destinations(ports=read_ports("443, 8000-8001"))
    allowed = {port for port in range(1, 65536) if destinations.allows_port(port)}
    assert allowed == {443, 8000, 8001}


@pytest.mark.parametrize("text", ["0", "65536", "https", "9-8", "1-", "-1", "1-2-3", "80;443"])
def test_what_is_no_range_of_ports_is_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match="is no port"):
        read_ports(text)


def test_networks_and_names_are_told_apart() -> None:
    denied = read_denied("10.0.0.0/8, db.example, 8.8.8.8, fd00::/8, *.x, a1.example")
    networks = ("10.0.0.0/8", "8.8.8.8/32", "fd00::/8")
    assert denied == Denied(
        tuple(ipaddress.ip_network(each) for each in networks), ("db.example", "*.x", "a1.example")
    )


@pytest.mark.parametrize(
    "text",
    ["10.0.0.1/8", "10.1", "10.*", "2130706433", "0x7f.1", "a b", "http://a", "a/b", "b\u00fc.x"],
)
def test_what_would_deny_nothing_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        read_denied(text)
