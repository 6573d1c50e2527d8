"""The fields of a recurring schedule: its rule's own, and those of the request. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec

from api.schema import payload
from api.schema.field import DURATION, TEXT, JsonType, Schema
from api.schema.fields import FIELDS, REQUIRED, SHOWN, request_of
from api.schema.findings import Doubt, Findings, invalid
from api.schema.json_text import Object, Part
from api.schema.query import Parameter, moment
from api.schema.rules import Rules, duration, timestamp
from api.schema.settings_fields import PAUSE, SettingsField, judged
from scheduler import durations, schema
from scheduler.durations import DAY_MS
from scheduler.errors import FieldError
from scheduler.ids import is_recurring_id
from scheduler.lanes import LANE_PATTERN, LONGEST_LANE, is_lane
from scheduler.models import Request
from scheduler.qstash.carried import renamed
from scheduler.qstash.names import schedule_id_of_rule
from scheduler.recurrence import cron, fields
from scheduler.recurrence.recurrence import LONGEST_EVERY_MS, SHORTEST_EVERY_MS, Timing, faults
from scheduler.recurrence.recurring import Draft, Rule

T = TypeVar("T")
_DURATION: Schema = {"pattern": f"^{durations.PATTERN}$"}
_NULL = b"null"


def _name(text: str, rules: Rules, now_ms: int) -> str:
    return name_of(text)


def name_of(text: str) -> str:
    """Raises ValueError with a sentence for clients."""
    if not is_lane(text) or is_recurring_id(text):
        raise ValueError(
            f"It must have 1 to {LONGEST_LANE} letters, digits, dots, underscores, colons and"
            " hyphens, begin with a letter or digit, and be no id of a recurring schedule."
        )
    return text


def _moment(text: str, rules: Rules, now_ms: int) -> int:
    return timestamp(text)


def _starts_at(text: str, rules: Rules, now_ms: int) -> int:
    moment_ms = timestamp(text)
    if moment_ms > now_ms + rules.max_horizon_days * DAY_MS:
        raise ValueError(f"It may be at most {rules.max_horizon_days:,} days ahead.")
    return moment_ms


def _cron(text: str, rules: Rules, now_ms: int) -> str:
    return cron.normalised(text)


def _every(span: str | int, rules: Rules, now_ms: int) -> int:
    return _fitting("every", duration(span))


def _zone(name: str, rules: Rules, now_ms: int) -> str:
    return _fitting("timeZone", name)


def _fitting(name: str, value: T) -> T:
    """The value, by itself. Raises ValueError."""
    for found in faults(timing_of({name: value})):
        if found.field == name:
            raise ValueError(found.message)
    return value


def _expires_after(span: str | int, rules: Rules, now_ms: int) -> int:
    ms = duration(span)
    if not 0 < ms <= LONGEST_EVERY_MS:
        raise ValueError("It must be from 1ms to 366d.")
    return ms


# The rule of each, and what its schema has besides its type.
_OWN: dict[str, tuple[JsonType, Any, Schema]] = {
    "name": (TEXT, _name, {"pattern": f"^{LANE_PATTERN}$", "maxLength": LONGEST_LANE}),
    "cron": (TEXT, _cron, {"maxLength": cron.LONGEST}),
    "every": (
        DURATION,
        _every,
        {**_DURATION, "minimum": SHORTEST_EVERY_MS // 1000, "maximum": LONGEST_EVERY_MS // 1000},
    ),
    "timeZone": (TEXT, _zone, {}),
    "startsAt": (TEXT, _starts_at, {"format": "date-time"}),
    "endsAt": (TEXT, _moment, {"format": "date-time"}),
    "expiresAfter": (DURATION, _expires_after, _DURATION),
}
OWN = {row.name: SettingsField(row.name, *_OWN[row.name], row.description) for row in fields.FIELDS}
_TIMING = {row.name: row.attribute for row in fields.FIELDS if row.attribute}
# Of a schedule, and what stands in their place.
_NOT_HERE = {row.name: row.instead for row in schema.FIELDS if row.instead}
REQUEST = {name: field for name, field in FIELDS.items() if name not in _NOT_HERE}
REQUEST_SHOWN = tuple(field for field in SHOWN if field.name not in _NOT_HERE)
# What a field of the request is that a whole rule leaves out.
_LEFT_OUT = {field.of: field.default for field in REQUEST.values()} | {"callback_url": None}
_REQUIRED = tuple(names for names in REQUIRED if _NOT_HERE.keys().isdisjoint(names))
_MEMBERS = Object([*OWN, *FIELDS])
_CHANGE_MEMBERS = Object([*OWN, *PAUSE, *FIELDS])


def parse_draft(data: bytes, rules: Rules, now_ms: int) -> Draft:
    """The recurring schedule that a body asks for, judged by the store's clock. Raises
    InvalidRequest with every bad field; `body` is the field if it is no JSON object."""
    settings, values = _whole(*_parts(data), rules, now_ms)
    return Draft(request_of(values), timing_of(settings), settings.get("name"))


class DraftPut(NamedTuple):
    """A whole recurring schedule for a name. `values` are of its request, by their names there."""

    name: str
    timing: Timing
    values: dict[str, Any]
    doubts: Mapping[str, Doubt]

    def of(self, rule: Rule | None) -> Draft:
        """As it replaces the rule of that name, if there is one. Raises InvalidRequest."""
        if rule is None:
            payload.refuse_unless_shown(self.doubts, None)
            return Draft(request_of({**self.values}), self.timing, self.name)
        stay = {FIELDS[name].of for name in self.doubts}
        values = {of: value for of, value in _LEFT_OUT.items() if of not in stay} | self.values
        request = payload.Change(values, self.doubts).of(rule.request)
        return Draft(request, self.timing, self.name)


def parse_put(data: bytes, name: str, rules: Rules, now_ms: int) -> DraftPut:
    """The same of a body that need not repeat the name which its path has."""
    doubts = dict[str, Doubt]()
    findings, own, given = _parts(data, doubts=doubts)
    if bytes(own.pop("name", _NULL)) not in (_NULL, msgspec.json.encode(name)):
        findings.add("name", "It must be the one in the path, or be left out.")
    settings, values = _whole(findings, own, given, rules, now_ms)
    return DraftPut(name, timing_of(settings), values, doubts)


def _parts(
    data: bytes, members: Object = _MEMBERS, doubts: dict[str, Doubt] | None = None
) -> tuple[Findings, dict[str, Part], dict[str, Part]]:
    """The members of the rule and of its request, apart."""
    findings = Findings(doubts)
    given = payload.members(data, findings, members)
    own = {name: given.pop(name) for name in (*OWN, *PAUSE) if name in given}
    for name, message in _NOT_HERE.items():
        if bytes(given.pop(name, _NULL)) != _NULL:
            findings.add(name, message)
    return findings, own, given


def _whole(
    findings: Findings,
    own: Mapping[str, Part],
    given: Mapping[str, Part],
    rules: Rules,
    now_ms: int,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The values of a whole rule, and those of its request."""
    settings = judged(own, OWN, rules, now_ms, findings)
    if not findings:  # else a part is missing
        findings.extend(faults(timing_of(settings)))
    values = payload.whole(given, rules, now_ms, findings, _REQUIRED)
    findings.refuse_if_any()
    return settings, values | {"trigger_at_ms": 0}


