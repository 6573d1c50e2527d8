"""Conditional requests: If-Match and If-None-Match are read, and a GET is answered by them."""

from __future__ import annotations

import re
from typing import Any

from litestar.types import Scope

from api.answer import Bodiless, JsonResponse
from api.schema.findings import invalid
from scheduler.errors import FieldError, PreconditionFailed
from scheduler.store.preconditions import ANY, Precondition, quoted

_TAG = re.compile(r'(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"')
# Possessive, so that the time to refuse a header grows with its length alone.
_LIST = re.compile(rf"[ \t,]*+{_TAG.pattern}(?:[ \t]*+,[ \t,]*+{_TAG.pattern})*+[ \t,]*+")
_MALFORMED = 'It must be * or a list of entity tags, each as in ETag: "…".'


class NotModified(Bodiless):
    """The answer to a GET of what the client has."""

    __slots__ = ()
    fixed = JsonResponse.fixed[1:]

    def __init__(self, headers: dict[str, str]) -> None:
        self.status, self.body, self.headers = 304, b"", headers


def wanted_of(scope: Scope) -> Precondition:
    """What the request's headers ask of the thing that it is about. Raises InvalidRequest."""
    none_match = _tags_of(scope, "If-None-Match")
    if none_match is not None:  # compared weakly
        none_match = frozenset(each.removeprefix("W/") for each in none_match)
    return Precondition(_tags_of(scope, "If-Match"), none_match)


def _tags_of(scope: Scope, name: str) -> frozenset[str] | None:
    key = name.lower().encode()
    lines = [value.decode("latin-1") for each, value in scope["headers"] if each == key]
    if not lines:
        return None
    text = ",".join(lines)
    if text.strip(" \t") == ANY:
        return frozenset((ANY,))
    if _LIST.fullmatch(text) is None:
        raise invalid([FieldError(name, _MALFORMED)])
    return frozenset(_TAG.findall(text))


def tag(etag: str | None) -> dict[str, str]:
    """The header of an answer that shows the thing with this tag."""
    return {"etag": quoted(etag or "")}


def read_answer(
    wanted: Precondition, content: Any, etag: str | None, *, is_there: bool = True
) -> JsonResponse:
    """The answer to a GET. Raises PreconditionFailed."""
    if not wanted.fits(etag, is_there=is_there):
        raise PreconditionFailed
    if wanted.is_known(etag, is_there=is_there):
        return NotModified(tag(etag))
    return JsonResponse(200, content, tag(etag))
