"""Pauses, and the settings of a lane and of an account: each field, and how they go together.
Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from api.schema.field import BOOLEAN, DURATION, TEXT, WHOLE, JsonType, Schema
from api.schema.findings import Doubt, Findings, NotAnew
from api.schema.json_text import Object, read
from api.schema.rules import Rules, duration, one_of, target_url, timestamp
from scheduler import durations
from scheduler.callbacks import CallbackOn
from scheduler.durations import DAY_MS
from scheduler.errors import FieldError
from scheduler.lane_settings import (
    LONGEST_NOTE,
    LONGEST_PER_MS,
    MOST_PARALLEL,
    MOST_RATE,
    SHORTEST_PER_MS,
)
from scheduler.schema import LONGEST_URL
from scheduler.texts import visible

_ONLY_PATCH = "PUT leaves it as it is: change it with PATCH."


class SettingsField(NamedTuple):
    """`rule` makes its value of one of the right type, or raises ValueError. `nullable`: null
    clears it."""

    name: str
    kind: JsonType
    rule: Callable[[Any, Rules, int], Any]
    more: Schema
    description: str
    nullable: bool = True

    @property
    def schema(self) -> Schema:
        types = [*self.kind.types, "null"] if self.nullable else self.kind.types
        type_ = types if len(types) > 1 else types[0]
        return {"type": type_, **self.more, "description": self.description}


def _from_1_to(most: int) -> Callable[[int, Rules, int], int]:
    def rule(count: int, rules: Rules, now_ms: int) -> int:
        if not 1 <= count <= most:
            raise ValueError(f"It must be from 1 to {most:,}.")
        return count

    return rule


def _per(span: str | int, rules: Rules, now_ms: int) -> int:
    ms = duration(span)
    if not SHORTEST_PER_MS <= ms <= LONGEST_PER_MS:
        raise ValueError("It must be from 1s to 1d.")
    return ms


def _note(text: str, rules: Rules, now_ms: int) -> str | None:
    if len(text) > LONGEST_NOTE or visible(text) != text:
        raise ValueError(
            f"It may have at most {LONGEST_NOTE} characters, and no control characters."
        )
    return text or None


def _paused_until(text: str, rules: Rules, now_ms: int) -> int:
    moment_ms = timestamp(text)
    if moment_ms <= now_ms:
        raise ValueError("It must be in the future.")
    if moment_ms > now_ms + rules.max_horizon_days * DAY_MS:
        raise ValueError(f"It may be at most {rules.max_horizon_days:,} days ahead.")
    return moment_ms


def _calm(text: str, rules: Rules, now_ms: int) -> int:
    return timestamp(text)


def _up_to(most: int) -> Schema:
    return {"minimum": 1, "maximum": most}


_NOTE = SettingsField(
    "note",
    TEXT,
    _note,
    {"maxLength": LONGEST_NOTE},
    "For people. It is stored unencrypted.",
)
_LIMITS = (
    SettingsField(
        "rate", WHOLE, _from_1_to(MOST_RATE), _up_to(MOST_RATE), "At most so many starts `per`."
    ),
    SettingsField(
        "per",
        DURATION,
        _per,
        {"pattern": f"^{durations.PATTERN}$", "minimum": 1, "maximum": LONGEST_PER_MS // 1000},
        "The time in which there are at most `rate` starts: 1s to 1d.",
    ),
    SettingsField(
        "burst",
        WHOLE,
        _from_1_to(MOST_RATE),
        _up_to(MOST_RATE),
        "At most so many may start at once after a while without any; 1 if it is left out, and "
        "no more than `rate`.",
    ),
    SettingsField(
        "parallelism",
        WHOLE,
        _from_1_to(MOST_PARALLEL),
        _up_to(MOST_PARALLEL),
        "At most so many run at a time.",
    ),
    _NOTE,
)
_PAUSE = (
    SettingsField(
        "paused",
        BOOLEAN,
        lambda value, rules, now_ms: value,
        {},
        "While it is paused nothing starts: due schedules wait, and go out afterwards.",
        nullable=False,
    ),
    SettingsField(
        "pausedUntil",
        TEXT,
        _paused_until,
        {"format": "date-time"},
        "When the pause ends by itself; null: it has no end.",
    ),
    _NOTE._replace(name="pauseNote", description="Why it is paused. It goes when the pause ends."),
)
_CALM = SettingsField(
    "calmUntil",
    TEXT,
    _calm,
    {"format": "date-time"},
    "Null ends the calm that a target asked for with Retry-After. Any other value must be the one "
    "that it has.",
)
_CALLBACK = (
    SettingsField(
        "callbackUrl",
        TEXT,
        target_url,
        {"format": "uri", "maxLength": LONGEST_URL},
        "The URL that gets reports of schedules that name no `callbackUrl`; null: none.",
    ),
    SettingsField(
        "callbackOn",
        TEXT,
        one_of(CallbackOn, CallbackOn),
        {"enum": [*CallbackOn, None]},
        "Which ends: `executed`, if it is left out, or `failed`.",
    ),
)
PAUSE = {field.name: field for field in _PAUSE}
OF_PAUSE = {name: field for name, field in PAUSE.items() if name != "paused"}
OF_PUT = {field.name: field for field in _LIMITS}
OF_PATCH = OF_PUT | PAUSE | {_CALM.name: _CALM}
OF_ACCOUNT = PAUSE | {field.name: field for field in _CALLBACK}
_MEMBERS = {id(table): Object(table) for table in (OF_PATCH, OF_ACCOUNT, OF_PAUSE)}


def parse_put(data: bytes, rules: Rules, now_ms: int) -> dict[str, Any]:
    """The values that are given, by name; None for null, and a Doubt for a URL that may only stay.
    Raises InvalidRequest with every bad field."""
    findings = Findings()
    given = _MEMBERS[id(OF_PATCH)].members(data, findings)
    for name in given.keys() - OF_PUT.keys():
        findings.add(name, _ONLY_PATCH)
    values = judged({n: given[n] for n in given if n in OF_PUT}, OF_PUT, rules, now_ms, findings)
    findings.refuse_if_any()
    return values


def parse_patch(
    data: bytes, table: Mapping[str, SettingsField], rules: Rules, now_ms: int
) -> dict[str, Any]:
    """The same of a change, which gives at least one."""
    findings = Findings()
    given = _MEMBERS[id(table)].members(data, findings)
    values = judged(given, table, rules, now_ms, findings)
    if not given and not findings:
        findings.add("body", "It must give at least one field to change.")
    findings.refuse_if_any()
    return values


def parse_pause(data: bytes, rules: Rules, now_ms: int) -> dict[str, Any]:
    """The same for a pause that is set as a whole: a field that is left out is None."""
    findings = Findings()
    given = _MEMBERS[id(OF_PAUSE)].members(data or b"{}", findings)
    values = judged(given, OF_PAUSE, rules, now_ms, findings)
    findings.refuse_if_any()
    return dict.fromkeys(OF_PAUSE) | values


def judged(
    given: Mapping[str, bytes | msgspec.Raw],
    table: Mapping[str, SettingsField],
    rules: Rules,
    now_ms: int,
    findings: Findings,
) -> dict[str, Any]:
    values = {}
    for name, text in given.items():
        field = table[name]
        try:
            value = read(text, field.kind.decode, field.kind.fault)
            if value is None and not field.nullable:
                raise ValueError(field.kind.fault)
            values[name] = None if value is None else field.rule(value, rules, now_ms)
        except NotAnew as error:
            values[name] = Doubt.of(name, value, error)
        except ValueError as error:
            findings.add(name, str(error))
    return values


def misfits(values: Mapping[str, Any], given: Iterable[str]) -> list[FieldError]:
    """Faults of valid settings together: `values` are all that hold then, `given` the new ones."""
    rate, per, burst = (values.get(name) for name in ("rate", "per", "burst"))
    found = []
    if (rate is None) != (per is None):
        here, missing = ("rate", "per") if per is None else ("per", "rate")
        if here in given:
            found.append(FieldError(here, f"It needs {missing}."))
        else:
            found.append(FieldError(missing, f"It is needed while {here} is set."))
    if burst is not None and rate is None and per is None:
        found.append(FieldError("burst", "It needs rate and per."))
    elif burst is not None and rate is not None and burst > rate:
        if "burst" in given:
            found.append(FieldError("burst", f"It may be at most the rate, {rate:,}."))
        else:
            found.append(FieldError("rate", f"It may not be below burst, {burst:,}."))
    if not values.get("paused"):
        without = (name for name in OF_PAUSE if values.get(name) is not None)
        found.extend(FieldError(name, "It needs paused to be true.") for name in without)
    if values.get("callbackOn") is not None and values.get("callbackUrl") is None:
        found.append(FieldError("callbackOn", "It needs callbackUrl."))
    return found
