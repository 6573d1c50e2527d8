"""The body of a request in a form, to and from the fields of the API. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote_plus

import msgspec

from api.dashboard.requests.text import readable
from api.schema.findings import invalid
from api.schema.json_text import any_members
from scheduler import schema
from scheduler.errors import FieldError, InvalidRequest
from scheduler.models import BodyKind, Request
from scheduler.qstash.redacted import shows_body

# The API's names of a body by its kind; a form has the first one.
BODIES = tuple(row.name for row in schema.FIELDS if row.attribute == "body")
BODY = BODIES[0]
# What the field `bodyKind` of a form says; "": JSON, or else text.
TEXT, BASE64, KEPT = "text", "base64", "kept"

# A form of 64 KiB has other long fields.
_MOST_TYPED_BYTES = 24 * 1024
_LIKE_JSON = re.compile(r"""[\ufeff'"`]*[{\[]|"|```""")
_JSON_TYPE = re.compile(r"[/+]json\b", re.IGNORECASE)


def body_fields(form: Mapping[str, str], headers: Mapping[str, str]) -> dict[str, Any]:
    """The field of the API that a form gives: one at most. Raises InvalidRequest for a text that
    may be meant as JSON, unless the form says that it is text."""
    text, kind = form.get(BODY, ""), form.get("bodyKind", "")
    if kind == KEPT and text.strip():
        raise invalid([FieldError("targetBody", "Say what it is: JSON, text or bytes.")])
    if kind == KEPT or not text:
        return {}
    if kind == TEXT:
        return {"targetBodyText": text}
    if kind == BASE64:
        return {"targetBodyBase64": "".join(text.split())}
    return _json_or_text(text, headers) if text.strip() else {}


def _json_or_text(text: str, headers: Mapping[str, str]) -> dict[str, Any]:
    json = text.strip().encode()
    try:
        any_members(json)
    except InvalidRequest as refusal:
        if not _seems_json(text, headers):
            return {"targetBodyText": text}
        [why] = refusal.details
        way_out = f"{why.message} To send it as text, choose “text” below it."
        raise invalid([FieldError("targetBody", way_out)]) from None
    return {"targetBody": msgspec.Raw(json)}


def _seems_json(text: str, headers: Mapping[str, str]) -> bool:
    if _LIKE_JSON.match(text.lstrip()):
        return True
    content_type = next((v for name, v in headers.items() if name.lower() == "content-type"), "")
    return _JSON_TYPE.search(content_type) is not None


def _may_be_typed(text: str) -> bool:
    if len(text) > _MOST_TYPED_BYTES or "\r" in text or "\0" in text:
        return False
    return len(quote_plus(text)) <= _MOST_TYPED_BYTES


def body_given(asked: Request) -> dict[str, str]:
    """How a form shows the body. One that does not fit into a field, that a browser would send back
    changed, or that is hidden, is kept: the form has its size."""
    if not asked.body:
        return {BODY: "", "bodyKind": ""}
    may_be_shown = len(asked.body) <= _MOST_TYPED_BYTES and shows_body(asked)
    text = readable(asked) if may_be_shown else None
    if text is None or not _may_be_typed(text):
        return {BODY: "", "bodyKind": KEPT, "bodyBytes": f"{len(asked.body):,}"}
    kinds = {BodyKind.JSON: "", BodyKind.TEXT: TEXT, BodyKind.BINARY: BASE64}
    return {BODY: text, "bodyKind": kinds[asked.body_kind]}
