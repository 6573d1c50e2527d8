"""The fields of a request in a form, to and from those of the API, and as facts: all of them come
from the tables `scheduler.schema` and `scheduler.recurrence.fields`. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from api.dashboard.requests.body import BODIES, BODY, body_fields, body_given
from api.dashboard.zones import UTC, Zone
from api.schema.fields import FIELDS
from api.schema.findings import invalid
from api.schema.headers import header_field
from scheduler import schema
from scheduler.callbacks import NO_URL, Callback, CallbackOn
from scheduler.durations import PATTERN, format_duration
from scheduler.errors import FieldError, InvalidRequest
from scheduler.field_rows import FieldRow, Group, Kind
from scheduler.masks import MASK, masked, masked_url
from scheduler.models import Request
from scheduler.qstash.redacted import shown_headers
from scheduler.recurrence import fields as of_rule
from scheduler.schema import DEFAULT
from scheduler.times import format_iso8601

_BLANKS = " \t"  # around a header's value; of others Latin-1 has some that belong to it
# The names of the API's fields in a form.
LABELS = {row.name: row.label for row in (*schema.NAMED.values(), *of_rule.FIELDS)}
LABELS["like"] = "Filled in by"
REQUEST = tuple(row for row in schema.FIELDS if not row.instead)
TIMES = tuple(row for row in schema.FIELDS if row.instead)
# The inputs of the forms; that of a recurring schedule has those of its request.
OF_CHANGE = schema.FIELDS
_AFTER, _AT = of_rule.NAMED["expiresAfter"], OF_CHANGE.index(schema.NAMED["expiresAt"])
OF_CREATE = (*OF_CHANGE[:_AT], _AFTER, *OF_CHANGE[_AT:], *schema.ON_EXISTING)
OF_RULE = (*(row for row in of_rule.FIELDS if row is not _AFTER), *REQUEST, _AFTER)
# Pairs of fields of which a form has one, as its field `way` says.
WAYS = {
    "When": {"delay": "after a delay", "triggerAt": "at a time"},
    "Repeats": {"cron": "by a cron expression", "every": "at an interval"},
}
_OTHER_WAY = {one: other for way in WAYS.values() for one in way for other in way.keys() - {one}}
# A form reads these together.
_CALLBACK = ("callbackUrl", "callbackOn", "failureCallbackUrl", "callbackInclude")
_TOGETHER = {*_CALLBACK, *BODIES}
# Pages show these in a way of their own.
_SHOWN = {"url", "method", "headers", "body", "trigger_at_ms", "expires_at_ms"}
_SHOWN |= {"lane", "reference", "labels"}
_SHOWN |= {schema.NAMED[name].attribute for name in _CALLBACK}
_CLASS = re.compile(r"\[([^\]]*)\]")


class FormGroup(NamedTuple):
    """Inputs of a form. `way`: the label of the choice between two of them, and their words."""

    name: Group
    rows: list[FieldRow]
    way: tuple[str, dict[str, str]] | None
    folded: bool
    is_open: bool


class Filled(NamedTuple):
    """A form with its values, and its faults by the input that each stands beside. `others` are
    those of no input, by name; `suggested` has values of inputs, with words or ''."""

    groups: dict[str, FormGroup]
    given: Mapping[str, str]
    faults: Mapping[str, str]
    others: Mapping[str, str]
    suggested: Mapping[str, Mapping[str, str]]

    @property
    def hides(self) -> bool:
        """Whether it has masks in the place of secrets."""
        return any(MASK in text for text in self.given.values())

    @property
    def labels(self) -> dict[str, str]:
        """Those of the inputs with a fault, in their order."""
        rows = [row for group in self.groups.values() for row in group.rows]
        return {row.name: row.label for row in rows if row.name in self.faults}


def filled(
    rows: Sequence[FieldRow],
    given: Mapping[str, str],
    faults: Mapping[str, str],
    suggested: Mapping[str, Mapping[str, str]],
) -> Filled:
    groups = dict[str, FormGroup]()
    for name in Group:
        inputs = [row for row in rows if row.group is name and row.name not in BODIES[1:]]
        way = next((w for w in WAYS.items() if any(row.name in w[1] for row in inputs)), None)
        folded = name not in (Group.WHAT, Group.WHEN)
        is_open = any(given.get(row.name) or row.name in faults for row in inputs)
        groups[name] = FormGroup(name, inputs, way, folded, is_open)
    beside = {row.name for row in rows}
    others = {LABELS.get(name, name): why for name, why in faults.items() if name not in beside}
    faults = {name: why for name, why in faults.items() if name in beside}
    return Filled(groups, given, faults, others, suggested)


def pattern_of(row: FieldRow) -> str:
    """As an input takes it: in a class of HTML's patterns punctuation is escaped. An input of
    several texts has none."""
    if row.kind is Kind.TEXTS:
        return ""
    pattern = rf"{PATTERN}|[0-9]{{1,15}}" if row.kind is Kind.DURATION else row.pattern
    return _CLASS.sub(lambda found: re.sub(r"[()|/{}]|-\]$", r"\\\g<0>", found[0]), pattern)


def faults_of(refusal: InvalidRequest, form: Mapping[str, str]) -> dict[str, str]:
    """By the names of the inputs. What a form asks for in one of two ways is that one's."""
    found = dict[str, str]()
    other = _OTHER_WAY.get(form.get("way", ""), "")
    for each in refusal.details:
        name, _, part = each.field.partition(".")
        message = f"{part}: {each.message}" if part else each.message
        if name == other:
            name = form["way"]
        if name in _OTHER_WAY and message.startswith("One of "):
            message = "It is required."
        name = BODY if name in BODIES else name
        before = found.get(name, message)
        found[name] = before if message in before else f"{before} {message}"
    return found