def timing_of(settings: Mapping[str, Any], before: Timing | None = None) -> Timing:
    """Of values by their names in the API. None is as good as left out; in a change of an earlier
    one it clears, and of cron and every one takes the other's place."""
    given = {of: settings[name] for name, of in _TIMING.items() if name in settings}
    if given.get("zone", "") is None:
        given["zone"] = "UTC"
    if given.get("cron") is not None:
        given.setdefault("every_ms", None)
    elif given.get("every_ms") is not None:
        given.setdefault("cron", None)
    return msgspec.structs.replace(before or Timing(), **given)


class DraftChange(msgspec.Struct, frozen=True):
    """New values for fields of a rule, by their names in the API, of its pause and of its
    request."""

    settings: dict[str, Any]
    pause: dict[str, Any]
    request: payload.Change

    def of(self, rule: Rule) -> Draft:
        """The whole as it then is. Raises InvalidRequest if its fields do not go together."""
        timing = timing_of(self.settings, rule.timing)
        # Stored times stay valid, even if a later version would refuse them.
        if timing != rule.timing and (found := faults(timing)):
            raise invalid(found)
        name, request = self.settings.get("name", rule.name), self.request.of(rule.request)
        if name != rule.name and request.door is not None:
            request = _renamed(request, schedule_id_of_rule(rule.recurring_id, name))
        return Draft(request, timing, name)


def _renamed(request: Request, schedule_id: str) -> Request:
    """The request of a rule that the QStash door made: its messages name it by its new id. Raises
    InvalidRequest if that does not fit beside what they carry."""
    try:
        return msgspec.structs.replace(request, door=renamed(request.door, schedule_id))
    except ValueError as error:
        raise invalid([FieldError("name", str(error))]) from None


def parse_draft_change(data: bytes, rules: Rules, now_ms: int) -> DraftChange:
    """The change that a body asks for. Raises InvalidRequest as above, or if it gives nothing."""
    doubts = dict[str, Doubt]()
    findings, own, given = _parts(data, _CHANGE_MEMBERS, doubts)
    settings = judged(own, OWN | PAUSE, rules, now_ms, findings)
    values = payload.judged(given, rules, now_ms, findings)
    if not own and not given and not findings:
        findings.add("body", "It must give at least one field to change.")
    findings.refuse_if_any()
    pause = {name: settings.pop(name) for name in PAUSE if name in settings}
    return DraftChange(settings, pause, payload.Change(values, doubts))


def _span(text: str) -> int:
    return duration(int(text) if text.isascii() and text.isdigit() and len(text) < 16 else text)


_MOMENT: Schema = {"type": "string", "format": "date-time"}
PREVIEW = (
    Parameter("cron", str, {"type": "string", "maxLength": cron.LONGEST}, "As in a create."),
    Parameter(
        "every", _span, {"type": "string"}, "Instead of `cron`: a duration, or a number of seconds."
    ),
    Parameter("timeZone", str, {"type": "string"}, "The zone of `cron`; UTC if it is left out."),
    Parameter("startsAt", moment, _MOMENT, "Never before this; without it `every` begins now."),
    Parameter("endsAt", moment, _MOMENT, "Never after this."),
)
