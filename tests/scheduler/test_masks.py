"""The secrets of a request, and how answers mask them."""

from __future__ import annotations

import pytest

from scheduler.masks import MASK, is_secret, masked_url

SECRETS = """Authorization Proxy-Authorisation X-Auth X-Auth-Token Cookie X-Api-Key X-Password
X-Passphrase x-passwd X-Pwd X-Signature X-Hub-Signature-256 X-JWT X-Session-Id X-Credentials
Client-Secret Bearer X-Bearer X-Otp Card-Pin X-Sig x_sig_v2 X-Hmac X-Shopify-Hmac-Sha256
X-Assertion client_assertion X-Sas x_sas_v2 x_code X-Code Code Pass X-Verification-Code mfa_code
X-Totp X-SAML-Response"""
OTHERS = """Accept X-Order X-Author User-Agent X-Compass Content-Type X-Design X-Shipping X-Pinned
X-Country-Code X-Hotpink X-Error-Code Zipcode X-Code-Page X-Sassy X-Disaster X-Assert Bypass"""


@pytest.mark.parametrize("name", SECRETS.split())
def test_a_header_that_looks_like_a_secret_is_one(name: str) -> None:
    assert is_secret(name)
    assert is_secret(name.upper())


@pytest.mark.parametrize("name", OTHERS.split())
def test_any_other_is_none(name: str) -> None:
    assert not is_secret(name)


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("a", "a"),
        ("?n=1&sort=a", "?n=1&sort=a"),
        ("?a=1&api_key=b=c&z=2", f"?a=1&api_key={MASK}&z=2"),
        ("?code=a&hmac=b&zipcode=1", f"?code={MASK}&hmac={MASK}&zipcode=1"),
        ("?sig=a;pass=b", f"?sig={MASK};pass={MASK}"),
        ("?to%6ben=a#b?c", f"?to%6ben={MASK}#b?c"),
        ("?a=token=b", "?a=token=b"),
        ("?x-otp=1&PIN=2", f"?x-otp={MASK}&PIN={MASK}"),
        ("?assign=a&bypass=b", "?assign=a&bypass=b"),
        (
            "?x_code=1&client_assertion=b&sas=c",
            f"?x_code={MASK}&client_assertion={MASK}&sas={MASK}",
        ),
    ],
)
def test_values_of_a_query_that_look_like_secrets_are_masked(path: str, shown: str) -> None:
    assert masked_url(f"https://e.example/{path}") == f"https://e.example/{shown}"
