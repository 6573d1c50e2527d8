"""Readers of variables' texts. Each raises ValueError with what follows the name. Pure."""

from __future__ import annotations

import ipaddress
from base64 import b64decode
from collections.abc import Callable
from urllib.parse import urlsplit

from scheduler.errors import SettingsError

_SECRET_KEY_BYTES = 32


def whole(low: int, high: int = 2**53) -> Callable[[str], int]:
    """A reader of whole numbers from `low` to `high`."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and low <= int(text) <= high):
            bound = f"at least {low}" if high == 2**53 else f"from {low} to {high}"
            raise ValueError(f"it must be a whole number {bound}")
        return int(text)

    return read


def one_of(*choices: str) -> Callable[[str], str]:
    """A reader of these words and no others."""

    def read(text: str) -> str:
        if text not in choices:
            raise ValueError("it must be one of " + ", ".join(choices))
        return text

    return read


_REDIS_SCHEMES = (
    "redis://",
    "rediss://",
    "unix://",
    "redis+cluster://",
    "rediss+cluster://",
    "redis+sentinel://",
)


def read_redis_url(text: str) -> str:
    if not text.startswith(_REDIS_SCHEMES):
        raise ValueError("it must start with " + ", ".join(_REDIS_SCHEMES))
    return text


def read_http_url(text: str) -> str:
    if not text.startswith(("http://", "https://")):
        raise ValueError("it must start with http:// or https://")
    parts = urlsplit(text)
    if not parts.hostname or parts.port == 0:  # reading the port raises ValueError for a bad one
        raise ValueError("it must name a host, as https://postdate.example does")
    if parts.query or parts.fragment or parts.username is not None:
        raise ValueError("it must be an address without user, query and fragment")
    return text.rstrip("/")


def read_ratio(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found <= 1:  # nan is not either
        raise ValueError("it must be a number from 0 to 1")
    return found


def read_secret_keys(text: str) -> tuple[bytes, ...]:
    """Raises SettingsError, which repeats no part of the text."""
    found = []
    for part in text.split(","):
        try:
            key = b64decode(part.strip(), validate=True)
        except ValueError:
            key = b""
        if len(key) != _SECRET_KEY_BYTES:
            # Without the text: it may be a key except for a letter.
            raise SettingsError(
                "POSTDATE_SECRET_KEY must be the base64 of 32 bytes, as `openssl rand -base64 32`"
                " prints it, or several of these with commas between, the newest first."
            )
        found.append(key)
    return tuple(found)


def read_address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise ValueError("it must be an IP address, such as 127.0.0.1 or 0.0.0.0") from None
