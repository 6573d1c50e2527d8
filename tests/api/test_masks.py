"""The secrets of a request, and how answers mask them."""

from __future__ import annotations

import pytest

from api.masks import MASK, is_secret, masked_url


@pytest.mark.parametrize(
    "name",
    [
        "Authorization",
        "Proxy-Authorisation",
        "X-Auth",
        "X-Auth-Token",
        "Cookie",
        "X-Api-Key",
        "X-Password",
        "X-Passphrase",
        "x-passwd",
        "X-Pwd",
        "X-Signature",
        "X-Hub-Signature-256",
        "X-JWT",
        "X-Session-Id",
        "X-Credentials",
        "Client-Secret",
        "Bearer",
        "X-Bearer",
        "X-Otp",
        "Card-Pin",
        "X-Sig",
        "x_sig_v2",
        "X-Hmac",
        "X-Shopify-Hmac-Sha256",
    ],
)
def test_a_header_that_looks_like_a_secret_is_one(name: str) -> None:
    assert is_secret(name)
    assert is_secret(name.upper())


@pytest.mark.parametrize(
    "name",
    [
        "Accept",
        "X-Order",
        "X-Author",
        "User-Agent",
        "X-Compass",
        "Content-Type",
        "X-Design",
        "X-Shipping",
        "X-Pinned",
        "X-Country-Code",
        "X-Hotpink",
    ],
)
def test_any_other_is_none(name: str) -> None:
    assert not is_secret(name)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://e.example/a", "https://e.example/a"),
        ("https://e.example/token=a", "https://e.example/token=a"),
        ("https://e.example/?", "https://e.example/?"),
        ("https://e.example/?n=1&sort=a", "https://e.example/?n=1&sort=a"),
        ("https://e.example/?token=a", f"https://e.example/?token={MASK}"),
        ("https://e.example/?a=1&api_key=b=c&z=2", f"https://e.example/?a=1&api_key={MASK}&z=2"),
        ("https://e.example/?sig=a;pass=b", f"https://e.example/?sig={MASK};pass={MASK}"),
        ("https://e.example/?to%6ben=a#b?c", f"https://e.example/?to%6ben={MASK}#b?c"),
        ("https://e.example/?token=&key", "https://e.example/?token=&key"),
        ("https://e.example/?a=token=b", "https://e.example/?a=token=b"),
        ("https://e.example/?a=?b&token=c", f"https://e.example/?a=?b&token={MASK}"),
        ("https://e.example/?code=a&hmac=b", f"https://e.example/?code={MASK}&hmac={MASK}"),
        ("https://e.example/?x-otp=1&PIN=2", f"https://e.example/?x-otp={MASK}&PIN={MASK}"),
        ("https://e.example/?zipcode=1&code-x=2", "https://e.example/?zipcode=1&code-x=2"),
        ("https://e.example/?assign=a&bypass=b", "https://e.example/?assign=a&bypass=b"),
    ],
)
def test_values_of_a_query_that_look_like_secrets_are_masked(url: str, shown: str) -> None:
    assert masked_url(url) == shown
