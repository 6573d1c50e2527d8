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
from scheduler.schema import LONGEST_TIMEOUT_S, MOST_RAW_BODY_BYTES

NOT_OFFERED = "{} are not offered; see docs/come-over/qstash"
USER_AGENT = "Upstash-QStash"
RETRIES = 3
# QStash's waits before retries that have no expression, up to the one that repeats.
WAITS_MS = tuple(min(DAY_MS, math.ceil(1000 * math.exp(2.5 * n))) for n in range(1, 6))
ONCE_KEPT_MS = 600_000
_PREFIX, _FORWARD, _CALLBACK, _FAILURE = "upstash-", "forward-", "callback-", "failure-callback-"
_KNOWN = frozenset(
    "method delay not-before retries retry-delay timeout deduplication-id label redact-fields cron"
    " content-based-deduplication callback failure-callback flow-control-key flow-control-value"
    " queue-name schedule-id".split()
)
_OF_CALLBACKS = frozenset({"method", "retries", "retry-delay", "delay", "timeout", "redact-fields"})
_MOST_IGNORED = 64
_OURS = "This header is set by Postdate and cannot be given."
_LONGEST_ID, _TOO_LONG = 1024, "It may have at most 1,024 characters."
_SECONDS = re.compile("[0-9]{1,11}")
_REDACTED = re.compile(r"\s*(body|headers?(\[[^\],\[]+\])?)\s*")
_is_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

Headers = Iterable[tuple[str, str]]


class Published(NamedTuple):
    """A message. `delay_ms`: its `Upstash-Delay` by itself, which its time has too. `limits` are to
    be made of the settings of its lane, before it is stored. `once` tells it from others."""

    request: Request
    delay_ms: int | None
    limits: Callable[[LaneSettings], LaneSettings] | None
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
    """The message that they ask for, as of now. `queue`: where it is enqueued. Raises InvalidRequest
    with the header, BodyTooLarge, and Refused for what is not offered."""
    sent, now_ms = _sent(headers, call.service.tally.ignored), call.store.clock.now_ms()
    judges = _Judges(call, sent.own, now_ms)
    delay_ms = judges.of("delay", lambda text: rules.delay(_span(text), judges.rules, 0))
    before_ms = judges.of("not-before", lambda text: _not_before(text, judges.rules, now_ms))
    retries = judges.number("retries", RETRIES)
    waits = judges.of("retry-delay", lambda text: waits_ms(text, retries)) or WAITS_MS[:retries]
    timeout_s = judges.field("timeout", _span) or LONGEST_TIMEOUT_S
    kind = _kind(body, sent.target.get("content-type", ""))
    lane, limits = _lane(judges, queue or sent.own.get("queue-name", ""))
    request = Request(
        now_ms + (delay_ms or 0) if before_ms is None else before_ms,
        judges.field("method", str, "targetMethod") or "POST",
        judges.one("destination", destination, rules.target_url),
        _judged_headers("Upstash-Forward-", sent.target),
        body or None,
        body_kind=kind,
        retries=retries,
        retry_delays_ms=waits or None,
        trace=trace_of(call.service.settings, call.scope),
        timeout_s=timeout_s,
        callback=_callback(judges),
        retry_on=RetryOn.ANY,
        labels=judges.of("label", lambda text: _labels(text, judges.rules)) or (),
        door=_door(call, judges, sent, schedule_id),
        lane=lane,
    )
    return Published(request, delay_ms, limits, _once(judges, request, queue))


class _Judges:
    """Judges the headers of one message by the rules that native fields have."""

    def __init__(self, call: QStashCall, own: dict[str, str], now_ms: int, before: str = "") -> None:
        self.rules, self.own, self._now_ms, self._before = call.service.rules, own, now_ms, before

    def of(self, name: str, rule: Callable[[str], Any]) -> Any:
        """The value of a header; None: it is not there. Raises InvalidRequest with its name."""
        if name not in self.own:
            return None
        header = _PREFIX + self._before + name
        return self.one(header.title(), self.own[name], lambda text, *_: rule(text))

    def one(self, name: str, value: Any, rule: rules.Rule) -> Any:
        try:
            return rule(value, self.rules, self._now_ms)
        except ValueError as error:
            raise invalid([FieldError(name, str(error))]) from None

    def field(self, name: str, read: Callable[[str], Any], field: str = "") -> Any:
        """By the rule of a native field, of the same name if none is given."""
        rule = FIELDS[field or name].rule
        return self.of(name, lambda text: rule(read(text), self.rules, self._now_ms))

    def number(self, name: str, default: int | None) -> Any:
        found = self.field(name, lambda text: int(text) if _SECONDS.fullmatch(text) else -1)
        return default if found is None else found


def _sent(headers: Headers, ignored: dict[str, int]) -> _Sent:
    sent, content_type = _Sent({}, {}, {}, {}), None
    for name, value in headers:
        name = name.lower()
        if name == "content-type":
            content_type = value
        if not name.startswith(_PREFIX):
            continue
        name = name[len(_PREFIX) :]
        if name.startswith(_FORWARD):
            _add(sent.target, name[len(_FORWARD) :], value)
        elif name.startswith(_CALLBACK):
            _add(sent.callback, name[len(_CALLBACK) :].removeprefix(_FORWARD), value)
        elif name.startswith(_FAILURE):
            _add(sent.failure, name[len(_FAILURE) :].removeprefix(_FORWARD), value)
        elif name in _KNOWN:
            _add(sent.own, name, value)
        elif name.startswith("workflow-"):
            raise Refused(501, NOT_OFFERED.format("Workflows"))
        elif not name.startswith("telemetry-"):
            known = name in ignored or len(ignored) < _MOST_IGNORED
            ignored[name if known else "other"] = ignored.get(name if known else "other", 0) + 1
    if content_type is not None:
        sent.target.setdefault("content-type", content_type)
    sent.target.setdefault("user-agent", USER_AGENT)
    return sent


