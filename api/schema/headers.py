"""The rule for `targetHeaders`. Pure."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sized

import msgspec

from api.schema import json_text
from api.schema.findings import NotAnew, invalid, shown
from scheduler.errors import FieldError
from scheduler.masks import MASK
from scheduler.target.http import TOKEN, TOKEN_PATTERN, VALUE, is_reserved

MAX_HEADERS = 64
MAX_HEADER_BYTES = 16 * 1024
_MAX_REMEMBERED_CHARACTERS = 256

_decode = msgspec.json.Decoder(dict[str, str]).decode
_decode_loosely = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_value = msgspec.json.Decoder(str).decode
_MASKED = "Its value is the mask that stands for a secret; give the value itself."
_NOT_STRINGS = "It must be an object of strings."

_NAMES = re.compile(rf"{TOKEN_PATTERN}(?:\n{TOKEN_PATTERN})*")

Headers = dict[str, str]


def read_headers(text: bytes) -> Headers:
    """Headers that can be sent. Raises ValueError if they are no headers or too large, NotAnew if
    only masks are wrong, else InvalidRequest naming each bad one."""
    try:
        headers = _decode(text)
    except msgspec.DecodeError:
        return _with_every_fault(json_text.read(text, _decode_loosely, _NOT_STRINGS))
    judge(headers)
    return headers


def judge(headers: Headers, named: Callable[[str], str] | None = None) -> None:
    """The same of headers that were read already. `named`: how a finding names one."""
    if headers and not _all_fine(headers):
        faults = [*_faults(headers, named or header_field)]
        if all(each.message == _MASKED for each in faults):
            raise NotAnew(_MASKED, faults)
        raise invalid(faults)


def fine_headers(text: bytes) -> Headers:
    """The same, without naming the faults. Raises ValueError."""
    headers = _decode(text)
    if headers and not _all_fine(headers):
        raise ValueError("not fine")
    return headers


def header_field(name: str) -> str:
    """How a finding names a header: `targetHeaders.X-Foo`."""
    return f"targetHeaders.{shown(name)}"


def _judge_count(headers: Sized) -> None:
    if len(headers) > MAX_HEADERS:
        raise ValueError(f"It may have at most {MAX_HEADERS} headers.")


def _judge_size(headers: Headers) -> None:
    _judge_count(headers)
    if sum(map(len, headers)) + sum(map(len, headers.values())) > MAX_HEADER_BYTES:
        raise ValueError(f"Names and values may have at most {MAX_HEADER_BYTES:,} bytes in all.")


def _with_every_fault(given: dict[str, msgspec.Raw]) -> Headers:
    """Of headers that are not all strings. Raises as `read_headers` does."""
    _judge_count(given)
    headers, faults = {}, []
    for name, raw in given.items():
        try:
            headers[name] = json_text.read(bytes(raw), _decode_value, "It must be a string.")
        except ValueError as error:
            faults.append(FieldError(header_field(name), str(error)))
    _judge_size(headers)
    raise invalid([*faults, *_faults(headers, header_field)])


def _all_fine(headers: Headers) -> bool:
    """Whether all headers are fine, judged at once. Raises as `_judge_size`."""
    names, values, count = "\n".join(headers), "".join(headers.values()), len(headers)
    if count > MAX_HEADERS or len(names) + len(values) > MAX_HEADER_BYTES:
        _judge_size(headers)
    known = len(names) <= _MAX_REMEMBERED_CHARACTERS
    fine = _known_to_be_fine(names, count) if known else _names_are_fine(names, count)
    return fine and VALUE.fullmatch(values) is not None


def _names_are_fine(names: str, count: int) -> bool:
    """Whether so many names, one a line, can be sent together."""
    lower = names.lower().split("\n")
    return (
        _NAMES.fullmatch(names) is not None
        and len({*lower}) == len(lower) == count
        and not any(map(is_reserved, lower))
    )


# A client's schedules mostly have the same headers.
_known_to_be_fine = functools.lru_cache(maxsize=1024)(_names_are_fine)


def _faults(headers: Headers, named: Callable[[str], str]) -> Iterator[FieldError]:
    seen: set[str] = set()
    for name, value in headers.items():
        lower = name.lower()
        fault = "It is given twice, in another letter case." if lower in seen else None
        fault = fault or _name_fault(name, lower) or _value_fault(value)
        if fault:
            yield FieldError(named(name), fault)
        seen.add(lower)


def _name_fault(name: str, lower: str) -> str | None:
    if TOKEN.fullmatch(name) is None:
        return "It is not a valid header name."
    if is_reserved(lower):
        return "This header is set by Postdate and cannot be given."
    return None


def _value_fault(value: str) -> str | None:
    if value == MASK:
        return _MASKED
    if VALUE.fullmatch(value) is None:
        return "Its value may only have Latin-1 characters, and no control characters."
    return None
