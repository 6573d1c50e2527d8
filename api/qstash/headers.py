"""The headers of a publish, and the request that they ask for. Pure."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, cast

import msgspec

from api.door.proxies import client_address
from api.qstash.calls import QStashCall, not_offered
from api.qstash.flow_control import flow_value
from api.qstash.queues import of_queue
from api.qstash.retry_delay import waits_ms
from api.reading import BodyTooLarge, trace_of
from api.schema import rules
from api.schema.fields import FIELDS
from api.schema.findings import invalid, shown
from api.schema.headers import judge
from scheduler.callbacks import NO_URL, Callback
from scheduler.durations import DAY_MS
from scheduler.errors import FieldError
from scheduler.lane_settings import LaneSettings
from scheduler.models import BodyKind, Idempotency, Request, RetryOn
from scheduler.qstash.carried import CallbackWay, Carried, pack
from scheduler.qstash.names import flow_lane, queue_lane
from scheduler.qstash.sent import USER_AGENT
from scheduler.schema import LONGEST_TIMEOUT_S, MOST_RAW_BODY_BYTES

# QStash's waits before retries that have no expression, up to the one that repeats.
_WAITS_MS = tuple(min(DAY_MS, math.ceil(1000 * math.exp(2.5 * n))) for n in range(1, 6))
_ONCE_KEPT_MS = 600_000
_MOST_IGNORED = 64
# For what a header is: its message, the request, or one of its callbacks.
_NAME = re.compile("upstash-(?:(forward|callback|failure-callback)-)?(.*)", re.DOTALL)
# Headers of a callback by the field of its way; the others are forwarded, but for those ignored.
_OF_WAYS = {"method": "method", "retries": "retries", "delay": "delay_ms", "timeout": "timeout_s"}
_IGNORED_OF_WAYS = ("retry-delay", "redact-fields")
_SECONDS = re.compile("[0-9]{1,11}")
_REDACTED = r"\s*(?:body|headers?(?:\[[^\],\[]+\])?)\s*"
_object_of = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

Headers = Iterable[tuple[str, str]]
_Sent = dict[str, dict[str, str]]
Limits = Callable[[LaneSettings], LaneSettings]
Rule = Callable[[Any, Any, int], Any]


class Published(NamedTuple):
    """A message. `delay_ms`: its `Upstash-Delay` by itself, which its time has too. `limits` are to
    be made of the settings of its lane, before it is stored. `once` tells it from others."""

    request: Request
    delay_ms: int | None
    limits: Limits | None
    once: Idempotency | None


def published(
    call: QStashCall,
    destination: str,
    headers: Headers,
    body: bytes | None,
    *,
    queue: str = "",
    schedule_id: str = "",
) -> Published:
    """The message that they ask for, as of now. `queue`: where it is enqueued; `schedule_id`: of
    what schedule it is. Raises BodyTooLarge, InvalidRequest with the header, and Refused for what
    is not offered."""
    allowed, now_ms = call.service.rules, call.store.clock.now_ms()
    sent = _sent(headers, call.service.tally.ignored)
    forwarded, texts = sent["forward"], {"queue-name": queue} | sent[""]
    if "cron" in texts and not schedule_id:
        raise invalid([FieldError("Upstash-Cron", "Schedules are made at /v2/schedules.")])
    own = _judged("upstash-", texts, allowed, now_ms)
    retries, delay_ms = own.get("retries", 3), own.get("delay")
    waits = _WAITS_MS[:retries]
    if "retry-delay" in own:
        text = own["retry-delay"]
        waits = _one("Upstash-Retry-Delay", text, lambda *_: waits_ms(text, retries))
    lane, limits = _lane(own)
    url, failure_url = own.get("callback", NO_URL), own.get("failure-callback")
    callback = Callback(url, failure_url=failure_url, with_response=True)
    request = Request(
        own.get("not-before", now_ms + (delay_ms or 0)),
        own.get("method", "POST"),
        _one("destination", destination, rules.target_url, allowed),
        _to_send("upstash-forward-", forwarded),
        body or None,
        body_kind=kind_of(body, forwarded.get("content-type", ""), allowed),
        retries=retries,
        retry_delays_ms=waits or None,
        trace=trace_of(call.service.settings, call.scope),
        timeout_s=own.get("timeout", LONGEST_TIMEOUT_S),
        callback=callback if callback.url or callback.failure_url else None,
        retry_on=RetryOn.ANY,
        labels=own.get("label", ()),
        door=_door(call, own, sent, schedule_id),
        lane=lane,
    )
    return Published(request, delay_ms, limits, _once(texts, request))


def _sent(headers: Headers, ignored: dict[str, int]) -> _Sent:
    """Them by what they are for, without that in their names: "" are the message's own."""
    sent: _Sent = {"": {}, "forward": {}, "callback": {}, "failure-callback": {}}
    content_type = dict[str, str]()
    for name, value in headers:
        name = name.lower()
        if name == "content-type":
            content_type[name] = value
        elif (found := _NAME.fullmatch(name)) is not None:
            to, name = sent[found[1] or ""], found[2]
            if found[1] or name in RULES:
                to[name] = f"{to[name]}, {value}" if name in to else value
            elif name.startswith("workflow-"):
                raise not_offered("Workflows")
            elif not name.startswith("telemetry-"):
                _count(name, ignored)
    sent["forward"] = {"user-agent": USER_AGENT, **content_type, **sent["forward"]}
    return sent


