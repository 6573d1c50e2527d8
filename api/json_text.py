"""JSON as text: the parts of an object or of a list, each as it came in. Pure.

JavaScript writes half of a surrogate pair as an escape (`"\\ud800"`), RFC 8259 allows it, and a
body is sent as it came; msgspec refuses it. So such escapes are hidden from it and put back.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from api.findings import invalid
from scheduler.errors import FieldError, InvalidRequest

T = TypeVar("T")

_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode
_SURROGATE = re.compile(rb"\\u[dD]")


def members(text: bytes) -> dict[str, bytes]:
    """The text of each member's value; of a key that is given twice the last counts, as in every
    JSON parser. Raises InvalidRequest if it is no object, or no JSON."""
    found, hidden = _decoded(text, _decode_members)
    if found is None:
        raise invalid([FieldError("body", "It must be a JSON object.")])
    if hidden is None:
        return {name: bytes(value) for name, value in found.items()}
    shown = {name: hidden.restored(bytes(value)) for name, value in found.items()}
    return {hidden.restored(name.encode()).decode(): value for name, value in shown.items()}


def elements(text: bytes) -> list[bytes]:
    """The text of each element; none, if it is no list. Raises InvalidRequest if it is no JSON."""
    found, hidden = _decoded(text, _decode_elements)
    texts = [bytes(value) for value in found or ()]
    return texts if hidden is None else [hidden.restored(each) for each in texts]


class _Hidden:
    """A text whose escapes of surrogates stand under a mark of their own: its own digest, so that
    nothing else in it looks like them. Raises ValueError if one has not all its digits."""

    def __init__(self, text: bytes) -> None:
        mark = b"\x7f" + hashlib.blake2b(text, digest_size=8).hexdigest().encode()
        self._escape, self._backslash = mark + b"u", mark + b"b"
        # First the escaped backslashes: what follows one of them is no escape.
        text = text.replace(rb"\\", self._backslash)
        text = text.replace(rb"\ud", self._escape + b"d").replace(rb"\uD", self._escape + b"D")
        if re.search(self._escape + rb".(?![0-9a-fA-F]{3})", text):
            raise ValueError("an escape has not all its digits")
        self.text = text

    def restored(self, text: bytes) -> bytes:
        return text.replace(self._escape, rb"\u").replace(self._backslash, rb"\\")


def _decoded(text: bytes, decode: Callable[[bytes], T]) -> tuple[T | None, _Hidden | None]:
    """What the decoder makes of it, None if that is of another type; and what had to be hidden.

    Raises InvalidRequest if it is no JSON.
    """
    hidden = None
    try:
        text.decode()  # a Raw value is checked for everything but its UTF-8
        try:
            return decode(text), None
        except msgspec.ValidationError:
            return None, None
        except msgspec.DecodeError:
            if _SURROGATE.search(text) is None:
                raise
        hidden = _Hidden(text)
        return decode(hidden.text), hidden
    except msgspec.ValidationError:
        return None, hidden
    except (ValueError, RecursionError) as error:
        raise malformed(error) from None


def malformed(error: Exception) -> InvalidRequest:
    """Why a body is not JSON, in a sentence; the decoder's own words say where."""
    match error:
        case UnicodeDecodeError():
            message = "It is not valid UTF-8."
        case RecursionError():
            message = "It is nested too deeply."
        case _:
            message = f"It is not valid JSON: {str(error).removeprefix('JSON is malformed: ')}."
    return InvalidRequest([FieldError("body", message)], "The request body is not valid JSON")


def read(text: bytes, decode: Callable[[bytes], Any], fault: str) -> Any:
    """The value of a part. Raises ValueError with `fault` if it is of another type."""
    try:
        return decode(text)
    except msgspec.ValidationError:
        raise ValueError(fault) from None
    except msgspec.DecodeError:  # it was found valid, all but this
        raise ValueError("It may not contain unpaired surrogates.") from None
