"""/v2/flowControl: the lanes of flow-control keys. Limits that come with messages do not change
pinned ones."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from api.answer import JsonResponse
from api.qstash.calls import QStashCall, Refused, Route
from api.qstash.queues import pause_of, resumed
from scheduler.lane_settings import PARALLELISM, RATE, LaneSettings
from scheduler.qstash.flow import flow_of
from scheduler.qstash.names import flow_lane

_PINNED = (PARALLELISM, RATE, "period")


async def get_key(call: QStashCall) -> JsonResponse:
    """A key that no message has is one without limits. The rate has no fixed periods: all its uses
    that count now are of one that begins now."""
    lane = await call.store.lanes.read(call.account_id, _lane(call))
    settings = lane.settings
    return JsonResponse(
        200,
        {
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
        },
    )


async def pause_key(call: QStashCall) -> JsonResponse:
    pause = await pause_of(call)
    return await _changed(call, lambda old: replace(old, pause=pause.instead_of(old.pause)))


async def resume_key(call: QStashCall) -> JsonResponse:
    return await _changed(call, resumed)


async def pin(call: QStashCall) -> JsonResponse:
    given = _given(call, _PINNED)

    def pinned(before: LaneSettings) -> LaneSettings:
        values = dict(given)
        if before.rate is not None and before.per_ms is not None:
            if "period" in values:
                values.setdefault(RATE, str(before.rate))
            elif RATE in values:
                values["period"] = f"{before.per_ms}ms"
        if "period" in values and RATE not in values:
            raise Refused(400, "period: it needs a rate")
        try:
            return flow_of(values).pinned(before)
        except ValueError as error:
            raise Refused(400, str(error)) from None

    return await _changed(call, pinned)


async def unpin(call: QStashCall) -> JsonResponse:
    """The limits stay until a message changes them."""
    given = _given(call, (PARALLELISM, RATE))
    if not {*given.values()} <= {"true", "false"}:
        raise Refused(400, "parallelism, rate: they must be true or false")

    def unpinned(before: LaneSettings) -> LaneSettings:
        named = {name for name, value in given.items() if value == "true"}
        return replace(before, unpinned=before.unpinned | set(filter(before.is_pinned, named)))

    return await _changed(call, unpinned)


async def reset_rate(call: QStashCall) -> JsonResponse:
    return await _changed(call, lambda before: before, frees_rate=True)


def _given(call: QStashCall, known: tuple[str, ...]) -> dict[str, str]:
    given = {name: values[-1] for name, values in call.query.items()}
    if not given or not given.keys() <= {*known}:
        raise Refused(400, f"The query must have some of {', '.join(known)}, and nothing else")
    return given


async def _changed(
    call: QStashCall,
    change: Callable[[LaneSettings], LaneSettings],
    *,
    frees_rate: bool = False,
) -> JsonResponse:
    who = await call.native.who()
    await call.store.lanes.change(
        call.account_id, _lane(call), change, frees_rate=frees_rate, who=who
    )
    return JsonResponse(200, {})


def _lane(call: QStashCall) -> str:
    lane = flow_lane(call.parts[0])
    if lane is None:
        raise Refused(400, "flowControlKey: it must have 1 to 59 letters, digits and . _ : -")
    return lane


ROUTES = (
    Route("GET", "/v2/flowControl/{flowControlKey}", get_key),
    Route("POST", "/v2/flowControl/{flowControlKey}/pause", pause_key),
    Route("POST", "/v2/flowControl/{flowControlKey}/resume", resume_key),
    Route("POST", "/v2/flowControl/{flowControlKey}/pin", pin),
    Route("POST", "/v2/flowControl/{flowControlKey}/unpin", unpin),
    Route("POST", "/v2/flowControl/{flowControlKey}/resetRate", reset_rate),
)