def facts_of(request: Request) -> list[tuple[str, str]]:
    """The label and the value of each field that pages do not show in a way of their own."""
    facts = list[tuple[str, str]]()
    for row in schema.FIELDS:
        shown = None if row.attribute in _SHOWN else FIELDS[row.name].shown_in(request)
        if shown not in (None, 0, []):
            facts.append((row.label, _fact(row, shown)))
    return facts


def _fact(row: FieldRow, shown: Any) -> str:
    if isinstance(shown, list):
        return ", ".join(shown)
    words = dict(row.words)
    return words.get(shown, words[""] if words and shown == row.default else str(shown))


def labelled(field: str) -> str:
    """`Headers, Host` of `targetHeaders.Host`."""
    name, _, part = field.partition(".")
    return LABELS.get(name, name) + (f", {part}" if part else "")


def fields_of(
    rows: Sequence[FieldRow], form: Mapping[str, str], zone: Zone = UTC
) -> dict[str, Any]:
    """The fields of the API that a form gives, of these; an empty one is left out. Raises
    InvalidRequest for what would be sent otherwise than it was meant."""
    fields, names = dict[str, Any](), {row.name for row in rows}
    unchosen = _OTHER_WAY.get(form.get("way", ""))
    for row in rows:
        text = form.get(row.name, "")
        if row.name in _TOGETHER or row.name == unchosen or not text.strip():
            continue
        if row.kind is Kind.MOMENT:
            fields[row.name] = _utc_text(text.strip(), zone)
        else:
            fields[row.name] = _READ.get(row.kind, str.strip)(text)
    if names.issuperset(_CALLBACK):
        fields |= _callback(form)
    if BODY in names:
        fields |= body_fields(form, fields.get("targetHeaders", {}))
    return fields


def given_of(rows: Sequence[FieldRow], asked: Any, zone: Zone = UTC) -> dict[str, str]:
    """The texts of these fields in a form, of what has them as attributes; secrets are masked."""
    given = dict[str, str]()
    for row in rows:
        value = getattr(asked, row.attribute, None)
        if row.name in _TOGETHER or value in (None, row.default):
            given[row.name] = ""
        elif row.kind is Kind.MOMENT:
            given[row.name] = zone.text(value)
        else:
            given[row.name] = _WRITTEN.get(row.kind, str)(value)
    return given


