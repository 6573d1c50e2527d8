"""The signature of a message: a JSON Web Token (RFC 7519) with HS256, as receivers of QStash verify
it. Pure."""

from __future__ import annotations

import hashlib
import secrets
from base64 import urlsafe_b64encode
from binascii import b2a_base64
from collections.abc import Callable
from itertools import count

import msgspec

_GOOD_FOR_S = 300
# Receivers allow no difference of clocks, and whole seconds: so far a token lies in the past.
_BEHIND_S = 1
_FROM_BASE64 = bytes.maketrans(b"+/", b"-_")
_HEAD = b"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9."  # {"alg":"HS256","typ":"JWT"}
_encode = msgspec.json.Encoder().encode


class Tokens:
    """`mac`: the HMAC-SHA256 of a text under the account's current key, in base64."""

    __slots__ = ("_mac", "_name", "_numbers")

    def __init__(self, mac: Callable[[bytes], bytes]) -> None:
        self._mac = mac
        # Each token has a name of its own: one drawn here, and a number.
        self._name, self._numbers = secrets.token_hex(12), count()

    def token(self, url: str, body: bytes | None, moment_ms: int) -> str:
        """For a request that is sent now."""
        now_s = moment_ms // 1000 - _BEHIND_S
        claims = {
            "iss": "Upstash",
            "iat": now_s,
            "nbf": now_s,
            "exp": now_s + _GOOD_FOR_S,
            "jti": f"jwt_{self._name}{next(self._numbers):x}",
            "sub": url,
            "body": urlsafe_b64encode(hashlib.sha256(body or b"").digest()).decode(),
        }
        signed = _HEAD + _url_safe(b2a_base64(_encode(claims), newline=False))
        return (signed + b"." + _url_safe(self._mac(signed))).decode()


def _url_safe(text: bytes) -> bytes:
    return text.translate(_FROM_BASE64, b"=")
