"""/v2/flowControl: the lanes of flow-control keys. Limits that come with messages do not change
pinned ones."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from msgspec.structs import replace

from api.answer import JsonResponse
from api.qstash.calls import QStashCall, Refused, Route
from api.qstash.queues import changed, named, pause_routes
from api.schema.settings_fields import OF_PUT
from scheduler.lane_settings import PARALLELISM, RATE, LaneSettings
from scheduler.qstash.names import flow_lane

_PART = re.compile(r"\s*(parallelism|rate|period)\s*=\s*([0-9a-z]{1,32})\s*")
_PERIOD = "period"
_FIELDS = {PARALLELISM: OF_PUT["parallelism"], RATE: OF_PUT["rate"], _PERIOD: OF_PUT["per"]}
_NO_RULES: Any = None  # none of these fields depends on a setting
_SAYS = "It must be such as parallelism=2, rate=10, period=1m."


class FlowValue(NamedTuple):
    """The limits that a message gives its key. None: no limit of this kind."""

    parallelism: int | None = None
    rate: int | None = None
    period_ms: int = 1000

    def limits(self, before: LaneSettings) -> LaneSettings:
        """The lane's settings when the message has come."""
        after, loose = before, [each for each in (PARALLELISM, RATE) if not before.is_pinned(each)]
        if PARALLELISM in loose:
            after = replace(after, parallelism=self.parallelism)
        if RATE in loose:
            after = self.rated(after)
        unpinned = frozenset(each for each in loose if getattr(after, each) is not None)
        return replace(after, unpinned=unpinned)

    def rated(self, before: LaneSettings) -> LaneSettings:
        """As many may come at once as in a period: a period of QStash begins so."""
        per_ms = None if self.rate is None else self.period_ms
        return replace(before, rate=self.rate, per_ms=per_ms, burst=self.rate)


def flow_value(text: str) -> FlowValue:
    """Of `parallelism=2, rate=10, period=1m`; each part may be missing. Judges as native calls do.
    Raises ValueError."""
    parts = [_PART.fullmatch(each) for each in text.split(",", maxsplit=8) if each.strip()]
    given = {each[1]: each[2] for each in parts if each is not None}
    if len(given) < len(parts):
        raise ValueError(_SAYS)
    values: dict[str, int] = {}
    for name, value in given.items():
        is_number = value.isdigit()
        if not is_number and name != _PERIOD:
            raise ValueError(f"{name}: it must be a whole number.")
        try:
            values[name] = _FIELDS[name].rule(int(value) if is_number else value, _NO_RULES, 0)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return FlowValue(values.get(PARALLELISM), values.get(RATE), values.get(_PERIOD, 1000))


async def get_key(call: QStashCall) -> JsonResponse:
    """A key that no message has is one without limits. The rate has no fixed periods: all its uses
    that count now are of one that begins now."""
    lane = await call.store.lanes.read(call.account_id, named(flow_lane(call.parts[0])))
    settings = lane.settings
    shown = {
        "flowControlKey": call.parts[0],
        "waitListSize": lane.due,
        "parallelismMax": settings.parallelism or 0,
        "parallelismCount": lane.running,
        "rateMax": settings.rate or 0,
        "rateCount": lane.rate_used,
        "ratePeriod": (settings.per_ms or 0) // 1000,
        "ratePeriodStart": lane.now_ms // 1000 if settings.rate else 0,
        "isPaused": settings.pause is not None,
        "isPinnedParallelism": settings.is_pinned(PARALLELISM),
        "isPinnedRate": settings.is_pinned(RATE),
    }
    return JsonResponse(200, shown)


async def reset_rate(call: QStashCall) -> JsonResponse:
    return await changed(call, flow_lane(call.parts[0]), lambda before: before, frees_rate=True)


async def pin(call: QStashCall) -> JsonResponse:
    """What is not given stays as it is."""
    given = call.query
    try:
        value = flow_value(",".join(f"{name}={texts[-1]}" for name, texts in given.items()))
    except ValueError as error:
        raise Refused(400, str(error)) from None

    def pinned(before: LaneSettings) -> LaneSettings:
        after, pins = before, given.keys() & {PARALLELISM}
        if PARALLELISM in given:
            after = replace(after, parallelism=value.parallelism)
        if RATE in given or _PERIOD in given:
            if (rate := value.rate or before.rate) is None:
                raise Refused(400, "period: it needs a rate")
            period_ms = value.period_ms if _PERIOD in given else before.per_ms or value.period_ms
            after, pins = FlowValue(None, rate, period_ms).rated(after), pins | {RATE}
        return replace(after, unpinned=before.unpinned - pins)

    return await changed(call, flow_lane(call.parts[0]), pinned)


async def unpin(call: QStashCall) -> JsonResponse:
    """The limits stay until a message changes them."""
    given = {name: texts[-1] for name, texts in call.query.items()}
    if not given.keys() <= {PARALLELISM, RATE} or not {*given.values()} <= {"true", "false"}:
        raise Refused(400, "The query has parallelism and rate, each of them true or false")
    chosen = {name for name, text in given.items() if text == "true"}

    def unpinned(before: LaneSettings) -> LaneSettings:
        return replace(before, unpinned=before.unpinned.union(filter(before.is_pinned, chosen)))

    return await changed(call, flow_lane(call.parts[0]), unpinned)


_KEY = "/v2/flowControl/{flowControlKey}"
ROUTES = (
    Route("GET", _KEY, get_key),
    *pause_routes(_KEY, flow_lane),
    Route("POST", f"{_KEY}/pin", pin),
    Route("POST", f"{_KEY}/unpin", unpin),
    Route("POST", f"{_KEY}/resetRate", reset_rate),
)