def _add(headers: dict[str, str], name: str, value: str) -> None:
    headers[name] = f"{headers[name]}, {value}" if name in headers else value


def _span(text: str) -> str | int:
    return int(text) if _SECONDS.fullmatch(text) else text


def _not_before(text: str, allowed: rules.Rules, now_ms: int) -> int:
    """A moment that has passed is now."""
    if not _SECONDS.fullmatch(text):
        raise ValueError("It must be a Unix time in whole seconds.")
    ahead_ms = max(0, int(text) * 1000 - now_ms)
    return int(rules.delay(f"{ahead_ms}ms", allowed, now_ms))


def _labels(text: str, allowed: rules.Rules) -> tuple[str, ...]:
    texts = tuple(dict.fromkeys(filter(None, map(str.strip, text.split(",")))))
    if len(texts) > 8 or max(map(len, texts), default=0) > 64:
        raise ValueError("It may have at most 8 labels, of 64 characters each.")
    return texts


def _judged_headers(before: str, headers: dict[str, str]) -> dict[str, str]:
    """Headers to send, which came with this before their names."""
    name, message = next(filter(lambda name: name.startswith(_PREFIX), headers), ""), _OURS
    try:
        if not name:
            judge(headers)
            return headers
    except (ValueError, InvalidRequest) as error:
        name, message = "*", str(error)
        for detail in getattr(error, "details", ())[:1]:
            name, message = detail.field.partition(".")[2], detail.message
    raise invalid([FieldError((before + name).title(), message)])


def _kind(body: bytes | None, content_type: str) -> BodyKind:
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


def _lane(
    judges: _Judges, queue: str
) -> tuple[str | None, Callable[[LaneSettings], LaneSettings] | None]:
    """The lane of a message, and what is to be made of its settings."""
    key, value = judges.own.get("flow-control-key"), judges.own.get("flow-control-value", "")
    if queue and key:
        message = "A message is in one lane: that of its queue, or that of its key."
        raise invalid([FieldError("Upstash-Flow-Control-Key", message)])
    if queue:
        return judges.one("Upstash-Queue-Name", queue_lane(queue), _known_lane), of_queue
    if key is None:
        return None, None
    lane = judges.one("Upstash-Flow-Control-Key", flow_lane(key), _known_lane)
    limits = judges.of("flow-control-value", flow_value) if value.strip() else None
    return lane, limits and limits.limits


def _known_lane(lane: str | None, *_: Any) -> str:
    return lane or rules.lane_filter("")


def _callback(judges: _Judges) -> Callback | None:
    urls = [judges.own.get(each) for each in ("callback", "failure-callback")]
    names = ("Upstash-Callback", "Upstash-Failure-Callback")
    for name, url in zip(names, urls, strict=True):
        if url is not None:
            judges.one(name, url, rules.target_url)
    if urls == [None, None]:
        return None
    return Callback(urls[0] or NO_URL, failure_url=urls[1], with_response=True)


def _door(call: QStashCall, judges: _Judges, sent: _Sent, schedule_id: str) -> bytes:
    own = sent.own
    redacted = judges.of("redact-fields", _redacted) or ""
    carried = Carried(
        client_address(call.scope, call.service.settings.trusted_proxies),
        own.get("retry-delay", ""),
        own.get("flow-control-value", ""),
        redacted,
        _way(call, "callback-", sent.callback) if "callback" in own else None,
        _way(call, "failure-callback-", sent.failure) if "failure-callback" in own else None,
        schedule_id,
    )
    try:
        return pack(carried)
    except ValueError as error:
        raise invalid([FieldError("Upstash-*", f"What is kept of these: {error}.")]) from None


def _redacted(text: str) -> str:
    if not all(map(_REDACTED.fullmatch, text.split(","))):
        raise ValueError("It must be body, header or header[Name], or some of these with commas.")
    return text


def _way(call: QStashCall, before: str, headers: dict[str, str]) -> CallbackWay | None:
    """How a callback is sent; None: as Postdate sends its own."""
    if not headers:
        return None
    judges = _Judges(call, headers, 0, before)
    forwarded = {name: text for name, text in headers.items() if name not in _OF_CALLBACKS}
    return CallbackWay(
        judges.field("method", str, "targetMethod") or "POST",
        judges.number("retries", None),
        judges.of("delay", lambda text: rules.delay(_span(text), judges.rules, 0)) or 0,
        judges.field("timeout", _span),
        _judged_headers((_PREFIX + before).title(), forwarded),
    )


def _once(judges: _Judges, request: Request, queue: str) -> Idempotency | None:
    """The blanks keep it apart from keys of native calls, which have none."""
    named = judges.own.get("deduplication-id")
    by_content = judges.of("content-based-deduplication", _flag)
    if named:
        if len(named) > _LONGEST_ID:
            raise invalid([FieldError("Upstash-Deduplication-Id", _TOO_LONG)])
        return Idempotency(f"message {named}", "", kept_ms=ONCE_KEPT_MS)
    if not by_content:
        return None
    digest = hashlib.sha256(msgspec.msgpack.encode((request.url, queue, request.body)))
    own = {name: text for name, text in judges.own.items() if name != "content-based-deduplication"}
    digest.update(msgspec.msgpack.encode((sorted(own.items()), sorted(request.headers.items()))))
    return Idempotency(f"content {digest.hexdigest()}", "", kept_ms=ONCE_KEPT_MS)


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("It must be true or false.")
    return text.lower() == "true"
