"""/v2/queues: the lanes of queues, and how many messages wait in each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import msgspec
from msgspec.structs import replace

from api.answer import JsonResponse
from api.qstash.calls import QStashCall, Refused, Route
from api.schema.query import MAX_LIMIT
from api.schema.rules import lane_filter
from scheduler.lane_settings import MOST_PARALLEL, Lane, LaneSettings, Pause, resumed
from scheduler.qstash.names import QUEUES, queue_lane, queue_of

Change = Callable[[LaneSettings], LaneSettings]


class _Upsert(msgspec.Struct, rename="camel"):
    queue_name: str
    parallelism: Annotated[int, msgspec.Meta(ge=1, le=MOST_PARALLEL)] = 1
    paused: bool = False


_decode = msgspec.json.Decoder(_Upsert).decode


def of_queue(before: LaneSettings) -> LaneSettings:
    """The settings of a queue's lane when a message comes: one at a time, if nothing is set."""
    return before if before.is_set else replace(before, parallelism=1)


async def upsert_queue(call: QStashCall) -> JsonResponse:
    """Replaces parallelism and pause."""
    try:
        wanted = _decode(call.body)
    except msgspec.MsgspecError as error:
        raise Refused(400, str(error)) from None
    turn = (await pause_of(call)).applied if wanted.paused else resumed
    return await changed(
        call,
        queue_lane(wanted.queue_name),
        lambda before: turn(replace(before, parallelism=wanted.parallelism)),
    )


async def list_queues(call: QStashCall) -> JsonResponse:
    """All of them: an account has at most 10,000 lanes."""
    found, cursor = list[dict[str, Any]](), None
    while True:
        page = await call.store.lanes.page(call.account_id, MAX_LIMIT, cursor, begin=QUEUES)
        found += [_shown(lane) for lane in page.lanes if lane.settings.is_there]
        if (cursor := page.next_cursor) is None:
            return JsonResponse(200, found)


async def get_queue(call: QStashCall) -> JsonResponse:
    lane = await call.store.lanes.read(call.account_id, named(queue_lane(call.parts[0])))
    if not lane.settings.is_there:
        raise Refused(404, "There is no such queue")
    return JsonResponse(200, _shown(lane))


async def delete_queue(call: QStashCall) -> JsonResponse:
    """What waits in it goes on without limits."""
    lane, who = named(queue_lane(call.parts[0])), await call.native.who()
    await call.store.lanes.clear(call.account_id, lane, who=who)
    return JsonResponse(200, {})


async def pause_of(call: QStashCall) -> Pause:
    """One without an end, which this call begins."""
    return Pause(await call.store.api_keys.name_of(call.key_id))


async def changed(
    call: QStashCall, lane: str | None, change: Change, *, frees_rate: bool = False
) -> JsonResponse:
    name, who = named(lane), await call.native.who()
    await call.store.lanes.change(call.account_id, name, change, frees_rate=frees_rate, who=who)
    return JsonResponse(200, {})


def named(lane: str | None) -> str:
    """Raises Refused where no lane can be named so."""
    try:
        return lane or lane_filter("")
    except ValueError as error:
        raise Refused(400, f"The name of a queue or key: {error}") from None


def pause_routes(path: str, lane_of: Callable[[str], str | None]) -> tuple[Route, Route]:
    """Those that pause and resume a lane, which the last part of this path names."""

    async def pause(call: QStashCall) -> JsonResponse:
        return await changed(call, lane_of(call.parts[0]), (await pause_of(call)).applied)

    async def resume(call: QStashCall) -> JsonResponse:
        return await changed(call, lane_of(call.parts[0]), resumed)

    return Route("POST", f"{path}/pause", pause), Route("POST", f"{path}/resume", resume)


def _shown(lane: Lane) -> dict[str, Any]:
    """Lanes have no dates."""
    return {
        "name": queue_of(lane.lane),
        "parallelism": of_queue(lane.settings).parallelism or MOST_PARALLEL,
        "createdAt": 0,
        "updatedAt": 0,
        "lag": lane.waiting,
        "paused": lane.settings.pause is not None,
    }


_QUEUE = "/v2/queues/{queueName}"
ROUTES = (
    Route("POST", "/v2/queues", upsert_queue),
    Route("GET", "/v2/queues", list_queues),
    Route("GET", _QUEUE, get_queue),
    Route("DELETE", _QUEUE, delete_queue),
    *pause_routes(_QUEUE, queue_lane),
)
