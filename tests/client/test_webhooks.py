"""`verify`: what a target asks of a request before it believes it."""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook

from postdate import VerificationFailed, verify

SECRET = "whsec_" + b64encode(b"s" * 32).decode()
OTHER = "whsec_" + b64encode(b"o" * 32).decode()
NOW_S = 1_795_161_600
BODY = '{"n":1.50,"ü":"\ud83d\ude00"}'.encode("utf-16", "surrogatepass").decode("utf-16").encode()


def signed(body: bytes = BODY, secret: str = SECRET, at_s: int = NOW_S) -> dict[str, str]:
    """Headers as the package of the standard makes them."""
    moment = datetime.fromtimestamp(at_s, UTC)
    signature = Webhook(secret).sign("inv_1", moment, body.decode())
    return {
        "webhook-id": "inv_1",
        "webhook-timestamp": str(at_s),
        "webhook-signature": signature,
    }


@pytest.mark.parametrize("body", [BODY, b"", b"\x00", b"not json"])
@pytest.mark.parametrize("name", [str.lower, str.upper, str.title])
def test_what_was_signed_is_believed(body: bytes, name: Callable[[str], str]) -> None:
    headers = {name(key): value for key, value in signed(body).items()}
    verify({"Host": "x", **headers}, body, SECRET, now=NOW_S)
    verify(headers, body, SECRET.removeprefix("whsec_"), now=NOW_S + 300)


def test_a_request_that_is_not_signed_is_not_believed() -> None:
    headers = signed()
    del headers["webhook-signature"]
    with pytest.raises(VerificationFailed, match="no header webhook-signature"):
        verify(headers, BODY, SECRET, now=NOW_S)


def test_now_is_now_unless_it_is_said() -> None:
    verify(signed(at_s=int(time.time())), BODY, SECRET)
    with pytest.raises(VerificationFailed, match="five minutes"):
        verify(signed(at_s=NOW_S - 10**7), BODY, SECRET)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"webhook-timestamp": str(NOW_S - 301)}, "five minutes"),
        ({"webhook-timestamp": str(NOW_S + 301)}, "five minutes"),
        ({"webhook-timestamp": str(NOW_S + 1)}, "No signature fits"),
        ({"webhook-timestamp": "1e9"}, "no number of seconds"),
        ({"webhook-timestamp": "\u0661"}, "no number of seconds"),
        ({"webhook-timestamp": "9" * 5000}, "no number of seconds"),
        ({"webhook-id": "inv_2"}, "No signature fits"),
        ({"webhook-signature": ""}, "No signature fits"),
        ({"webhook-signature": "v1,ü"}, "No signature fits"),
        ({"webhook-signature": signed()["webhook-signature"].replace("v1", "v1a")}, "No signature"),
    ],
)
def test_what_was_not_signed_so_is_not_believed(change: dict[str, str], says: str) -> None:
    with pytest.raises(VerificationFailed, match=says):
        verify({**signed(), **change}, BODY, SECRET, now=NOW_S)


def test_during_a_rotation_one_that_fits_is_enough() -> None:
    new, old = signed(), signed(secret=OTHER)
    both = f"v1,{b64encode(b'x' * 32).decode()} {old['webhook-signature']}"
    verify({**new, "webhook-signature": both}, BODY, OTHER, now=NOW_S)
    verify(new, BODY, [OTHER, SECRET], now=NOW_S)
    for secrets in (OTHER, [OTHER], []):
        with pytest.raises(VerificationFailed):
            verify(new, BODY, secrets, now=NOW_S)


@pytest.mark.parametrize("secret", ["", "whsec_!", "pd_00_key"])
def test_what_is_no_secret_is_the_receivers_own_mistake(secret: Any) -> None:
    with pytest.raises(ValueError, match="looks like whsec_") as caught:
        verify(signed(), BODY, secret, now=NOW_S)
    assert not isinstance(caught.value, VerificationFailed)
