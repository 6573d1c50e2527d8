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
_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_quoted = msgspec.json.Encoder().encode


class Tokens:
    """`mac`: the HMAC-SHA256 of a text under the account's current key, in base64."""

    __slots__ = ("_claims", "_mac", "_name", "_numbers", "_seconds")

    def __init__(self, mac: Callable[[bytes], bytes]) -> None:
        self._mac = mac
        self._seconds = -1
        self._claims = b""
        # Each token has a name of its own: one drawn here, and a number.
        self._name, self._numbers = secrets.token_hex(12).encode(), count()

    def token(self, url: str, body: bytes | None, moment_ms: int) -> bytes:
        """For a request that is sent now."""
        seconds = moment_ms // 1000 - _BEHIND_S
        if seconds != self._seconds:
            self._seconds = seconds
            self._claims = _CLAIMS % (seconds, seconds, seconds + _GOOD_FOR_S, self._name)
        digest = b2a_base64(hashlib.sha256(body or b"").digest(), newline=False)
        digest = digest.translate(_URL_SAFE)  # with its "=", as QStash has it
        parts = (self._claims, next(self._numbers), _quoted(url), digest)
        claims = b'%b%x","sub":%b,"body":"%b"}' % parts
        signed = _HEAD + url_safe(b2a_base64(claims, newline=False))
        return b"%b.%b" % (signed, url_safe(self._mac(signed)))


def url_safe(text: bytes) -> bytes:
    """Base64 as tokens have it."""
    return text.translate(_URL_SAFE, b"=")


_CLAIMS = b'{"iss":"Upstash","iat":%d,"nbf":%d,"exp":%d,"jti":"jwt_%b'
_HEAD = url_safe(b2a_base64(b'{"alg":"HS256","typ":"JWT"}', newline=False)) + b"."
