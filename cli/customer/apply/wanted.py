"""What files ask for, judged by the rules of the API before anything is sent."""

from __future__ import annotations

import ipaddress
import json
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from api.schema import recurring_fields, settings_fields
from api.schema.account_bodies import LANE
from api.schema.findings import invalid
from api.schema.recurring_bodies import RECURRING, Shown
from api.schema.recurring_fields import REQUEST_SHOWN
from api.schema.rules import Rules, lane_filter
from api.schema.settings_fields import OF_ACCOUNT, OF_PUT
from cli.customer.apply.document import BadFiles, Document, Fault, Path, Place, dotted
from scheduler.callbacks import CallbackOn
from scheduler.errors import FieldError, InvalidRequest
from scheduler.lane_settings import Lane, LaneSettings
from scheduler.lanes import LANE_PATTERN
from scheduler.masks import has_mask, masked_url
from scheduler.recurrence.cron_refusals import NEVER
from scheduler.recurrence.recurrence import next_slot
from scheduler.recurrence.recurring import Rule, RuleState
from scheduler.target.destinations import Destinations

ACCOUNT, LANES, RECURRINGS = "account", "lanes", "recurring"
OWNS = "owns"
OWNS_PATTERN = rf"(?:{LANE_PATTERN})?\*?"
MOST_OWNS = 100
MOST_OBJECTS = 1000
OF_LANE = tuple(OF_PUT)
OF_CALLBACK = ("callbackUrl", "callbackOn")
OF_RULE = (
    *(name for name in recurring_fields.OWN if name != "name"),
    *(field.name for field in REQUEST_SHOWN),
)
_ATTRIBUTES = {"per": "per_ms"}
# Each installation allows other targets and times, and judges them when it is called.
_ANYWHERE = Destinations(map(ipaddress.ip_network, ("0.0.0.0/0", "::/0")), ports=((1, 65535),))
_RULES = Rules(_ANYWHERE, max_horizon_days=1_000_000)


class Wanted(NamedTuple):
    """The account, a lane or a recurring schedule of a file. `given` are its fields as the file has
    them, `shown` as the API shows them once they are set. `name` is empty for the account."""

    kind: str
    name: str
    given: Mapping[str, Any]
    shown: Mapping[str, Any]
    place: Place

    @property
    def is_masked(self) -> bool:
        """Whether the API masks a part of it, which then cannot be compared."""
        return has_mask(json.dumps(self.shown, ensure_ascii=False))


class Asked(NamedTuple):
    """What all files together ask for, and which names belong to them."""

    wanted: list[Wanted]
    owns: list[str]

    def owned(self, name: str) -> bool:
        return is_owned(self.owns, name)


def is_owned(owns: Iterable[str], name: str) -> bool:
    return any(name.startswith(each[:-1]) if each.endswith("*") else name == each for each in owns)


def asked_of(documents: Sequence[Document]) -> Asked:
    """Raises BadFiles with all that is wrong."""
    judge = _Judge()
    for document in documents:
        judge.add(document)
    if judge.faults:
        files = [document.file for document in documents]
        raise BadFiles(sorted(judge.faults, key=lambda f: (files.index(f.place.file), f.place)))
    return Asked(list(judge.wanted.values()), judge.owns)


class _Judge:
    def __init__(self) -> None:
        self.wanted: dict[tuple[str, str], Wanted] = {}
        self.owns: list[str] = []
        self.faults: list[Fault] = []
        self._now_ms = time.time_ns() // 1_000_000

    def add(self, document: Document) -> None:
        sections = self._object(document, (), document.values)
        for name in sections.keys() - {OWNS, ACCOUNT, *_PARSERS}:
            self._fault(document, (name,), "There is no such field.")
        owns = self._owns(document, sections.get(OWNS))
        self.owns += owns
        if sections.get(ACCOUNT) is not None:
            self._add(document, (ACCOUNT,), sections[ACCOUNT], _account)
        for kind, parse in _PARSERS.items():
            for name, given in self._object(document, (kind,), sections.get(kind)).items():
                self._add(document, (kind, name), given, parse)
                if owns and not is_owned(owns, name):
                    message = "The file does not own this name."
                    self._fault(document, (kind, name), message)
        if len(self.wanted) > MOST_OBJECTS:
            message = f"There are more than {MOST_OBJECTS:,} lanes and recurring schedules."
            self._fault(document, (), message)

    def _add(self, document: Document, path: Path, given: Any, parse: _Parser) -> None:
        kind, name, place = str(path[0]), str(path[-1]), document.place(path)
        name = "" if kind == ACCOUNT else name
        if (before := self.wanted.get((kind, name))) is not None:
            message = f"{before.place.file}:{before.place.line} has it already."
            self._fault(document, path, message)
        fields = self._object(document, path, given, needed=True)
        if not fields:
            return
        try:
            shown = parse(name, json.dumps(fields).encode(), self._now_ms)
        except InvalidRequest as error:
            for each in error.details:
                self._fault(document, (*path, *_parts(each.field)), each.message)
            return
        self.wanted[kind, name] = Wanted(kind, name, fields, shown, place)

    def _owns(self, document: Document, given: Any) -> list[str]:
        if given is None:
            return []
        message = "It must be a list of names, or of how names begin with a * behind, as billing-*."
        if not isinstance(given, list) or not 1 <= len(given) <= MOST_OWNS:
            self._fault(document, (OWNS,), message)
            return []
        count = len(self.faults)
        for number, each in enumerate(given):
            if not isinstance(each, str) or not each or not re.fullmatch(OWNS_PATTERN, each):
                self._fault(document, (OWNS, number), message)
        return given if len(self.faults) == count else []

    def _object(
        self, document: Document, path: Path, given: Any, *, needed: bool = False
    ) -> dict[str, Any]:
        """Its fields; none if it is null or no object. Where `needed`, no fields are a fault."""
        if isinstance(given, dict) and (given or not needed):
            return given
        if needed and given in (None, {}):
            self._fault(document, path, "It has no fields.")
        elif given is not None:
            self._fault(document, path, "It must have fields, each with a name.")
        return {}

    def _fault(self, document: Document, path: Path, message: str) -> None:
        self.faults.append(Fault(document.place(path), dotted(path), message))


