"""Payloads: the bytes of a request's body to a `Request`, or to a `Change` of one. Pure.

The way that nearly every request takes is one typed decode. Only when that fails is the payload
read again, field by field, to find everything that is wrong with it.

Of a key that is given twice the last value counts, as in every JSON parser; the text of
`targetBody` is never looked into beyond being valid JSON.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from api.change import Change, judge_change
from api.errors import invalid, shown
from api.fields import Rules, judge, timestamp
from api.headers import header_field
from api.schemas import ChangePayload, SchedulePayload
from scheduler.errors import FieldError, InvalidRequest
from scheduler.models import Request

AnyPayload = TypeVar("AnyPayload", SchedulePayload, ChangePayload)

_decoders: dict[type, msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(kind) for kind in (SchedulePayload, ChangePayload)
}
_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

_TEXT_OR_NULL: tuple[Any, str] = (str | None, "It must be a string.")
# Of each field: its key in the struct, its type, and what to say of a value of another type.
_FIELDS: dict[str, tuple[str, Any, str]] = {
    "targetUrl": ("target_url", str, "It must be a string."),
    "triggerAt": ("trigger_at", str, "It must be a string."),
    "targetMethod": ("target_method", *_TEXT_OR_NULL),
    "targetBody": ("target_body", msgspec.Raw, ""),
    "delivery": ("delivery", *_TEXT_OR_NULL),
    "expiresAt": ("expires_at", *_TEXT_OR_NULL),
}


def parse_request(data: bytes, rules: Rules, now_ms: int) -> Request:
    """The request that a body asks for, judged by the store's clock.

    Raises InvalidRequest with every bad field; `body` is the field if it is not JSON at all.
    """
    found: list[FieldError] = []
    return judge(_read(data, SchedulePayload, found), rules, now_ms, found)


def parse_change(data: bytes, rules: Rules, now_ms: int) -> Change:
    """The change that the body of a PATCH asks for. Raises InvalidRequest as above."""
    found: list[FieldError] = []
    return judge_change(_read(data, ChangePayload, found), rules, now_ms, found)


def trigger_at_of(data: bytes) -> int:
    """When a body that was found valid before wants its request performed, in ms."""
    return timestamp(msgspec.json.decode(_decode_fields(data)["triggerAt"]))


def _read(data: bytes, kind: type[AnyPayload], found: list[FieldError]) -> AnyPayload:
    try:
        data.decode()  # a Raw field is checked for everything but its UTF-8
        return _decoders[kind].decode(data)  # type: ignore[no-any-return]
    except msgspec.ValidationError:
        return _salvage(data, kind(), found)
    except (ValueError, RecursionError) as error:
        raise malformed(error) from None


def _salvage(data: bytes, payload: AnyPayload, found: list[FieldError]) -> AnyPayload:
    """The payload without its ill-typed fields, each of which becomes a finding."""
    try:
        fields = _decode_fields(data)
    except msgspec.ValidationError:
        raise invalid([FieldError("body", "It must be a JSON object.")]) from None
    except (ValueError, RecursionError) as error:
        raise malformed(error) from None
    for name, raw in fields.items():
        if name == "targetHeaders":
            payload.target_headers = _salvage_headers(raw, found)
        elif name in _FIELDS:
            _salvage_field(payload, name, raw, found)
        else:
            found.append(FieldError(shown(name), "There is no such field."))
    return payload


def _salvage_field(
    payload: SchedulePayload | ChangePayload, name: str, raw: msgspec.Raw, found: list[FieldError]
) -> None:
    attribute, kind, message = _FIELDS[name]
    try:
        setattr(payload, attribute, msgspec.json.decode(raw, type=kind))
    except msgspec.ValidationError:
        found.append(FieldError(name, message))


def _salvage_headers(raw: msgspec.Raw, found: list[FieldError]) -> dict[str, str] | None:
    try:
        values = msgspec.json.decode(raw, type=dict[str, msgspec.Raw] | None)
    except msgspec.ValidationError:
        found.append(FieldError("targetHeaders", "It must be an object of strings."))
        return None
    headers = {}
    for name, value in (values or {}).items():
        try:
            headers[name] = msgspec.json.decode(value, type=str)
        except msgspec.ValidationError:
            found.append(FieldError(header_field(name), "It must be a string."))
    return headers


def malformed(error: Exception) -> InvalidRequest:
    """Why the body is not JSON, in a sentence; the decoder's own words say where."""
    match error:
        case UnicodeDecodeError():
            message = "It is not valid UTF-8."
        case RecursionError():
            message = "It is nested too deeply."
        case _:
            message = f"It is not valid JSON: {str(error).removeprefix('JSON is malformed: ')}."
    return InvalidRequest([FieldError("body", message)], "The request body is not valid JSON")