def _count(name: str, ignored: dict[str, int]) -> None:
    name = name[:64] if len(ignored) < _MOST_IGNORED or name in ignored else "other"
    ignored[name] = ignored.get(name, 0) + 1


def _one(name: str, value: Any, rule: Rule, allowed: Any = None, now_ms: int = 0) -> Any:
    """Raises InvalidRequest with the name."""
    try:
        return rule(value, allowed, now_ms)
    except ValueError as error:
        raise invalid([FieldError(name, str(error))]) from None


def _judged(before: str, texts: dict[str, str], *of: Any) -> dict[str, Any]:
    """The value of each; `before` is how their names began."""
    return {
        name: _one((before + name).title(), text, RULES[name], *of) for name, text in texts.items()
    }


def _whole(text: str) -> int:
    return int(text) if _SECONDS.fullmatch(text) else -1


def _span(text: str) -> str:
    return f"{text}s" if _SECONDS.fullmatch(text) else text


def _not_before(text: str, allowed: rules.Rules, now_ms: int) -> int:
    """A moment that has passed is now."""
    if _whole(text) < 0:
        raise ValueError("It must be a Unix time in whole seconds.")
    return int(rules.delay(f"{max(0, _whole(text) * 1000 - now_ms)}ms", allowed, now_ms))


def _like(pattern: str, words: str = "") -> Rule:
    """A rule for texts of this form, which stay as they are."""
    form = re.compile(pattern, re.DOTALL)

    def rule(text: str, *_: Any) -> str:
        if form.fullmatch(text) is None:
            raise ValueError(words)
        return text

    return rule


def _lane_of(named: Callable[[str], str | None]) -> Rule:
    return lambda text, *_: (named(text) or rules.lane_filter("")) if text else None


# Of each header of a message, what makes its value.
RULES: dict[str, Rule] = {
    "method": rules.target_method,
    "delay": lambda text, allowed, _: rules.delay(_span(text), allowed, 0),
    "not-before": _not_before,
    "retries": lambda text, *of: FIELDS["retries"].rule(_whole(text), *of),
    "retry-delay": _like(".*"),
    "timeout": lambda text, *of: FIELDS["timeout"].rule(_span(text), *of),
    "deduplication-id": _like(".{0,1024}", "It may have at most 1,024 characters."),
    "content-based-deduplication": _like("(?i:true|false)", "It must be true or false."),
    "callback": rules.target_url,
    "failure-callback": rules.target_url,
    "queue-name": _lane_of(queue_lane),
    "flow-control-key": _lane_of(flow_lane),
    "flow-control-value": lambda text, *_: flow_value(text).limits if text.strip() else None,
    "label": lambda text, *of: rules.labels([*filter(None, map(str.strip, text.split(",")))], *of),
    "redact-fields": _like(
        rf"{_REDACTED}(?:,{_REDACTED})*",
        "It must be body, header or header[Name], or some of these with commas.",
    ),
    "cron": _like(".*"),
    "schedule-id": _like(".*"),
}


