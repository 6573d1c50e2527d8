"""/v2/queues: the lanes of queues, and how many messages wait in each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from api.answer import JsonResponse
from api.qstash.calls import QStashCall, Refused, Route
from scheduler.lane_settings import MOST_PARALLEL, Lane, LaneSettings, Pause
from scheduler.qstash.flow import of_queue
from scheduler.qstash.names import queue_lane, queue_of

_QUEUES = "queue:"
# A list has at most so many queues; it is read in pages.
_MOST_LISTED, _PAGE = 1000, 100


class _Upsert(msgspec.Struct, rename="camel"):
    queue_name: str
    parallelism: int = 1
    paused: bool = False


_decode = msgspec.json.Decoder(_Upsert).decode


async def upsert_queue(call: QStashCall) -> JsonResponse:
    """Replaces parallelism and pause."""
    try:
        wanted = _decode(call.body)
    except msgspec.MsgspecError as error:
        raise Refused(400, str(error)) from None
    if not 1 <= wanted.parallelism <= MOST_PARALLEL:
        raise Refused(400, f"parallelism: it must be from 1 to {MOST_PARALLEL:,}")
    pause = await pause_of(call) if wanted.paused else None

    def changed(before: LaneSettings) -> LaneSettings:
        after = replace(before, parallelism=wanted.parallelism, unpinned=frozenset())
        return replace(after, pause=pause and pause.instead_of(before.pause))

    return await _changed(call, wanted.queue_name, changed)


async def list_queues(call: QStashCall) -> JsonResponse:
    found, cursor = list[dict[str, Any]](), None
    for _ in range(_MOST_LISTED // _PAGE):
        page = await call.store.lanes.page(call.account_id, _PAGE, cursor, begin=_QUEUES)
        found += [_shown(lane) for lane in page.lanes if lane.settings.is_there]
        cursor = page.next_cursor
        if cursor is None:
            break
    return JsonResponse(200, found)


async def get_queue(call: QStashCall) -> JsonResponse:
    return JsonResponse(200, _shown(await _found(call)))


async def delete_queue(call: QStashCall) -> JsonResponse:
    """What waits in it goes on, all at once."""
    await call.store.lanes.clear(
        call.account_id, _lane(call.parts[0]), who=await call.native.who()
    )
    return JsonResponse(200, {})


async def pause_queue(call: QStashCall) -> JsonResponse:
    pause = await pause_of(call)

    def paused(before: LaneSettings) -> LaneSettings:
        return replace(of_queue(before), pause=pause.instead_of(before.pause))

    return await _changed(call, call.parts[0], paused)


async def resume_queue(call: QStashCall) -> JsonResponse:
    await _found(call)
    return await _changed(call, call.parts[0], resumed)


async def pause_of(call: QStashCall) -> Pause:
    """One without an end, begun by the caller."""
    return Pause(await call.store.api_keys.name_of(call.key_id))


def resumed(before: LaneSettings) -> LaneSettings:
    return replace(before, pause=None)


async def _changed(
    call: QStashCall, queue: str, change: Callable[[LaneSettings], LaneSettings]
) -> JsonResponse:
    who = await call.native.who()
    await call.store.lanes.change(call.account_id, _lane(queue), change, who=who)
    return JsonResponse(200, {})


async def _found(call: QStashCall) -> Lane:
    lane = await call.store.lanes.read(call.account_id, _lane(call.parts[0]))
    if not lane.settings.is_there:
        raise Refused(404, "There is no such queue")
    return lane


def _lane(queue: str) -> str:
    lane = queue_lane(queue)
    if lane is None:
        raise Refused(400, "queueName: it must have 1 to 58 letters, digits and . _ : -")
    return lane


def _shown(lane: Lane) -> dict[str, Any]:
    """Lanes have no dates."""
    settings = lane.settings
    return {
        "name": queue_of(lane.lane),
        "parallelism": settings.parallelism or MOST_PARALLEL,
        "createdAt": 0,
        "updatedAt": 0,
        "lag": lane.waiting,
        "paused": settings.pause is not None,
    }


ROUTES = (
    Route("POST", "/v2/queues", upsert_queue),
    Route("GET", "/v2/queues", list_queues),
    Route("GET", "/v2/queues/{queueName}", get_queue),
    Route("DELETE", "/v2/queues/{queueName}", delete_queue),
    Route("POST", "/v2/queues/{queueName}/pause", pause_queue),
    Route("POST", "/v2/queues/{queueName}/resume", resume_queue),
)
