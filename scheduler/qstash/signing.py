"""The signature of a message: a JSON Web Token (RFC 7519) with HS256, as receivers of QStash verify
it. Pure."""

from __future__ import annotations

import hashlib
import secrets
from binascii import b2a_base64
from collections.abc import Callable
from itertools import count

import msgspec

_GOOD_FOR_S = 300
# Receivers allow no difference of clocks, and whole seconds: so far a token lies in the past.
_BEHIND_S = 1
_FROM_BASE64 = bytes.maketrans(b"+/", b"-_")
_HEAD = b"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9."  # {"alg":"HS256","typ":"JWT"}
_CLAIMS = b'{"iss":"Upstash","iat":%d,"nbf":%d,"exp":%d,"jti":"jwt_%b%x","sub":%b,"body":"%b"}'
_quoted = msgspec.json.Encoder().encode


class Tokens:
    """`mac`: the HMAC-SHA256 of a text under the account's current key, in base64."""

    __slots__ = ("_mac", "_name", "_numbers")

    def __init__(self, mac: Callable[[bytes], bytes]) -> None:
        self._mac = mac
        # Each token has a name of its own: one drawn here, and a number.
        self._name, self._numbers = secrets.token_hex(12).encode(), count()

    def token(self, url: str, body: bytes | None, moment_ms: int) -> bytes:
        """For a request that is sent now."""
        now_s = moment_ms // 1000 - _BEHIND_S
        digest = b2a_base64(hashlib.sha256(body or b"").digest(), newline=False)
        digest = digest.translate(_FROM_BASE64)  # with its "=", as QStash has it
        times = now_s, now_s, now_s + _GOOD_FOR_S
        claims = _CLAIMS % (*times, self._name, next(self._numbers), _quoted(url), digest)
        signed = _HEAD + _url_safe(b2a_base64(claims, newline=False))
        return b"%b.%b" % (signed, _url_safe(self._mac(signed)))


def _url_safe(text: bytes) -> bytes:
    return text.translate(_FROM_BASE64, b"=")