_Parser = Callable[[str, bytes, int], Mapping[str, Any]]


def _lane(name: str, data: bytes, now_ms: int) -> Mapping[str, Any]:
    """The fields as the API shows them. Raises InvalidRequest, as the others do."""
    _judge_name(lane_filter, name)
    values = settings_fields.parse_put(data, _RULES, now_ms)
    if found := settings_fields.misfits(values, values):
        raise invalid(found)
    settings = LaneSettings(**{_ATTRIBUTES.get(each, each): v for each, v in values.items()})
    if not settings.is_set:
        raise invalid([FieldError("", "It needs a rate, a parallelism or a note.")])
    return _shown(LANE.of(Lane(name, settings, now_ms)), OF_LANE)


def _rule(name: str, data: bytes, now_ms: int) -> Mapping[str, Any]:
    _judge_name(recurring_fields.name_of, name)
    if "name" in json.loads(data):
        raise invalid([FieldError("name", "Its name is the one that it has in the file.")])
    draft = recurring_fields.parse_put(data, name, _RULES, now_ms).of(None)
    if next_slot(msgspec.structs.replace(draft.timing, ends_at_ms=None), now_ms) is None:
        raise invalid([FieldError("cron", NEVER)])
    rule = Rule("", name, draft.timing, draft.request, RuleState.ACTIVE, now_ms)
    return _shown(RECURRING.of(Shown(rule)), OF_RULE)


def _account(name: str, data: bytes, now_ms: int) -> Mapping[str, Any]:
    of_callback = {each: OF_ACCOUNT[each] for each in OF_CALLBACK}
    given = json.loads(data)
    if others := given.keys() - of_callback.keys():
        raise invalid(FieldError(each, "There is no such field.") for each in sorted(others))
    values = settings_fields.parse_patch(data, OF_ACCOUNT, _RULES, now_ms)
    if "callbackUrl" not in values:
        raise invalid([FieldError("callbackUrl", "It is needed; null means no callback.")])
    if found := settings_fields.misfits(values, values):
        raise invalid(found)
    url, on = values["callbackUrl"], values.get("callbackOn")
    if url is None:
        return dict.fromkeys(OF_CALLBACK)
    if not isinstance(url, str):  # a doubt: it has a mask
        raise invalid(url.faults)
    return {"callbackUrl": masked_url(url), "callbackOn": str(on or CallbackOn.EXECUTED)}


_PARSERS: Mapping[str, _Parser] = {LANES: _lane, RECURRINGS: _rule}


def _judge_name(rule: Callable[[str], str], name: str) -> None:
    try:
        rule(name)
    except ValueError as error:
        raise invalid([FieldError("", f"The name is not valid. {error}")]) from None


def _shown(body: Any, fields: Iterable[str]) -> Mapping[str, Any]:
    found = msgspec.json.decode(msgspec.json.encode(body))
    return {name: found[name] for name in fields}


def _parts(field: str) -> list[str | int]:
    """`targetHeaders.X-A` and `retryDelays[1]` as paths have them."""
    head, dot, rest = field.partition(".")
    name, *numbers = re.split(r"[\[\]]+", head)
    found: list[str | int] = [name] if name else []
    found += [int(each) if each.isdigit() else each for each in numbers if each]
    return [*found, rest] if dot else found