def _to_send(before: str, headers: dict[str, str]) -> dict[str, str]:
    """Headers to send, which came with this before their names."""

    def named(name: str) -> str:
        return (before + shown(name)).title()

    if any(name.startswith("upstash-") for name in headers):
        message = "Names that begin with Upstash- are set by Postdate."
        raise invalid([FieldError(named("*"), message)])
    _one(named("*"), headers, lambda *_: judge(headers, named))
    return headers


def kind_of(body: bytes | None, content_type: str, allowed: rules.Rules) -> BodyKind:
    """As it is shown: the target gets its bytes and its content type. Raises BodyTooLarge."""
    if not body:
        return BodyKind.JSON
    kind, most_bytes = BodyKind.TEXT, MOST_RAW_BODY_BYTES
    try:
        text = body.decode()
        if text[0] == "{" and "json" in content_type.lower():
            _object_of(text)
            kind, most_bytes = BodyKind.JSON, allowed.max_body_bytes
    except UnicodeDecodeError:
        kind = BodyKind.BINARY
    except (ValueError, RecursionError):
        pass
    if len(body) > most_bytes:
        raise BodyTooLarge(most_bytes)
    return kind


def _lane(own: dict[str, Any]) -> tuple[str | None, Limits | None]:
    """The lane of a message, and what is to be made of its settings."""
    queue, key = own.get("queue-name"), own.get("flow-control-key")
    if queue and key:
        message = "A message is in one lane: that of its queue, or that of its key."
        raise invalid([FieldError("Upstash-Flow-Control-Key", message)])
    return (queue, of_queue) if queue else (key, own.get("flow-control-value") if key else None)


def _door(call: QStashCall, own: dict[str, Any], sent: _Sent, schedule_id: str) -> bytes:
    texts, allowed = sent[""], call.service.rules
    callback, failure_callback = (
        _way(f"upstash-{each}-", sent[each], allowed) if each in own else None
        for each in ("callback", "failure-callback")
    )
    carried = Carried(
        client_address(call.scope, call.service.settings.trusted_proxies),
        texts.get("retry-delay", ""),
        texts.get("flow-control-value", ""),
        texts.get("redact-fields", ""),
        callback,
        failure_callback,
        schedule_id,
    )
    return cast("bytes", _one("Upstash-*", carried, lambda *_: pack(carried)))


def _way(before: str, headers: dict[str, str], allowed: rules.Rules) -> CallbackWay | None:
    """How a callback is sent; None: as Postdate sends its own."""
    if not headers:
        return None
    own = {name: text for name, text in headers.items() if name in _OF_WAYS}
    forwarded = {
        name.removeprefix("forward-"): text
        for name, text in headers.items()
        if name not in (*own, *_IGNORED_OF_WAYS)
    }
    values = _judged(before, own, allowed, 0)
    fields = {_OF_WAYS[name]: value for name, value in values.items()}
    return CallbackWay(**fields, headers=_to_send(before, forwarded))


def _once(texts: dict[str, str], request: Request) -> Idempotency | None:
    """The blanks keep it apart from keys of native calls, which have none."""
    name = texts.get("deduplication-id")
    if not name and texts.pop("content-based-deduplication", "").lower() == "true":
        what = (request.url, request.lane, request.body, texts, request.headers)
        name = hashlib.sha256(msgspec.msgpack.encode(what, order="sorted")).hexdigest() + " of it"
    return Idempotency(f"message {name}", "", kept_ms=_ONCE_KEPT_MS) if name else None
