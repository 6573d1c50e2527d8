"""The fields of a schedule: the one table behind payloads, answers and the OpenAPI document. Pure.

A new field is an entry here, an attribute in `scheduler.models.Request`, and whatever uses it.
"""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Collection
from itertools import groupby
from typing import Any

import msgspec

from api.schema import rules
from api.schema.field import DURATION, DURATIONS, OBJECT, WHOLE, Field, Schema
from api.schema.headers import MAX_HEADERS, read_headers
from scheduler import durations
from scheduler.callbacks import NO_URL, Callback, CallbackOn
from scheduler.errors import FieldError
from scheduler.lanes import LANE_PATTERN, LONGEST_LANE
from scheduler.masks import masked, masked_url
from scheduler.models import LONGEST_TIMEOUT_S, BodyKind, Delivery, Request
from scheduler.references import LONGEST_REFERENCE, REFERENCE_PATTERN
from scheduler.retries import (
    MOST_DELAYS,
    MOST_RETRIES,
    SHORTEST_DELAY_MS,
    USUAL_DELAYS_MS,
    delays_ms,
)
from scheduler.runtime.settings import DAY_MS
from scheduler.target.http import METHODS, TOKEN_PATTERN, VALUE_PATTERN
from scheduler.target.targets import MAX_URL_CHARACTERS
from scheduler.times import format_iso8601

