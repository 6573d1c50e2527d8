"""The fields of a schedule in payloads, answers and the OpenAPI document, made of the table in
`scheduler.schema`. Pure."""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Callable, Collection
from itertools import groupby
from typing import Any

import msgspec

from api.schema import rules
from api.schema.field import DURATION, DURATIONS, OBJECT, TEXT, TEXTS, WHOLE, Field, Schema
from api.schema.headers import MAX_HEADERS, read_headers
from scheduler import durations, schema
from scheduler.callbacks import NO_URL, UNSAID, Callback, CallbackOn, or_none, sent_to
from scheduler.durations import DAY_MS
from scheduler.errors import FieldError
from scheduler.field_rows import FieldRow, Kind
from scheduler.masks import masked, masked_url
from scheduler.models import BodyKind, Delivery, Request, RetryOn, usual_method
from scheduler.qstash.redacted import shown_headers, shows_body
from scheduler.retries import delays_ms
from scheduler.schema import DEFAULT
from scheduler.target.http import TOKEN_PATTERN, VALUE_PATTERN
from scheduler.times import format_iso8601

# A reader may send an example as it is, also to a process that began days ago.
SOON = format_iso8601((time.time_ns() // 1_000_000 + 30 * DAY_MS) // DAY_MS * DAY_MS)


def moment(ms: int | None) -> str | None:
    """A moment as clients see it; None stays None."""
    return None if ms is None else format_iso8601(ms)


def _durations(delays_ms: tuple[int, ...] | None) -> list[str] | None:
    return None if delays_ms is None else list(map(durations.format_duration, delays_ms))


def _callback_url(callback: Callback | None) -> str | None:
    if callback is None or callback.url is None:
        return DEFAULT
    return masked_url(callback.url) if callback.url else None


def _callback_on(callback: Callback | None) -> CallbackOn | None:
    return None if callback is None or callback.url == NO_URL else callback.on


def _shown_body(request: Request) -> bytes | None:
    return request.body if shows_body(request) else None


def _callback_include(callback: Callback | None) -> str | None:
    return "response" if callback is not None and callback.with_response else None


def _same(value: Any) -> Any:
    return value


# Attributes of fields that a request has together, as its callback.
_CALLBACK = frozenset({"callback_url", "callback_on", "failure_callback_url", "callback_include"})
_ROWS = (*schema.FIELDS, *schema.ON_EXISTING)
# Choices have names in the document: generators make one type of each.
CHOICES: dict[str, Schema] = {
    row.choice: {"type": "string", "enum": list(row.choices)} for row in _ROWS if row.choice
}
_DURATION: Schema = {"pattern": f"^{durations.PATTERN}$"}
_MAYBE_TEXT: Schema = {"type": ["string", "null"]}


def _choice(row: FieldRow) -> Schema:
    return {"$ref": f"#/components/schemas/{row.choice}"}


def _given(**bounds: Any) -> Schema:
    """The bounds that are not None."""
    return {name: bound for name, bound in bounds.items() if bound is not None}


class _KindOf(msgspec.Struct, frozen=True):
    """How fields of a kind are read (`json`) and judged (`rule` makes the rule of one). `more` is
    the schema of its value in a payload, `shown` that in an answer, which `show` makes. An entry of
    `_OWN` under a field's name overrides these."""

    json: Any
    rule: Callable[[FieldRow], rules.Rule] | None = None
    more: Callable[[FieldRow], Schema] = lambda _: {}
    show: Callable[[Any], Any] | None = _same
    shown: Callable[[FieldRow], Schema] = lambda _: _MAYBE_TEXT


_KINDS = {
    Kind.TEXT: _KindOf(
        TEXT,
        more=lambda row: _given(
            pattern=f"^{row.pattern}$" if row.pattern else None, maxLength=row.longest
        ),
    ),
    Kind.TEXTS: _KindOf(
        TEXTS,
        more=lambda row: {
            "items": {"type": "string", "pattern": f"^{row.pattern}$"},
            "maxItems": row.longest,
        },
        show=list,
        shown=lambda _: {"type": "array", "items": {"type": "string"}},
    ),
    Kind.URL: _KindOf(
        TEXT,
        lambda _: rules.target_url,
        lambda row: _given(
            type="string" if row.required else None, format="uri", maxLength=row.longest
        ),
        lambda url: masked_url(url) if url else None,
        lambda row: {"type": "string"} if row.required else _MAYBE_TEXT,
    ),
    Kind.CHOICE: _KindOf(
        TEXT,
        lambda row: rules.one_of(row.choices),
        lambda row: (
            {"anyOf": [_choice(row), {"type": "null"}]}
            if row.choice
            else {"enum": [*row.choices, None]}
        ),
        shown=_choice,
    ),
    Kind.WHOLE: _KindOf(
        WHOLE,
        rules.from_to,
        lambda row: _given(minimum=row.minimum, maximum=row.maximum),
        shown=lambda row: {"type": "integer" if row.default is not None else ["integer", "null"]},
    ),
    Kind.MOMENT: _KindOf(
        TEXT,
        lambda _: lambda text, *_: rules.timestamp(text),
        lambda _: {"format": "date-time"},
        moment,
        lambda row: {
            "type": "string" if row.required else ["string", "null"],
            "format": "date-time",
        },
    ),
    Kind.DURATION: _KindOf(
        DURATION, more=lambda row: _DURATION | _given(minimum=row.minimum, maximum=row.maximum)
    ),
    Kind.SECONDS: _KindOf(
        DURATION,
        rules.whole_seconds,
        lambda row: _DURATION | _given(minimum=row.minimum, maximum=row.maximum),
        lambda seconds: f"{seconds}s",
        lambda _: {"type": "string"},
    ),
    Kind.DURATIONS: _KindOf(
        DURATIONS,
        lambda _: rules.retry_delays,
        lambda row: {
            "items": {"type": DURATION.types, **_DURATION, "minimum": row.minimum},
            "minItems": 1,
            "maxItems": row.longest,
        },
        _durations,
        lambda _: {"type": ["array", "null"], "items": {"type": "string"}},
    ),
    Kind.HEADERS: _KindOf(
        OBJECT,
        lambda _: lambda text, *_: read_headers(text),
        lambda _: {
            "maxProperties": MAX_HEADERS,
            "propertyNames": {"pattern": f"^{TOKEN_PATTERN}$"},
            "additionalProperties": {"type": "string", "pattern": f"^{VALUE_PATTERN}$"},
        },
        masked,
        lambda _: {"type": "object", "additionalProperties": {"type": "string"}},
    ),
    Kind.OBJECT: _KindOf(
        OBJECT,
        lambda _: rules.target_body,
        lambda _: {"additionalProperties": True},
        lambda body: None if body is None else msgspec.Raw(body),
        lambda _: {"type": ["object", "null"], "additionalProperties": True},
    ),
    Kind.BASE64: _KindOf(
        TEXT,
        lambda _: rules.target_body_base64,
        lambda _: {"pattern": f"^{rules.BASE64_PATTERN}$"},
        lambda body: None if body is None else b64encode(body).decode(),
    ),
}
_DEFAULT: Schema = {"type": "string", "enum": [DEFAULT]}
_CALLBACK_URL: Schema = {"type": "string", "format": "uri", "maxLength": schema.LONGEST_URL}
# What differs from the other fields of the kind. `misfits` compares expiresAt with triggerAt.
_OWN: dict[str, dict[str, Any]] = {
    "triggerAt": {"rule": rules.trigger_at, "examples": [SOON]},
    "delay": {"rule": rules.delay, "show": None},
    "targetMethod": {"rule": rules.target_method},
    "targetHeaders": {"holds": shown_headers},
    "targetBody": {"holds": _shown_body},
    "targetBodyBase64": {"holds": _shown_body},
    "targetBodyText": {
        "rule": rules.target_body_text,
        "holds": _shown_body,
        "show": lambda body: None if body is None else body.decode(),
    },
    "delivery": {
        "rule": rules.one_of(schema.NAMED["delivery"].choices, Delivery),
        "default": Delivery.AT_LEAST_ONCE,
    },
    "retryDelays": {"holds": lambda request: request.retry_delays_ms or delays_ms(request)},
    "retryOn": {
        "rule": rules.one_of(schema.NAMED["retryOn"].choices, RetryOn),
        "default": RetryOn.TRANSIENT,
    },
    "callbackUrl": {
        "rule": rules.callback_url,
        "more": {"anyOf": [_DEFAULT, _CALLBACK_URL, {"type": "null"}]},
        "holds": lambda request: request.callback,
        "show": _callback_url,
        "shown": {"anyOf": [_DEFAULT, {"type": ["string", "null"]}]},
    },
    "callbackOn": {
        "rule": rules.one_of(schema.NAMED["callbackOn"].choices, CallbackOn),
        "holds": lambda request: request.callback,
        "show": _callback_on,
        "shown": {"anyOf": [_choice(schema.NAMED["callbackOn"]), {"type": "null"}]},
    },
    "failureCallbackUrl": {
        "holds": lambda request: request.callback and request.callback.failure_url,
    },
    "callbackInclude": {
        "holds": lambda request: request.callback,
        "show": _callback_include,
        "shown": {"anyOf": [_choice(schema.NAMED["callbackInclude"]), {"type": "null"}]},
    },
    "lane": {"rule": rules.lane},
    "reference": {"rule": rules.reference},
    "labels": {"rule": rules.labels},
    "onExisting": {"show": None},
    "maxWait": {"rule": rules.max_wait, "show": None},
}


def _field(row: FieldRow) -> Field:
    kind, own = _KINDS[row.kind], _OWN.get(row.name, {})
    usual = {
        "examples": list(row.examples),
        "more": kind.more(row),
        "show": kind.show,
        "shown": kind.shown(row),
        "default": row.default,
        "sets": {name: BodyKind(value) for name, value in row.sets},
    }
    if "rule" not in own:
        assert kind.rule is not None
        usual["rule"] = kind.rule(row)
    return Field(
        name=row.name,
        of=row.attribute,
        description=row.description,
        kind=kind.json,
        required=row.required,
        **usual | own,
    )


_TABLE = tuple(map(_field, schema.FIELDS))
FIELDS = {field.name: field for field in _TABLE}
# Fields of a create alone: they keep or replace the schedule that waits with its reference.
ON_EXISTING = {field.name: field for field in map(_field, schema.ON_EXISTING)}
SHOWN = tuple(field for field in _TABLE if field.show is not None)
# Names of fields for the same thing: a payload may have one of them.
SPELLINGS = tuple(
    tuple(field.name for field in fields) for _, fields in groupby(_TABLE, lambda field: field.of)
)
REQUIRED = tuple(names for names in SPELLINGS if FIELDS[names[0]].required)


def misfits(values: dict[str, Any], given: Collection[str]) -> list[FieldError]:
    """Faults of valid fields together: `values` by their names in a `Request`; `given` are new."""
    found = _misfits_of_callback(values) if "callback_on" in values else []
    due_ms, expires_ms = values.get("trigger_at_ms"), values.get("expires_at_ms")
    if due_ms is None or expires_ms is None or expires_ms > due_ms:
        return found
    if "expires_at_ms" in given:
        return [*found, FieldError("expiresAt", "It must be after triggerAt.")]
    if "trigger_at_ms" in given:
        return [*found, FieldError("triggerAt", "It must be before expiresAt.")]
    return found


def _misfits_of_callback(values: dict[str, Any]) -> list[FieldError]:
    url = values.get("callback_url", getattr(values.get("callback"), "url", None))
    if url != NO_URL or values["callback_on"] is None:
        return []
    return [FieldError("callbackOn", "It needs a callbackUrl: null means no callback.")]


def request_of(values: dict[str, Any]) -> Request:
    """The request of these values, which it completes. The body decides a missing method."""
    if values.get("method") is None:
        values["method"] = usual_method(values.get("body"))
        values["method_given"] = False
    if values.get("body") is None:
        values["body_kind"] = BodyKind.JSON
    if values.get("retry_delays_ms") == schema.USUAL_DELAYS_MS:
        values["retry_delays_ms"] = None
    if not _CALLBACK.isdisjoint(values):
        values["callback"] = _callback_of(values)
    return Request(**values)


def _callback_of(values: dict[str, Any]) -> Callback | None:
    """Takes its fields out of the values: those that are given, beside those of a callback that is
    there already."""
    callback: Callback = values.get("callback") or UNSAID
    if "callback_url" in values:
        callback = sent_to(callback, values.pop("callback_url")) or UNSAID
    on = values.pop("callback_on", callback.on)
    if callback.url is not None:
        on = CallbackOn.EXECUTED if callback.url == NO_URL else on or CallbackOn.EXECUTED
    url = values.pop("failure_callback_url", callback.failure_url)
    include = values.pop("callback_include", _callback_include(callback))
    return or_none(Callback(callback.url, on, url, include is not None))
