"""The fields of a request in a form, to and from those of the API, and as facts. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from api.dashboard.requests.body import body_fields, body_given
from api.schema.fields import FIELDS
from api.schema.findings import invalid
from api.schema.headers import header_field
from scheduler import schema
from scheduler.callbacks import NO_URL, Callback, CallbackOn
from scheduler.durations import format_duration
from scheduler.errors import FieldError
from scheduler.masks import MASK, masked, masked_url
from scheduler.models import Request
from scheduler.schema import DEFAULT, FieldRow, Kind

_BLANKS = " \t"  # around a header's value; of others Latin-1 has some that belong to it
# The names of the API's fields in a form.
LABELS = {row.name: row.label for row in schema.FIELDS if row.label}
# These depend on others, or have names of their own in a form.
_OWN = {"targetUrl", "targetMethod", "targetHeaders", "callbackUrl", "callbackOn"}
_OWN |= {"targetBody", "targetBodyText", "targetBodyBase64"}
_ROWS = tuple(row for row in schema.FIELDS if row.label and row.name not in _OWN)
_FOUND_BY, _CALLBACK = ("reference", "lane"), ("callbackUrl", "callbackOn")


def groups(*, upserts: bool = False) -> list[list[FieldRow]]:
    """The fields of a form, grouped by line. `upserts`: also the choice of what happens to a
    schedule that already waits with the reference."""
    found_by, callback = ([schema.NAMED[name] for name in each] for each in (_FOUND_BY, _CALLBACK))
    if upserts:
        found_by.insert(1, schema.NAMED["onExisting"])
    return [found_by, [row for row in _ROWS if row.name not in _FOUND_BY], callback]


def facts_of(request: Request) -> list[tuple[str, str]]:
    """The label and the value of each field that pages do not show in a way of their own."""
    facts = list[tuple[str, str]]()
    for row in _ROWS:
        shown = FIELDS[row.name].shown_in(request)
        if row.name not in _FOUND_BY and shown not in (None, 0):
            facts.append((row.label, _fact(row, shown)))
    return facts


def _fact(row: FieldRow, shown: Any) -> str:
    if isinstance(shown, list):
        return ", ".join(shown)
    words = dict(row.words)
    return words.get(shown, words[""] if words and shown == row.default else str(shown))


def labelled(field: str, labels: dict[str, str]) -> str:
    """`Headers, Host` of `targetHeaders.Host`."""
    name, _, part = field.partition(".")
    return labels.get(name, name) + (f", {part}" if part else "")


def request_fields(form: Mapping[str, str]) -> dict[str, Any]:
    """The fields of the API that a form gives; an empty one is left out. Raises InvalidRequest for
    what would be sent otherwise than it was meant."""
    fields: dict[str, Any] = {"targetUrl": form.get("url", "").strip()}
    if form.get("method"):
        fields["targetMethod"] = form["method"]
    for row in _ROWS:
        value = _READ.get(row.kind, str)(form.get(row.name, "").strip())
        if value not in ("", []):
            fields[row.name] = value
    fields |= _callback(form)
    if headers := headers_of(form.get("headers", "")):
        fields["targetHeaders"] = headers
    return fields | body_fields(form, headers)


def request_given(asked: Request) -> dict[str, str]:
    """The form of a request; secrets are masked."""
    lines = [f"{name}: {value}" for name, value in masked(asked.headers).items()]
    return {
        "url": masked_url(asked.url),
        "method": asked.method,
        **{row.name: _given(row, getattr(asked, row.attribute)) for row in _ROWS},
        **_callback_given(asked.callback),
        "headers": "\n".join(lines),
        **body_given(asked),
    }


def _given(row: FieldRow, value: Any) -> str:
    return "" if value in (None, row.default) else _WRITTEN.get(row.kind, str)(value)


def edited(form: Mapping[str, str], given: Mapping[str, Any], asked: Request) -> dict[str, Any]:
    """The fields that a form has otherwise than `asked` filled it, which was then `given`; null
    clears one. A secret whose mask came back stays, unless the target is another one. Raises
    InvalidRequest as above."""
    after = request_fields(form)
    found = {
        name: value
        for name, value in after.items()
        if name not in given or not _same(value, given[name])
    }
    found |= {name: None for name in given if name not in after}
    if "targetHeaders" in found and "targetUrl" not in found:
        found["targetHeaders"] = _unmasked(found["targetHeaders"], asked)
    return found


def headers_of(text: str) -> dict[str, str]:
    """Of lines such as `X-Order: 1`; one without a colon is a name without a value. Raises
    InvalidRequest for a name with two."""
    headers: dict[str, str] = {}
    for line in filter(str.strip, text.split("\n")):
        name, _, value = line.partition(":")
        name = name.strip(_BLANKS)
        if name in headers:
            raise invalid([FieldError(header_field(name), "It is given twice.")])
        headers[name] = value.strip(_BLANKS)
    return headers


def _whole(text: str) -> int | str:
    """The number; other text unchanged, so that the field's own rule names the fault."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else text


def _seconds(text: str) -> str:
    return f"{text}s" if text.isdecimal() else text


def _list(text: str) -> list[int | str]:
    return [_whole(each) for each in text.replace(",", " ").split()]


def _joined(delays_ms: Sequence[int]) -> str:
    return ", ".join(map(format_duration, delays_ms))


# How a form's text of each kind becomes the API's value, and how a value is written into a form.
_READ: dict[Kind, Callable[[str], Any]] = {
    Kind.WHOLE: _whole,
    Kind.SECONDS: _seconds,
    Kind.DURATIONS: _list,
}
_WRITTEN: dict[Kind, Callable[[Any], str]] = {Kind.DURATIONS: _joined}


def _same(one: Any, other: Any) -> bool:
    return msgspec.json.encode(one) == msgspec.json.encode(other)


def _unmasked(headers: dict[str, str] | None, before: Request) -> dict[str, str] | None:
    if headers is None:
        return None
    kept = before.headers
    return {name: kept.get(name, v) if v == MASK else v for name, v in headers.items()}


def _callback(form: Mapping[str, str]) -> dict[str, str | None]:
    """Without a URL that of the account is meant, if it has one."""
    if form.get("callbackOn") == "none":
        return {"callbackUrl": None}
    fields = dict[str, str | None](callbackUrl=form.get("callbackUrl", "").strip() or DEFAULT)
    return fields | ({"callbackOn": on} if (on := form.get("callbackOn")) else {})


def _callback_given(wish: Callback | None) -> dict[str, str]:
    if wish is None:
        return {}
    if wish.url == NO_URL:
        return {"callbackOn": "none"}
    on = "failed" if wish.on is CallbackOn.FAILED else ""
    return {"callbackUrl": masked_url(wish.url or ""), "callbackOn": on}