# A reader may send an example as it is, also to a process that began days ago.
SOON = format_iso8601((time.time_ns() // 1_000_000 + 30 * DAY_MS) // DAY_MS * DAY_MS)


def moment(ms: int | None) -> str | None:
    """A moment as clients see it; None stays None."""
    return None if ms is None else format_iso8601(ms)


def _durations(delays_ms: tuple[int, ...] | None) -> list[str] | None:
    return None if delays_ms is None else list(map(durations.format_duration, delays_ms))


def _callback_on(callback: Callback | None) -> CallbackOn | None:
    return None if callback is None or callback.url == NO_URL else callback.on


_USUAL_DELAYS = ", ".join(map(durations.format_duration, USUAL_DELAYS_MS))

# Choices have names in the document: generators make one type of each.
CHOICES: dict[str, Schema] = {
    "TargetMethod": {"type": "string", "enum": sorted(METHODS)},
    "Delivery": {"type": "string", "enum": [*Delivery]},
    "CallbackOn": {"type": "string", "enum": [*CallbackOn]},
}
_TARGET_METHOD, _DELIVERY, _CALLBACK_ON = (
    {"$ref": f"#/components/schemas/{name}"} for name in CHOICES
)

_TABLE = (
    Field(
        name="targetUrl",
        of="url",
        rule=rules.target_url,
        required=True,
        more={"type": "string", "format": "uri", "maxLength": MAX_URL_CHARACTERS},
        description="Where the request goes: an absolute http or https URL with a host, "
        "without user name or password, spaces, control characters or backslashes. An address "
        "that this installation does not allow is refused here, a name when the request goes "
        "out.",
        examples=["https://example.com/webhooks/orders"],
        show=masked_url,
        shown={"type": "string"},
    ),
    Field(
        name="triggerAt",
        of="trigger_at_ms",
        rule=rules.trigger_at,
        required=True,
        more={"format": "date-time"},
        description="When the request goes out, unless `delay` says so: ISO 8601. An offset is "
        "honoured, "
        "no zone means UTC; finer than a millisecond rounds up. At most 24 hours in the past "
        "(then it is due at once), and at most five years ahead unless this installation says "
        "otherwise.",
        examples=[SOON],
        show=format_iso8601,
        shown={"type": "string", "format": "date-time"},
    ),
    Field(
        name="delay",
        of="trigger_at_ms",
        kind=DURATION,
        rule=rules.delay,
        required=True,
        more={"pattern": f"^{durations.PATTERN}$", "minimum": 0},
        description="Instead of `triggerAt`: how long from now the request goes out, by the "
        "clock of the store. In `ms`, `s`, `m`, `h` and `d`, as 1h30m, or a whole number of "
        "seconds; at most as "
        "far ahead as `triggerAt`.",
        examples=["1h30m", 10],
        show=None,
    ),
    Field(
        name="targetMethod",
        of="method",  # None stands for the default of the body
        rule=rules.target_method,
        more={"anyOf": [_TARGET_METHOD, {"type": "null"}]},
        description="In any letter case. If it is left out, POST with a body, GET without.",
        shown=_TARGET_METHOD,
    ),
    Field(
        name="targetHeaders",
        of="headers",
        kind=OBJECT,
        rule=lambda text, *_: read_headers(text),
        default={},
        more={
            "maxProperties": MAX_HEADERS,
            "propertyNames": {"pattern": f"^{TOKEN_PATTERN}$"},
            "additionalProperties": {"type": "string", "pattern": f"^{VALUE_PATTERN}$"},
        },
        description="Headers to send, 16 KiB in all. Those of the connection (Host, "
        "Content-Length, Transfer-Encoding, Connection, Keep-Alive, TE, Trailer, Upgrade, "
        "Expect, Proxy-*) and Postdate-* are refused.",
        examples=[{"X-Order": "ord_8412"}],
        show=masked,
        shown={"type": "object", "additionalProperties": {"type": "string"}},
    ),
    Field(
        name="targetBody",
        of="body",
        kind=OBJECT,
        rule=rules.target_body,
        sets={"body_kind": BodyKind.JSON},
        more={"additionalProperties": True},
        description="Sent as the very JSON text that comes in, with Content-Type: "
        "application/json unless a header says otherwise.",
        examples=[{"order": "ord_8412", "action": "remind"}],
        show=lambda body: None if body is None else msgspec.Raw(body),
        shown={"type": ["object", "null"], "additionalProperties": True},
    ),
    Field(
        name="targetBodyText",
        of="body",
        rule=rules.target_body_text,
        sets={"body_kind": BodyKind.TEXT},
        more={"maxLength": rules.MAX_RAW_BODY_BYTES},
        description="Instead of `targetBody`: text, sent as UTF-8, at most 192 KiB, with "
        "Content-Type: text/plain; charset=utf-8 unless a header says otherwise.",
        examples=["status=due&order=8412"],
        show=lambda body: None if body is None else body.decode(),
        shown={"type": ["string", "null"]},
    ),
    Field(
        name="targetBodyBase64",
        of="body",
        rule=rules.target_body_base64,
        sets={"body_kind": BodyKind.BINARY},
        more={"pattern": f"^{rules.BASE64_PATTERN}$"},
        description="Instead of `targetBody`: any bytes, in base64 with padding (RFC 4648), "
        "at most 192 KiB of them, with Content-Type: application/octet-stream unless a header "
        "says otherwise.",
        examples=["AAEC/w=="],
        show=lambda body: None if body is None else b64encode(body).decode(),
        shown={"type": ["string", "null"]},
    ),
    Field(
        name="delivery",
        of="delivery",
        rule=rules.delivery,
        default=Delivery.AT_LEAST_ONCE,
        more={"anyOf": [_DELIVERY, {"type": "null"}]},
        description="If a worker is lost while it has the request: at-least-once (the default) "
        "sends it again, at-most-once gives it up as failed.",
        shown=_DELIVERY,
    ),
    Field(
        name="expiresAt",
        of="expires_at_ms",
        rule=lambda text, *_: rules.timestamp(text),  # `misfits` compares it with triggerAt
        more={"format": "date-time"},
        description="The last moment at which it may still be sent, after triggerAt; later "
        "it ends as failed, `Expired before execution`. A retry that would come later is not "
        "made.",
        show=moment,
        shown={"type": ["string", "null"], "format": "date-time"},
    ),
    Field(
        name="retries",
        of="retries",
        kind=WHOLE,
        rule=rules.retries,
        default=0,
        more={"minimum": 0, "maximum": MOST_RETRIES},
        description="How often it is sent again after an attempt that failed for now: no "
        "answer, or 408, 409, 425, 429 or 5xx. Not at all (0) if it is left out. Any other "
        "answer is final. Costs no credit.",
        examples=[5],
        shown={"type": "integer"},
    ),
    Field(
        name="retryDelays",
        of="retry_delays_ms",
        kind=DURATIONS,
        rule=rules.retry_delays,
        more={
            "items": {
                "type": DURATION.types,
                "pattern": f"^{durations.PATTERN}$",
                "minimum": SHORTEST_DELAY_MS // 1000,
            },
            "minItems": 1,
            "maxItems": MOST_DELAYS,
        },
        description="How long after an attempt the next one comes, for each in turn, the "
        f"last for all others; {_USUAL_DELAYS} if it is left out. Each from 1s to 7d, and "
        "lengthened at random by a fifth at most. A 429 or 503 may ask for more, up to a day, "
        "with Retry-After. Needs `retries`.",
        examples=[["10s", "1m", "10m"]],
        show=_durations,
        holds=delays_ms,
        shown={"type": ["array", "null"], "items": {"type": "string"}},
    ),
    Field(
        name="timeout",
        of="timeout_s",
        kind=DURATION,
        rule=rules.timeout,
        default=LONGEST_TIMEOUT_S,
        more={
            "pattern": f"^{durations.PATTERN}$",
            "minimum": 1,
            "maximum": LONGEST_TIMEOUT_S,
        },
        description="How long one attempt may take, from resolving the name to the last byte: "
        f"whole seconds from 1s to {LONGEST_TIMEOUT_S}s, the default.",
        examples=["5s", 5],
        show=lambda timeout_s: f"{timeout_s}s",
        shown={"type": "string"},
    ),
    Field(
        name="callbackUrl",
        of="callback_url",
        rule=rules.target_url,
        default=NO_URL,
        more={"format": "uri", "maxLength": MAX_URL_CHARACTERS},
        description="The URL that gets a report of how the schedule ended; it is judged as "
        "`targetUrl` is. If it is left out, the account's `callbackUrl` counts; null: no "
        "report. "
        "Costs no credit.",
        examples=["https://example.com/webhooks/ended"],
        show=lambda url: masked_url(url) if url else None,
        holds=lambda request: request.callback and request.callback.url,
        shown={"type": ["string", "null"]},
    ),
    Field(
        name="callbackOn",
        of="callback_on",
        rule=rules.callback_on,
        more={"anyOf": [_CALLBACK_ON, {"type": "null"}]},
        description="Which ends are reported: `executed` (the default): completed and failed "
        "ones; or `failed`. A cancellation is not reported. Without `callbackUrl`, this "
        "holds for the account's.",
        show=_callback_on,
        holds=lambda request: request.callback,
        shown={"anyOf": [_CALLBACK_ON, {"type": "null"}]},
    ),
    Field(
        name="lane",
        of="lane",
        rule=rules.lane,
        more={"pattern": f"^{LANE_PATTERN}$", "maxLength": LONGEST_LANE},
        description="The lane that it goes out in. All schedules of a lane together keep to its "
        "rate, parallelism and pause. A letter or digit, and up to 63 more, or "
        "`.`, `_`, `:`, `-`. It is stored unencrypted.",
        examples=["billing"],
        shown={"type": ["string", "null"]},
    ),
    Field(
        name="reference",
        of="reference",
        rule=rules.reference,
        more={"pattern": f"^{REFERENCE_PATTERN}$", "maxLength": LONGEST_REFERENCE},
        description="An id of your own, by which lists and the log find it; several may have the "
        "same one. Visible ASCII without spaces and without a `*` at its end. The request carries "
        "it as the header Postdate-Reference. It is stored unencrypted.",
        examples=["order-8412"],
        shown={"type": ["string", "null"]},
    ),
)
FIELDS = {field.name: field for field in _TABLE}
# Fields of a create alone: they keep or replace the schedule that waits with its reference.
ON_EXISTING = {
    field.name: field
    for field in (
        Field(
            name="onExisting",
            of="",
            rule=rules.on_existing,
            more={"enum": ["keep", "replace", None]},
            description="With `reference`: if one schedule waits with that reference, the "
            "answer is a 200 with `existing: true`, and costs no credit. `keep` leaves the "
            "waiting one as it is, `replace` gives it this request and its time. If none "
            "waits, a new one is stored as usual.",
            examples=["replace"],
            show=None,
        ),
        Field(
            name="maxWait",
            of="",
            kind=DURATION,
            rule=rules.max_wait,
            more={"pattern": f"^{durations.PATTERN}$", "minimum": 0},
            description="With `replace`: how long after its creation the schedule is due at the "
            "latest, however often it is replaced.",
            examples=["10m", 600],
            show=None,
        ),
    )
}
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
    return [FieldError("callbackOn", "It needs a callbackUrl: there is to be no callback.")]


def request_of(values: dict[str, Any]) -> Request:
    """The request of these values, which it completes. The body decides a missing method."""
    if values.get("method") is None:
        values["method"] = "GET" if values.get("body") is None else "POST"
        values["method_given"] = False
    if values.get("body") is None:
        values["body_kind"] = BodyKind.JSON
    if "callback_url" in values or "callback_on" in values:
        values["callback"] = _callback_of(values)
    return Request(**values)


def _callback_of(values: dict[str, Any]) -> Callback | None:
    """Takes its fields out of the values: those that are given, beside those of a callback that is
    there already."""
    before: Callback | None = values.get("callback")
    url = values.pop("callback_url", before and before.url)
    on = values.pop("callback_on", before and before.on)
    if url == NO_URL:
        return Callback(NO_URL)
    return None if url is None and on is None else Callback(url, on or CallbackOn.EXECUTED)