def request_given(
    asked: Request, zone: Zone = UTC, rows: Sequence[FieldRow] = REQUEST
) -> dict[str, str]:
    """The form of a request."""
    if asked.door is not None:
        asked = msgspec.structs.replace(asked, headers=shown_headers(asked))
    given = given_of(rows, asked, zone)
    if not asked.method_given:
        given["targetMethod"] = ""
    if "triggerAt" in given:
        given |= {"way": "triggerAt", "delay": ""}
    return given | _callback_given(asked.callback) | body_given(asked)


def edited(
    form: Mapping[str, str], asked: Request, zone: Zone = UTC, rows: Sequence[FieldRow] = REQUEST
) -> dict[str, Any]:
    """The fields that a form has otherwise than `asked` filled it; null clears one. A secret whose
    mask came back stays, unless the target is another one. Raises InvalidRequest as above."""
    given = fields_of(rows, request_given(asked, zone, rows), zone)
    after = fields_of(rows, form, zone)
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
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else text


def _seconds(text: str) -> str:
    text = text.strip()
    return f"{text}s" if text.isdecimal() else text


def _utc_text(text: str, zone: Zone) -> str:
    """A time of the viewer's zone as the API takes it; other text unchanged."""
    try:
        return format_iso8601(zone.moment(text))
    except (ValueError, OverflowError):
        return text


def _list(text: str) -> list[int | str]:
    return [_whole(each) for each in text.replace(",", " ").split()]


def _texts(text: str) -> list[str]:
    return [each for part in text.split(",") if (each := part.strip())]


def _joined(delays_ms: Sequence[int]) -> str:
    return ", ".join(map(format_duration, delays_ms))


def _lines(headers: dict[str, str]) -> str:
    return "\n".join(f"{name}: {value}" for name, value in masked(headers).items())


# How a form's text of each kind becomes the API's value, and how a value is written into a form.
_READ: dict[Kind, Callable[[str], Any]] = {
    Kind.WHOLE: _whole,
    Kind.DURATION: _whole,
    Kind.SECONDS: _seconds,
    Kind.DURATIONS: _list,
    Kind.TEXTS: _texts,
    Kind.HEADERS: headers_of,
}
_WRITTEN: dict[Kind, Callable[[Any], str]] = {
    Kind.URL: masked_url,
    Kind.DURATION: format_duration,
    Kind.DURATIONS: _joined,
    Kind.TEXTS: ", ".join,
    Kind.HEADERS: _lines,
}


def _same(one: Any, other: Any) -> bool:
    return msgspec.json.encode(one) == msgspec.json.encode(other)


def _unmasked(headers: dict[str, str] | None, before: Request) -> dict[str, str] | None:
    if headers is None:
        return None
    kept = before.headers
    return {name: kept.get(name, v) if v == MASK else v for name, v in headers.items()}


def _callback(form: Mapping[str, str]) -> dict[str, str | None]:
    """Without a URL that of the account is meant, if it has one."""
    more = {name: text for name in _CALLBACK[2:] if (text := form.get(name, "").strip())}
    if form.get("callbackOn") == "none":
        return {"callbackUrl": None, **more}
    fields = dict[str, str | None](callbackUrl=form.get("callbackUrl", "").strip() or DEFAULT)
    return fields | more | ({"callbackOn": on} if (on := form.get("callbackOn")) else {})


def _callback_given(wish: Callback | None) -> dict[str, str]:
    if wish is None:
        return {}
    given = {"callbackInclude": "response"} if wish.with_response else {}
    given["failureCallbackUrl"] = masked_url(wish.failure_url or "")
    if wish.url == NO_URL:
        return given | {"callbackOn": "none"}
    on = "failed" if wish.on is CallbackOn.FAILED else ""
    return given | {"callbackUrl": masked_url(wish.url or ""), "callbackOn": on}
