"""The headers of a publish, and the request that they ask for. Pure."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from api.door.proxies import client_address
from api.qstash.calls import QStashCall, Refused
from api.qstash.flow_control import flow_value
from api.qstash.queues import of_queue
from api.qstash.retry_delay import waits_ms
from api.reading import BodyTooLarge, trace_of
from api.schema import rules
from api.schema.fields import FIELDS
from api.schema.findings import invalid
from api.schema.headers import judge
from scheduler.callbacks import NO_URL, Callback
from scheduler.durations import DAY_MS
from scheduler.errors import FieldError, InvalidRequest
from scheduler.lane_settings import LaneSettings
from scheduler.models import BodyKind, Idempotency, Request, RetryOn
from scheduler.qstash.carried import CallbackWay, Carried, pack
from scheduler.qstash.names import flow_lane, queue_lane
from scheduler.qstash.sent import USER_AGENT
from scheduler.schema import LONGEST_TIMEOUT_S, MOST_RAW_BODY_BYTES

NOT_OFFERED = "{} are not offered; see docs/come-over/qstash"
# QStash's waits before retries that have no expression, up to the one that repeats.
_WAITS_MS = tuple(min(DAY_MS, math.ceil(1000 * math.exp(2.5 * n))) for n in range(1, 6))
_ONCE_KEPT_MS = 600_000
_PREFIX = "upstash-"
_FORWARDED = re.compile("(forward-|(?:failure-)?callback-)(?:(?<=k-)forward-)?")
_OF_CALLBACKS = frozenset({"method", "retries", "retry-delay", "delay", "timeout", "redact-fields"})
_MOST_IGNORED = 64
_SECONDS = re.compile("[0-9]{1,11}")
_REDACTED = r"\s*(?:body|headers?(?:\[[^\],\[]+\])?)\s*"
_is_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

Headers = Iterable[tuple[str, str]]
Limits = Callable[[LaneSettings], LaneSettings]
Rule = Callable[[str, Any, int], Any]


class Published(NamedTuple):
    """A message. `delay_ms`: its `Upstash-Delay` by itself, which its time has too. `limits` are to
    be made of the settings of its lane, before it is stored. `once` tells it from others."""

    request: Request
    delay_ms: int | None
    limits: Limits | None
    once: Idempotency | None


class _Sent(NamedTuple):
    """Headers by what they are for, named in small letters and without the prefix: the message's
    own, and those to forward to its target, to its callback and to its failure callback."""

    own: dict[str, str]
    target: dict[str, str]
    callback: dict[str, str]
    failure: dict[str, str]


def published(
    call: QStashCall,
    destination: str,
    headers: Headers,
    body: bytes | None,
    *,
    queue: str = "",
    schedule_id: str = "",
) -> Published:
    """The message that they ask for, as of now. `queue`: where it is enqueued. Raises BodyTooLarge,
    InvalidRequest with the header, and Refused for what is not offered."""
    allowed, now_ms = call.service.rules, call.store.clock.now_ms()
    sent = _sent(headers, call.service.tally.ignored)
    own = _judged("Upstash-", {"queue-name": queue} | sent.own, allowed, now_ms)
    retries, delay_ms = own.get("retries", 3), own.get("delay")
    waits = _WAITS_MS[:retries]
    if (text := own.get("retry-delay")) is not None:
        waits = _one("Upstash-Retry-Delay", text, lambda text, *_: waits_ms(text, retries))
    lane, limits = _lane(own)
    request = Request(
        own.get("not-before", now_ms + (delay_ms or 0)),
        own.get("method", "POST"),
        _one("destination", destination, rules.target_url, allowed),
        _to_send("Upstash-Forward-", sent.target),
        body or None,
        body_kind=kind_of(body, sent.target.get("content-type", "")),
        retries=retries,
        retry_delays_ms=waits or None,
        trace=trace_of(call.service.settings, call.scope),
        timeout_s=own.get("timeout", LONGEST_TIMEOUT_S),
        callback=_callback(own.get("callback"), own.get("failure-callback")),
        retry_on=RetryOn.ANY,
        labels=own.get("label", ()),
        door=_door(call, sent, schedule_id),
        lane=lane,
    )
    return Published(request, delay_ms, limits, _once(own, sent, request))


def _sent(headers: Headers, ignored: dict[str, int]) -> _Sent:
    sent, content_type = _Sent({}, {}, {}, {}), None
    for name, value in headers:
        name = name.lower()
        if name == "content-type":
            content_type = value
        elif name.startswith(_PREFIX):
            _sort(sent, name[len(_PREFIX) :], value, ignored)
    if content_type is not None:
        sent.target.setdefault("content-type", content_type)
    sent.target.setdefault("user-agent", USER_AGENT)
    return sent


def _sort(sent: _Sent, name: str, value: str, ignored: dict[str, int]) -> None:
    if (forwarded := _FORWARDED.match(name)) is not None:
        to = {"forward-": sent.target, "callback-": sent.callback}
        _add(to.get(forwarded[1], sent.failure), name[forwarded.end() :], value)
    elif name in RULES:
        _add(sent.own, name, value)
    elif name.startswith("workflow-"):
        raise Refused(501, NOT_OFFERED.format("Workflows"))
    elif not name.startswith("telemetry-"):
        name = name[:64] if len(ignored) < _MOST_IGNORED or name in ignored else "other"
        ignored[name] = ignored.get(name, 0) + 1


def _add(headers: dict[str, str], name: str, value: str) -> None:
    headers[name] = f"{headers[name]}, {value}" if name in headers else value


def _one(name: str, text: str, rule: Rule, allowed: Any = None, now_ms: int = 0) -> Any:
    """Raises InvalidRequest with the name."""
    try:
        return rule(text, allowed, now_ms)
    except ValueError as error:
        raise invalid([FieldError(name, str(error))]) from None


def _judged(before: str, headers: dict[str, str], *of: Any) -> dict[str, Any]:
    """The value of each; `before` is how their names began."""
    each = headers.items()
    return {name: _one((before + name).title(), text, RULES[name], *of) for name, text in each}


def _span(text: str) -> str | int:
    return int(text) if _SECONDS.fullmatch(text) else text


def _whole(text: str) -> int:
    return int(text) if _SECONDS.fullmatch(text) else -1


def _not_before(text: str, allowed: rules.Rules, now_ms: int) -> int:
    """A moment that has passed is now."""
    if _whole(text) < 0:
        raise ValueError("It must be a Unix time in whole seconds.")
    return int(rules.delay(f"{max(0, _whole(text) * 1000 - now_ms)}ms", allowed, now_ms))


def _labels(text: str, allowed: rules.Rules, now_ms: int) -> tuple[str, ...]:
    texts = tuple(dict.fromkeys(filter(None, map(str.strip, text.split(",")))))
    if len(texts) > 8 or max(map(len, texts), default=0) > 64:
        raise ValueError("It may have at most 8 labels, of 64 characters each.")
    return texts


def _like(pattern: str, words: str) -> Rule:
    """A rule for texts of this form, which stay as they are."""
    form = re.compile(pattern, re.DOTALL)

    def rule(text: str, *_: Any) -> str:
        if form.fullmatch(text) is None:
            raise ValueError(words)
        return text

    return rule


def _lane_of(named: Callable[[str], str | None]) -> Rule:
    return lambda text, *_: (named(text) or rules.lane_filter("")) if text else None


_ANY = _like(".*", "")
# Of each header of a message, what makes its value.
RULES: dict[str, Rule] = {
    "method": rules.target_method,
    "delay": lambda text, allowed, _: rules.delay(_span(text), allowed, 0),
    "not-before": _not_before,
    "retries": lambda text, *of: FIELDS["retries"].rule(_whole(text), *of),
    "retry-delay": _ANY,
    "timeout": lambda text, *of: FIELDS["timeout"].rule(_span(text), *of),
    "deduplication-id": _like(".{0,1024}", "It may have at most 1,024 characters."),
    "content-based-deduplication": _like("(?i:true|false)", "It must be true or false."),
    "callback": rules.target_url,
    "failure-callback": rules.target_url,
    "queue-name": _lane_of(queue_lane),
    "flow-control-key": _lane_of(flow_lane),
    "flow-control-value": lambda text, *_: flow_value(text).limits if text.strip() else None,
    "label": _labels,
    "redact-fields": _like(
        rf"{_REDACTED}(?:,{_REDACTED})*",
        "It must be body, header or header[Name], or some of these with commas.",
    ),
    "cron": _ANY,
    "schedule-id": _ANY,
}


def _to_send(before: str, headers: dict[str, str]) -> dict[str, str]:
    """Headers to send, which came with this before their names."""
    try:
        if any(name.startswith(_PREFIX) for name in headers):
            raise ValueError("Names that begin with Upstash- are set by Postdate.")
        judge(headers)
        return headers
    except (ValueError, InvalidRequest) as error:
        name, message = "*", str(error)
        for detail in getattr(error, "details", ())[:1]:
            name, message = detail.field.partition(".")[2], detail.message
    raise invalid([FieldError((before + name).title(), message)])


def kind_of(body: bytes | None, content_type: str) -> BodyKind:
    """As it is shown: the target gets its bytes and its content type. Raises BodyTooLarge."""
    if not body:
        return BodyKind.JSON
    try:
        body.decode()
        if body[:1] == b"{" and "json" in content_type.lower() and _is_object(body):
            return BodyKind.JSON
        kind = BodyKind.TEXT
    except UnicodeDecodeError:
        kind = BodyKind.BINARY
    except (ValueError, RecursionError):
        kind = BodyKind.TEXT
    if len(body) > MOST_RAW_BODY_BYTES:
        raise BodyTooLarge(MOST_RAW_BODY_BYTES)
    return kind


def _lane(own: dict[str, Any]) -> tuple[str | None, Limits | None]:
    """The lane of a message, and what is to be made of its settings."""
    queue, key = own.get("queue-name"), own.get("flow-control-key")
    if queue and key:
        message = "A message is in one lane: that of its queue, or that of its key."
        raise invalid([FieldError("Upstash-Flow-Control-Key", message)])
    return (queue, of_queue) if queue else (key, own.get("flow-control-value") if key else None)


def _callback(url: str | None, failure_url: str | None) -> Callback | None:
    if url is None and failure_url is None:
        return None
    return Callback(url or NO_URL, failure_url=failure_url, with_response=True)


def _door(call: QStashCall, sent: _Sent, schedule_id: str) -> bytes:
    own, allowed = sent.own, call.service.rules
    carried = Carried(
        client_address(call.scope, call.service.settings.trusted_proxies),
        own.get("retry-delay", ""),
        own.get("flow-control-value", ""),
        own.get("redact-fields", ""),
        _way("callback-", sent.callback, allowed) if "callback" in own else None,
        _way("failure-callback-", sent.failure, allowed) if "failure-callback" in own else None,
        schedule_id,
    )
    try:
        return pack(carried)
    except ValueError as error:
        raise invalid([FieldError("Upstash-*", f"What is kept of these: {error}.")]) from None


def _way(before: str, headers: dict[str, str], allowed: rules.Rules) -> CallbackWay | None:
    """How a callback is sent; None: as Postdate sends its own."""
    if not headers:
        return None
    before = (_PREFIX + before).title()
    own = {name: text for name, text in headers.items() if name in _OF_CALLBACKS}
    get = _judged(before, own, allowed, 0).get
    forwarded = {name: text for name, text in headers.items() if name not in own}
    way = get("method", "POST"), get("retries"), get("delay", 0), get("timeout")
    return CallbackWay(*way, _to_send(before, forwarded))


def _once(own: dict[str, Any], sent: _Sent, request: Request) -> Idempotency | None:
    """The blanks keep it apart from keys of native calls, which have none."""
    name = own.get("deduplication-id")
    if not name and own.get("content-based-deduplication", "").lower() == "true":
        texts = {**sent.own, "content-based-deduplication": ""}
        what = (request.url, request.lane, request.body, texts, request.headers)
        name = hashlib.sha256(msgspec.msgpack.encode(what, order="sorted")).hexdigest() + " of it"
    return Idempotency(f"message {name}", "", kept_ms=_ONCE_KEPT_MS) if name else None
