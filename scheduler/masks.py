"""Masks for the secrets of a request. Pure."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

# Not Latin-1, so no header can have this value: a client that sends it has read it here.
MASK = "\u2022" * 8

# `code` alone is OAuth's; that of a country or an error is none. `sas` is Azure's.
_SECRET = re.compile(
    r"assertion|auth(?!or(?!i[sz]))|bearer|cookie|credential|hmac|jwt|key|pass(?:phrase|w)|pwd|saml"
    r"|secret|session|signature|token|(?:access|login|mfa|recovery|security|verification)[-_]?code"
    r"|(?<![a-z])(?:t?otp|pin|sas|sig)(?![a-z])|^(?:x[-_])?(?:code|pass)$",
    re.IGNORECASE,
)
_PARAMETER = re.compile(r"(?<=[?&;])([^=&;#]*)=([^&;#]+)")
_MASK_ESCAPED = quote(MASK)


def is_secret(name: str) -> bool:
    """Whether the values of a header, or parameter, of this name look like secrets."""
    return _SECRET.search(name) is not None


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
    return f"{found[1]}={MASK}" if is_secret(unquote(found[1])) else found[0]
