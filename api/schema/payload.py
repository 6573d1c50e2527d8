"""Payloads: the bytes of a request's body to a `Request`, or to a `Change` of one. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from api.schema.field import DURATION, TEXT
from api.schema.fields import FIELDS, ON_EXISTING, REQUIRED, SPELLINGS, misfits, request_of
from api.schema.findings import Doubt, Findings, NotAnew
from api.schema.headers import header_field
from api.schema.json_text import Object, Part
from api.schema.rules import Rules, duration, timestamp
from scheduler.callbacks import NO_URL
from scheduler.errors import InvalidRequest
from scheduler.masks import is_secret
from scheduler.models import Request, Schedule, Upsert, usual_method
from scheduler.schema import DEFAULT
from scheduler.target.targets import Origin, parse_target
from scheduler.times import format_iso8601

_PAYLOAD, _CREATE = Object(FIELDS), Object([*FIELDS, *ON_EXISTING])
_CALLBACK = Object(["callbackUrl"])
_NULL = b"null"
_TYPED = [(f.name, f.kind.typed | msgspec.UnsetType, msgspec.UNSET) for f in FIELDS.values()]
_decode_typed = msgspec.json.Decoder(
    msgspec.defstruct("Payload", _TYPED, forbid_unknown_fields=True)
).decode
_SEVERAL = tuple(names for names in SPELLINGS if len(names) > 1)


def parse_request(data: bytes, rules: Rules, now_ms: int) -> Request:
    """The request that a body asks for, judged by the store's clock.

    Raises InvalidRequest with every bad field; `body` is the field if it is no JSON object.
    """
    values = _fine_at_once(data, rules, now_ms)
    if values is None:
        values = _with_every_finding(data, rules, now_ms)
    return request_of(values)


def parse_create(
    data: bytes, rules: Rules, now_ms: int, *, is_doubtful: bool = False
) -> Request | Upsert:
    """The same for a create, whose body may have `onExisting` and `maxWait`. One that `is_doubtful`
    is judged member by member at once: that is shorter, if it has a fault."""
    values = None if is_doubtful else _fine_at_once(data, rules, now_ms)
    if values is not None:
        return request_of(values)
    findings = Findings()
    given = members(data, findings, _CREATE)
    ways = {name: given.pop(name, _NULL) for name in ON_EXISTING}
    values = whole(given, rules, now_ms, findings)
    is_referred = values.get("reference") is not None
    keep, max_wait_ms = way_of(ways, rules, findings, is_referred=is_referred)
    findings.refuse_if_any()
    request = request_of(values)
    return request if keep is None else Upsert(request, keep, max_wait_ms)


def parse_create_like(before: Request, data: bytes, rules: Rules, now_ms: int) -> Request | Upsert:
    """The same of a body whose absent fields are those of another request, but for its time and
    expiry. Raises InvalidRequest too if they do not go together."""
    before = msgspec.structs.replace(
        before, expires_at_ms=None, replay_of=None, trace=None, recurring=None
    )
    findings = Findings()
    given = members(data, findings, _CREATE)
    ways = {name: given.pop(name, _NULL) for name in ON_EXISTING}
    values = judged(given, rules, now_ms, findings)
    is_referred = values.get("reference", before.reference) is not None
    keep, max_wait_ms = way_of(ways, rules, findings, is_referred=is_referred)
    findings.refuse_if_any()
    request = Change(values).of(before)
    return request if keep is None else Upsert(request, keep, max_wait_ms)


def way_of(
    ways: Mapping[str, Part], rules: Rules, findings: Findings, *, is_referred: bool = True
) -> tuple[bool | None, int | None]:
    """Whether one that waits is kept (None: it is not asked for), and the longest wait (ms). Adds
    what is wrong with the fields of ON_EXISTING."""
    way = max_wait_ms = None
    try:
        way = ON_EXISTING["onExisting"].judged(ways["onExisting"], rules, 0)
    except ValueError as error:
        findings.add("onExisting", str(error))
    else:
        if way is not None and not is_referred and not findings:
            findings.add("onExisting", "It needs a reference.")
    try:
        max_wait_ms = ON_EXISTING["maxWait"].judged(ways["maxWait"], rules, 0)
        if max_wait_ms is not None and way != "replace" and not findings:
            findings.add("maxWait", "It needs onExisting to be replace.")
    except ValueError as error:
        findings.add("maxWait", str(error))
    return None if way is None else way == "keep", max_wait_ms


def _fine_at_once(data: bytes, rules: Rules, now_ms: int) -> dict[str, Any] | None:
    """The values of a payload without faults, read in one pass; None for any other. To read each
    member by itself costs twice as much."""
    values: dict[str, Any] = {}
    try:
        data.decode()  # as in json_text: a Raw value is checked for everything but its UTF-8
        given = msgspec.structs.astuple(_decode_typed(data))
        for field, value in zip(FIELDS.values(), given, strict=True):
            if value is msgspec.UNSET:
                continue
            if type(value) is msgspec.Raw:
                value = field.kind.decode(value)
            if field.of in values or (value is None and field.required):
                return None  # another spelling of the same, of which one may be null
            values[field.of] = field.default if value is None else field.rule(value, rules, now_ms)
            if field.sets:
                values.update(field.sets)
    except (ValueError, RecursionError, InvalidRequest):
        return None
    if "url" not in values or "trigger_at_ms" not in values or misfits(values, values):
        return None
    if values.get("retry_delays_ms") is not None and "retries" not in values:
        return None
    return values


def _with_every_finding(data: bytes, rules: Rules, now_ms: int) -> dict[str, Any]:
    """The values of a payload that may have any fault. Raises as `parse_request` does."""
    findings = Findings()
    values = whole(members(data, findings), rules, now_ms, findings)
    findings.refuse_if_any()
    return values


def whole(
    given: Mapping[str, Part],
    rules: Rules,
    now_ms: int,
    findings: Findings,
    required: Sequence[Sequence[str]] = REQUIRED,
) -> dict[str, Any]:
    """The same of its members, with their faults in `findings`."""
    values = judged(given, rules, now_ms, findings)
    for names in required:
        if given.keys().isdisjoint(names):
            for name in names:
                findings.add(name, _required(names))
    if "retries" not in given and bytes(given.get("retryDelays", _NULL)) != _NULL:
        findings.add("retryDelays", "It needs retries, which is 0 unless you ask for more.")
    findings.extend(misfits(values, values))
    return values


def parse_change(data: bytes, rules: Rules, now_ms: int, *, may_be_empty: bool = False) -> Change:
    """The change that a body asks for. Raises InvalidRequest as above, or if nothing is given at
    all and it may not be empty."""
    doubts = dict[str, Doubt]()
    findings = Findings(doubts)
    given = members(data or b"{}" if may_be_empty else data, findings)
    values = judged(given, rules, now_ms, findings)
    if not given and not findings and not may_be_empty:
        findings.add("body", "It must give at least one field to change.")
    findings.refuse_if_any()
    return Change(values, doubts)


def moved_to(at_ms: int, rules: Rules, now_ms: int) -> Change:
    """A change of triggerAt alone. Raises InvalidRequest."""
    given = msgspec.json.encode({"triggerAt": format_iso8601(at_ms)})
    change = parse_change(given, rules, now_ms)
    refuse_unless_shown(change.doubts, None)
    return change


def in_lane(lane: str | None, rules: Rules, now_ms: int) -> Change:
    """A change of the lane alone; None: of no lane. Raises InvalidRequest."""
    return parse_change(msgspec.json.encode({"lane": lane}), rules, now_ms)


def parse_callback(data: bytes, rules: Rules, now_ms: int) -> str | None:
    """The `callbackUrl` of a body that may have one, or be empty: a URL or DEFAULT. Raises
    InvalidRequest."""
    findings = Findings()
    values = judged(_CALLBACK.members(data or b"{}", findings), rules, now_ms, findings)
    url = values.get("callback_url", NO_URL)
    if "callback_url" in values and url == NO_URL:
        findings.add("callbackUrl", "It must be a URL or default: null means no callback.")
    findings.refuse_if_any()
    return DEFAULT if url is None else url or None


def trigger_at_of(data: bytes, created_at_ms: int) -> int:
    """When a schedule is due (ms) that was created of this body, which is or was valid."""
    given = _PAYLOAD.members(data, Findings())
    at = TEXT.decode(given.get("triggerAt", _NULL))
    if at is not None:
        return timestamp(at)
    return created_at_ms + duration(DURATION.decode(given["delay"]))


class Change(msgspec.Struct, frozen=True):
    """New values for fields of a `Request`, by their names there; None clears a method. `doubts`
    are of fields that stay: they were given as answers show them, or wrongly."""

    values: dict[str, Any]
    doubts: Mapping[str, Doubt] = {}

    def of(self, before: Request) -> Request:
        """The whole request as it then is. Raises InvalidRequest if its fields do not go together.

        Only changed fields are judged, with those they depend on: a triggerAt may have passed
        since, while the schedule waits for a worker.
        """
        refuse_unless_shown(self.doubts, before)
        if not self.values:
            return before
        values = msgspec.structs.asdict(before)
        if not values.pop("method_given"):
            del values["method"]
        values |= self.values
        if not before.method_given and values.get("method") == usual_method(values["body"]):
            del values["method"]  # it was given as answers show it, and goes on following the body
        if before.recurring is not None and "expires_at_ms" not in self.values:
            values["expires_at_ms"] = _moved_with(before, values["trigger_at_ms"])
        findings = Findings()
        findings.extend(misfits(values, self.values))
        if "headers" not in self.values and _origin(values["url"]) != _origin(before.url):
            # Its caller decided for the other origin who may see them.
            for name in filter(is_secret, before.headers):
                findings.add(
                    header_field(name),
                    "The new targetUrl is another origin's: give targetHeaders again.",
                )
        findings.refuse_if_any()
        return request_of(values)

    def of_replay(self, original: Schedule, now_ms: int) -> Request:
        """The request of a replay: due now, if nothing else is given. Raises as `of` does.

        An expiresAt that would pass before the replay is due keeps its distance to triggerAt.
        """
        before = original.request
        due_ms, expires_ms = self.values.get("trigger_at_ms", now_ms), before.expires_at_ms
        if expires_ms is not None and expires_ms <= due_ms:
            expires_ms += due_ms - before.trigger_at_ms
        return self.of(
            msgspec.structs.replace(
                before,
                trigger_at_ms=due_ms,
                expires_at_ms=expires_ms,
                replay_of=original.schedule_id,
            )
        )


def refuse_unless_shown(doubts: Mapping[str, Doubt], request: Request | None) -> None:
    """Raises InvalidRequest for the values that answers about the request do not show."""
    findings = Findings()
    for name, (value, faults) in doubts.items():
        if request is None or FIELDS[name].shown_in(request) != value:
            findings.extend(faults)
    findings.refuse_if_any()


def _moved_with(occurrence: Request, trigger_at_ms: int) -> int | None:
    """Its expiresAt, at the same distance to another triggerAt."""
    if occurrence.expires_at_ms is None:
        return None
    return occurrence.expires_at_ms + trigger_at_ms - occurrence.trigger_at_ms


def members(data: bytes, findings: Findings, known: Object = _PAYLOAD) -> dict[str, Part]:
    """The members of a payload. Of several spellings of one thing only one may be given; those
    that are null beside it are left out."""
    given = known.members(data, findings)
    for names in _SEVERAL:
        named = [name for name in names if name in given]
        spoken = [name for name in named if bytes(given[name]) != _NULL]
        if len(spoken) > 1:
            for name in spoken:
                findings.add(name, f"Only one of {' and '.join(spoken)} may be given.")
        for name in named:
            if spoken and name not in spoken:
                del given[name]
    return given


def _required(names: Sequence[str]) -> str:
    return "It is required." if len(names) == 1 else f"One of {' and '.join(names)} is required."


def judged(
    given: Mapping[str, Part], rules: Rules, now_ms: int, findings: Findings
) -> dict[str, Any]:
    """The values of the members that are fine, by their names in a `Request`."""
    values = {}
    for name, text in given.items():
        field = FIELDS[name]
        try:
            values[field.of] = field.judged(text, rules, now_ms)
            values.update(field.sets)
        except InvalidRequest as refusal:
            findings.extend(refusal.details, refusal.unlisted)
        except NotAnew as error:
            findings.doubt(name, msgspec.json.decode(text), error)
        except ValueError as error:
            findings.add(name, str(error))
    return values


def _origin(url: str) -> Origin | None:
    try:
        return parse_target(url).origin
    except ValueError:
        return None  # stored by rules of another version: no other is the same


# The change of a replay that changes nothing.
AS_IT_WAS = Change({})
