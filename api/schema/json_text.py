"""JSON as text: the parts of an object or of a list, each as it came in. Pure.

RFC 8259 allows the escape of half a surrogate pair (`"\\ud800"`), and JavaScript writes it; msgspec
refuses it. So such escapes are hidden from msgspec and put back.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

import msgspec

from api.schema.findings import Findings, invalid, shown
from scheduler.errors import FieldError, InvalidRequest

T = TypeVar("T")
Part = bytes | msgspec.Raw  # of a text: known to be JSON, and no more
Decode = Callable[[Part], T]

# A text with fewer colons has so few members that all may be looked at.
_FEW = 10_000
_NUMBER = msgspec.json.Decoder(int | float | None).decode
_DURATION = msgspec.json.Decoder(str | int | float | None).decode
_DURATIONS = msgspec.json.Decoder(list[str | int | float] | None).decode
_ANY_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_SURROGATE = re.compile(rb"\\u[dD]")
_UNKNOWN = re.compile(r"unknown field `(.*)`", re.DOTALL)


class Object:
    """Objects of certain members, each of any type."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = tuple(names)
        self._decode = msgspec.json.Decoder(_struct_of("Members", self._names)).decode

    def members(self, text: bytes, findings: Findings) -> dict[str, Part]:
        """The text of each member's value; of a key that is given twice the last counts, as in
        every JSON parser. Further members are findings, and are not kept.

        Raises InvalidRequest if it is no JSON object; in a very large text, at an unknown member.
        """
        try:
            found, text_of = _decoded(text, self._decode)
        except msgspec.ValidationError as error:
            if text.count(b":") > _FEW and (unknown := _UNKNOWN.search(str(error))):
                detail = FieldError(shown(unknown[1]), "There is no such field.")
                raise invalid([detail]) from None
            return self._with_unknown(text, findings)
        values = zip(self._names, msgspec.structs.astuple(found), strict=True)
        given = {name: value for name, value in values if value is not msgspec.UNSET}
        if text_of is bytes:
            return given
        return {name: text_of(value) for name, value in given.items()}

    def _with_unknown(self, text: bytes, findings: Findings) -> dict[str, Part]:
        found, text_of = any_members(text)
        known = [name for name in self._names if name in found]
        given: dict[str, Part] = {name: text_of(found.pop(name)) for name in known}
        findings.add_unknown((text_of(name.encode()).decode() for name in found), len(found))
        return given


class List:
    """Lists of at most so many elements, each of any type. `only`: the name of one that is an
    object's only member. `of`: the type of values that the elements become, instead of texts."""

    def __init__(self, most: int, only: str = "_", of: Any = msgspec.Raw) -> None:
        self._has_texts = of is msgspec.Raw
        names = (f"_{n}" for n in range(most))
        elements = _struct_of("Elements", names, of=of, array_like=True)
        self._decode = msgspec.json.Decoder(elements).decode
        around = msgspec.defstruct("Around", [(only, elements)], forbid_unknown_fields=True)
        self._decode_around = msgspec.json.Decoder(around).decode

    def elements(self, text: Part) -> list[Part]:
        """The text of each element, not copied; none, if it is no list, or a longer one, which is
        not read to its end. Raises InvalidRequest if it is no JSON."""
        return self._elements(text, self._decode)

    def elements_within(self, text: bytes) -> list[Any]:
        """The same of the list in an object, in one pass; none, if it is any other object. None of
        values, if a text has half a surrogate pair."""
        return self._elements(
            text, lambda text: msgspec.structs.astuple(self._decode_around(text))[0]
        )

    def _elements(self, text: Part, decode: Decode[Any]) -> list[Any]:
        try:
            found, text_of = _decoded(text, decode)
        except msgspec.ValidationError:
            return []
        if not (self._has_texts or text_of is bytes):
            return []
        values = msgspec.structs.astuple(found)
        count = bisect(values, False, key=lambda each: each is msgspec.UNSET)
        return list(values[:count] if text_of is bytes else map(text_of, values[:count]))


def _struct_of(
    kind: str, names: Iterable[str], *, of: Any = msgspec.Raw, array_like: bool = False
) -> type[Any]:
    """A struct of these, all optional: an unknown name ends the decoding at once."""
    fields = [(name, of | msgspec.UnsetType, msgspec.UNSET) for name in names]
    return msgspec.defstruct(kind, fields, array_like=array_like, forbid_unknown_fields=True)


class _Hidden:
    """A text whose escapes of surrogates have a mark that is nowhere else in it. Raises ValueError
    if one has not all its digits."""

    def __init__(self, text: bytes) -> None:
        mark = b"\x7f"
        if mark in text:  # hardly ever; then its own digest
            mark += hashlib.blake2b(text, digest_size=8).hexdigest().encode()
        self._escape, self._backslash = mark + b"u", mark + b"b"
        # First the escaped backslashes: no escape follows them.
        text = text.replace(rb"\\", self._backslash)
        text = text.replace(rb"\ud", self._escape + b"d").replace(rb"\uD", self._escape + b"D")
        if re.search(self._escape + rb".(?![0-9a-fA-F]{3})", text):
            raise ValueError("an escape has not all its digits")
        self.text = text

    def text_of(self, part: Part) -> bytes:
        return bytes(part).replace(self._escape, rb"\u").replace(self._backslash, rb"\\")


def _decoded(text: Part, decode: Decode[T]) -> tuple[T, Callable[[Part], bytes]]:
    """What the decoder makes of it, and a function from a part of that to the text that came.

    Raises msgspec.ValidationError if it is of another type, InvalidRequest if it is no JSON.
    """
    try:
        str(text, "utf-8")  # msgspec does not check the UTF-8 of a Raw value
        try:
            return decode(text), bytes
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError:
            if _SURROGATE.search(text) is None:
                raise
        hidden = _Hidden(bytes(text))
        return decode(hidden.text), hidden.text_of
    except msgspec.ValidationError:
        raise
    except (ValueError, RecursionError) as error:
        raise malformed(error) from None


def any_members(text: bytes) -> tuple[dict[str, msgspec.Raw], Callable[[Part], bytes]]:
    """Each member of an object, and a function from a part of it to the text that came. Raises
    InvalidRequest, which says why, if it is no JSON object."""
    try:
        return _decoded(text, _ANY_MEMBERS)
    except msgspec.ValidationError:
        raise invalid([FieldError("body", "It must be a JSON object.")]) from None


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


def read(text: Part, decode: Decode[T], fault: str) -> T:
    """The value of a part. Raises ValueError with `fault` if it is of another type."""
    try:
        return decode(text)
    except msgspec.ValidationError:
        raise ValueError(fault) from None
    except msgspec.DecodeError:  # all else of it is valid
        raise ValueError("It may not contain unpaired surrogates.") from None


def text_or_none(part: Part) -> bytes | None:
    """The very text of a part; None for null."""
    text = bytes(part)
    return None if text == b"null" else text


def whole_or_none(part: Part) -> int | None:
    """A whole number; `3.0` is one."""
    return cast("int | None", _whole(_NUMBER(part)))


def duration_or_none(part: Part) -> str | int | None:
    """The text of a duration, or a whole number."""
    return cast("str | int | None", _whole(_DURATION(part)))


def durations_or_none(part: Part) -> list[str | int] | None:
    found = _DURATIONS(part)
    return None if found is None else list(map(_whole, found))


def _whole(value: Any) -> Any:
    if isinstance(value, float):
        if not value.is_integer():
            raise msgspec.ValidationError("not a whole number")
        return int(value)
    return value
