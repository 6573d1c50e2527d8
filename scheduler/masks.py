"""Masks for the secrets of a request. Pure."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

# Not Latin-1, so no header can have this value: a client that sends it has read it here.
MASK = "\u2022" * 8

_SECRET = re.compile(
    r"auth(?!or(?!i[sz]))|bearer|cookie|credential|hmac|jwt|key|pass(?:phrase|w)|pwd|secret|session"
    r"|signature|token|(?<![a-z])(?:otp|pin|sig)(?![a-z])",
    re.IGNORECASE,
)
# Further ones in queries; `code` is OAuth's.
_SECRET_PARAMETER = re.compile(rf"{_SECRET.pattern}|^(?:code|pass)$", re.IGNORECASE)
_PARAMETER = re.compile(r"(?<=[?&;])([^=&;#]*)=([^&;#]+)")
_MASK_ESCAPED = quote(MASK)


def is_secret(header_name: str) -> bool:
    """Whether the values of a header of this name look like secrets."""
    return _SECRET.search(header_name) is not None


def masked(headers: dict[str, str]) -> dict[str, str]:
    """The headers, with masks for values that look like secrets."""
    return {name: MASK if is_secret(name) else value for name, value in headers.items()}


def masked_url(url: str) -> str:
    """The URL, with masks for values in its query that look like secrets."""
    path, mark, rest = url.partition("?")
    return path + _PARAMETER.sub(_masked_parameter, mark + rest) if mark else url


def has_mask(text: str) -> bool:
    """Whether a mask was sent back."""
    return MASK in text or ("%" in text and _MASK_ESCAPED in text.upper())


def _masked_parameter(found: re.Match[str]) -> str:
    secret = _SECRET_PARAMETER.search(unquote(found[1]))
    return f"{found[1]}={MASK}" if secret else found[0]
