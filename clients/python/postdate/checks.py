"""Checks of a client's arguments before it sends anything. All raise ValueError, or TypeError for
one of another type; both name the argument."""

from __future__ import annotations

import importlib.metadata
import math
import os
import re
import uuid
from collections.abc import Mapping
from urllib.parse import urlsplit

import httpx

from postdate.arguments import real, text

_LONGEST_KEY = 255
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"(?:[!-~](?:[ \t!-~]*[!-~])?)?")
# The client sets them for each request.
_OWN_HEADERS = ("content-length", "content-type", "idempotency-key", "transfer-encoding")


def given(name: str, argument: str | None, variable: str) -> str:
    """The argument, or the environment's."""
    if argument is None:
        argument = os.environ.get(variable)
        if not argument:
            raise ValueError(f"Give {name}, or set {variable}.")
    return argument


def checked_url(base_url: str) -> str:
    try:
        parts = urlsplit(text("base_url", base_url))
        odd = parts.query or parts.fragment or parts.port == 0 or not httpx.URL(base_url).host
        good = parts.scheme in ("http", "https") and parts.hostname and not odd
    except (ValueError, httpx.InvalidURL):  # of the port, of an address, of a character
        good = False
    if not good:
        raise ValueError(
            "The address of a Postdate looks like http://127.0.0.1:8000 or"
            f" https://postdate.example, not like {base_url!r}"
        )
    return base_url.rstrip("/")


def checked_api_key(api_key: str) -> str:
    if (
        not text("api_key", api_key)
        or not api_key.isascii()
        or not api_key.isprintable()
        or " " in api_key
    ):
        raise ValueError("The API key is empty, or has characters that no key has.")
    return api_key


def checked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """By their names in lower case. No error shows a value, which may be a secret."""
    for name, value in headers.items():
        text("A name in headers", name)
        text(f"headers[{name!r}]", value)
        if name.lower() == "x-api-key":
            raise ValueError("Give the API key as api_key, not among the headers.")
        if name.lower() in _OWN_HEADERS:
            raise ValueError(f"The client itself sets the header {name}.")
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise ValueError(f"The header {name!r} has characters that no header has.")
    return {name.lower(): value for name, value in headers.items()}


def checked_seconds(name: str, seconds: float) -> float:
    if not 0 < real(name, seconds) < math.inf:
        raise ValueError(f"{name} must be a number of seconds above 0, not {seconds!r}")
    return seconds


def checked_key(idempotency_key: str) -> str:
    """One that the server takes and that can be sent."""
    text("idempotency_key", idempotency_key)
    visible = all("!" <= character <= "~" for character in idempotency_key)
    if not visible or not 1 <= len(idempotency_key) <= _LONGEST_KEY:
        raise ValueError(
            f"An idempotency key has 1 to {_LONGEST_KEY} visible ASCII characters, unlike"
            f" {idempotency_key!r}"
        )
    return idempotency_key


def key_of(idempotency_key: str | None) -> str:
    """The given one, or a fresh one."""
    return uuid.uuid4().hex if idempotency_key is None else checked_key(idempotency_key)


def checked_etag(name: str, etag: str) -> str:
    if not _HEADER_VALUE.fullmatch(text(name, etag)):
        raise ValueError(f"{name} is the etag of an earlier answer, unlike {etag!r}")
    return etag


def user_agent() -> str:
    try:
        return "postdate-client/" + importlib.metadata.version("postdate-client")
    except importlib.metadata.PackageNotFoundError:
        return "postdate-client"  # run from a checkout that was never installed
