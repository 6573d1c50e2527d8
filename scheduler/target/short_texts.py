"""Common texts of a stored request, as it has them: a character each.

Of method and scheme that is one letter: 2 bytes for "POST" and "https://" instead of 13. Names and
values of headers have characters that no header may have, so what is short tells itself. All come
back as they were spelt, and in their order. The place of a text in its list is the stored format:
new ones go to the end, and need another format, because older programs cannot read them.
"""

from __future__ import annotations

_Headers = dict[str, str]

# Of https; of http it is the small letter.
_LETTERS = {
    "GET": "G",
    "POST": "P",
    "PUT": "U",
    "PATCH": "A",
    "DELETE": "D",
    "HEAD": "H",
    "OPTIONS": "O",
}
# Letter -> method and scheme.
BY_LETTER = {each: (name, "https://") for name, each in _LETTERS.items()}
BY_LETTER |= {each.lower(): (name, "http://") for name, each in _LETTERS.items()}
_LETTER_OF = {scheme + name: each for each, (name, scheme) in BY_LETTER.items()}
# Scheme -> method -> letter.
LETTERS = {"https": _LETTERS, "http": {name: each.lower() for name, each in _LETTERS.items()}}

NAMES = (
    *("Content-Type", "Authorization", "Accept", "User-Agent", "X-Api-Key", "X-API-Key"),
    *("Idempotency-Key", "X-Request-Id", "X-Request-ID", "X-Correlation-Id", "X-Signature"),
    *("content-type", "authorization", "accept", "user-agent", "x-api-key", "idempotency-key"),
    *("x-request-id", "x-correlation-id", "x-signature"),
)
VALUES = (
    *("application/json", "application/json; charset=utf-8", "application/json;charset=utf-8"),
    *("application/x-www-form-urlencoded", "text/plain", "text/plain; charset=utf-8", "*/*"),
    *("application/cloudevents+json", "application/xml"),
)
_CONTROLS = [chr(code) for code in range(1, 32)]
_short_name = dict(zip(NAMES, _CONTROLS, strict=False)).get
_short_value = dict(zip(VALUES, _CONTROLS, strict=False)).get
_spelt_name = dict(zip(_CONTROLS, NAMES, strict=False)).get
_spelt_value = dict(zip(_CONTROLS, VALUES, strict=False)).get


def short_target(method: str, url: str) -> tuple[str, str]:
    """Method and URL as they are stored; whole, if their spelling is an unusual one."""
    scheme, slashes, rest = url.partition("://")
    letter = _LETTER_OF.get(f"{scheme}{slashes}{method}")
    return (method, url) if letter is None else (letter, rest)


def kept_part(part: bytes) -> bytes:
    """The part, in small letters, as a packed request has it: its URL's scheme is a letter."""
    if part in b"https://" or part in b"http://":
        return b""
    _, scheme, rest = part.partition(b"://")
    return rest if scheme else part.removeprefix(b"/").removeprefix(b"/")


def short_headers(headers: _Headers) -> _Headers:
    """Headers as they are stored. Short ones stay as they are."""
    return {_short_name(name, name): _short_value(text, text) for name, text in headers.items()}


def spelt_headers(headers: _Headers) -> _Headers:
    """Headers as they were given. Spelt ones stay as they are."""
    return {_spelt_name(name, name): _spelt_value(text, text) for name, text in headers.items()}
