"""What a targetUrl may be, and which addresses it may name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.target.targets import (
    _USUAL,
    DestinationNotAllowed,
    Origin,
    Target,
    _looked_at_closely,
    parse_target,
)


@pytest.mark.parametrize(
    ("url", "host", "port", "host_header", "path"),
    [
        ("http://example.com", "example.com", 80, "example.com", "/"),
        ("HTTPS://Example.COM/Hook?a=B#part", "example.com", 443, "example.com", "/Hook?a=B"),
        ("http://example.com:8080/", "example.com", 8080, "example.com:8080", "/"),
        ("https://example.com:443/", "example.com", 443, "example.com", "/"),
        ("http://example.com?q=1", "example.com", 80, "example.com", "/?q=1"),
        ("http://example.com./", "example.com", 80, "example.com", "/"),
        ("http://my_service:9000/a", "my_service", 9000, "my_service:9000", "/a"),
        ("http://bücher.example/ä?ö=ü", "xn--bcher-kva.example", 80, None, "/%C3%A4?%C3%B6=%C3%BC"),
        ("http://日本。jp/", "xn--wgv71a.jp", 80, None, "/"),
        ("http://e.example/%2F%zz%C3%A4/a%20b", "e.example", 80, None, "/%2F%zz%C3%A4/a%20b"),
        ('http://e.example/<"{}|^`>', "e.example", 80, None, "/%3C%22%7B%7D%7C%5E%60%3E"),
        ("http://e.example/a?b=[1]&c=:@!$'()*+,;", "e.example", 80, None, None),
        ("http://e.example//double/../up", "e.example", 80, None, "//double/../up"),
        ("http://93.184.216.34/", "93.184.216.34", 80, "93.184.216.34", "/"),
        ("http://[2606:4700::1]:81/", "2606:4700::1", 81, "[2606:4700::1]:81", "/"),
        ("http://[2606:4700:0:0::0001]/", "2606:4700::1", 80, "[2606:4700::1]", "/"),
    ],
)
def test_a_url_is_taken_apart(
    url: str, host: str, port: int, host_header: str | None, path: str | None
) -> None:
    target = parse_target(url)
    scheme = url.split(":")[0].lower()
    expected_path = path if path is not None else url.removeprefix("http://e.example")
    assert target == Target(
        scheme=scheme,
        host=host,
        port=port,
        path=expected_path,
        host_header=host_header or host,
        origin=Origin(scheme, host, port),
        literal=target.literal,
    )
    assert (target.literal is None) == (not host[0].isdigit())


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("", "It must be an absolute http or https URL."),
        ("example.com/x", "It must be an absolute http or https URL."),
        ("ftp://example.com/", "It must be an absolute http or https URL."),
        ("http:///x", "It must have a host."),
        ("http://user@example.com/", "It may not contain a user name or password."),
        ("http://example.com/a b", "It may not contain spaces."),
        ("http://example.com/a\u00a0b", "It may not contain spaces."),
        ("http://example.com/\r\nX: 1", "It may not contain control characters."),
        ("http://example.com/\x85", "It may not contain control characters."),
        ("http://example.com\\@evil.example/", "It may not contain backslashes."),
        ("http://example.com/\ud800", "It may not contain unpaired surrogates."),
        ("http://example.com:0/", "Its port must be from 1 to 65535."),
        ("http://example.com:65536/", "Its port must be from 1 to 65535."),
        ("http://example.com:" + "9" * 5000 + "/", "Its port must be from 1 to 65535."),
        ("http://example.com:٨/", "Its host or port is not valid."),
        ("http://a:b:80/", "Its host or port is not valid."),
        ("http://[::1]x/", "Its host or port is not valid."),
        ("http://[::g]/", "Its IPv6 address is not valid."),
        ("http://exa%6dple.com/", "Its host is not valid."),
        ("http://a..b/", "Its host is not valid."),
        ("http://" + "a" * 64 + ".example/", "Its host is not valid."),
        ("http://" + "a." * 127 + "example/", "Its host is not valid."),
        ("http://\u2100.example/", "Its host is not a valid international name."),  # means `a/c`
        ("http://" + "ü" * 5000 + "/", "Its host is not valid."),
        ("http://example.com/" + "a" * 8192, "It may have at most 8,192 characters."),
    ],
)
def test_a_bad_url_is_refused_with_the_rule_it_breaks(url: str, sentence: str) -> None:
    with pytest.raises(ValueError) as refusal:
        parse_target(url)
    assert str(refusal.value) == sentence
    assert not isinstance(refusal.value, DestinationNotAllowed)


ODD_ADDRESSES = [
    "2130706433", "0x7f000001", "0X7F000001", "0x", "017700000001", "127.1", "127.0.1",
    "0177.0.0.1", "127.0.0.01", "0x7f.0.0.1", "127.0.0.0x1", "127.0.0.1.", "2130706433.",
    "256.0.0.1", "1.2.3.4.5", "name.example.1", "93.184.216.34.",
    "\uff11\uff12\uff17.\uff10.\uff10.\uff11", "127。0。0。1", "①27.0.0.1", "127.0.0.\uff11",
    "[fe80::1%25eth0]", "[fe80::1%eth0]",
]  # fmt: skip


@pytest.mark.parametrize("host", ODD_ADDRESSES)
def test_odd_spellings_of_an_address_are_refused_always(host: str) -> None:
    with pytest.raises(DestinationNotAllowed, match=r"^Destination not allowed$"):
        parse_target(f"http://{host}/")


@given(st.text(max_size=60))
def test_any_text_is_a_target_fit_for_the_wire_or_a_sentence(text: str) -> None:
    for url in (text, f"http://{text}", f"http://e.example/{text}"):
        try:
            target = parse_target(url)
        except ValueError as refusal:
            assert str(refusal).endswith((".", "Destination not allowed"))  # noqa: PT017
        else:
            line = f"{target.path}{target.host_header}{target.host}"
            assert line.isascii()
            assert not any(character <= " " or character in "\x7f\\#" for character in line)
            assert target.path.startswith("/")
            assert 1 <= target.port <= 65535


@given(st.from_regex(_USUAL, fullmatch=True))
def test_the_short_way_takes_apart_what_the_long_one_does(url: str) -> None:
    usual = _USUAL.fullmatch(url)
    assert usual.groups() == _looked_at_closely(url)
