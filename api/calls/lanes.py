"""/lanes and /account: limits and pauses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from litestar import delete, get, patch, post, put
from litestar.params import FromPath
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from api.answer import JsonResponse
from api.auth import Call, call_of
from api.preconditions import read_answer, tag, wanted_of
from api.reading import read_body
from api.schema.account_bodies import ACCOUNT, LANE, ClearedLaneBody, LanesBody, ShownAccount
from api.schema.findings import Doubt, Findings, invalid
from api.schema.json_text import Object
from api.schema.query import DEFAULT_LIMIT, OF_LANES, Walk
from api.schema.rules import lane_filter
from api.schema.settings_fields import (
    OF_ACCOUNT,
    OF_PATCH,
    misfits,
    parse_patch,
    parse_pause,
    parse_put,
)
from api.service import HttpRequest
from scheduler.callbacks import CallbackOn
from scheduler.errors import FieldError
from scheduler.lane_settings import (
    AccountCallback,
    AccountSettings,
    Lane,
    LaneSettings,
    Pause,
    resumed,
)
from scheduler.masks import masked_url
from scheduler.runtime.pause import collected
from scheduler.store.accounts.accounts import Holdings
from scheduler.store.preconditions import Precondition

_ATTRIBUTES = {
    "rate": "rate",
    "per": "per_ms",
    "burst": "burst",
    "parallelism": "parallelism",
    "note": "note",
}
_LIMITS = _ATTRIBUTES.keys() - {"note"}
_NOTHING = Object([])


@get("/lanes", operation_id="listLanes", summary="List lanes")
async def list_lanes(request: HttpRequest) -> JsonResponse:
    """Lists by name the lanes that have a setting, are paused or calm, or have schedules that have
    not ended. For the next page, give the `nextCursor` of a page as `cursor`."""
    call = await call_of(request, OF_LANES)
    walk = Walk("/lanes")
    cursor = walk.taken_back(call.query["cursor"])
    limit = call.query["limit"] or DEFAULT_LIMIT
    page = await call.store.lanes.page(call.account_id, limit, cursor)
    return JsonResponse(
        200, LanesBody(await collected(map(LANE.of, page.lanes)), walk.given_out(page.next_cursor))
    )


@get("/lanes/{lane:str}", operation_id="getLane", summary="Read a lane")
async def get_lane(request: HttpRequest, lane: FromPath[str]) -> JsonResponse:
    """Shows a lane's settings and its state. Settings that it does not have are null."""
    call, wanted = await call_of(request), wanted_of(request.scope)
    found = await call.store.lanes.read(call.account_id, _named(lane))
    settings = found.settings
    return read_answer(wanted, LANE.of(found), settings.etag, is_there=settings.is_there)


@put("/lanes/{lane:str}", operation_id="setLane", summary="Set a lane")
async def set_lane(request: HttpRequest, lane: FromPath[str]) -> JsonResponse:
    """Sets the limits of a lane and its note, all at once: a limit left out is removed. A pause
    stays as it is. The limits hold for all workers together, from the next claim on."""
    call = await call_of(request)
    name, wanted = _named(lane), wanted_of(request.scope)
    values = parse_put(await _body(request, call), call.service.rules, _now_ms(call))
    _refuse_misfits(values, values)
    settings = LaneSettings(**{_ATTRIBUTES[each]: value for each, value in values.items()})
    who = await call.who()
    return _lane_answer(
        await call.store.lanes.put(call.account_id, name, settings, wanted, who=who)
    )


@patch("/lanes/{lane:str}", operation_id="changeLane", summary="Change a lane")
async def change_lane(request: HttpRequest, lane: FromPath[str]) -> JsonResponse:
    """Changes the given settings of a lane; null clears one. The result is judged as a whole. With
    `paused`, none of its schedules starts until it is resumed, or until `pausedUntil`; running ones
    end. Afterwards the due schedules go out in their order, at the lane's rate."""
    call = await call_of(request)
    name, wanted = _named(lane), wanted_of(request.scope)
    given = parse_patch(await _body(request, call), OF_PATCH, call.service.rules, _now_ms(call))
    after = await pausing(call, given)

    def changed(before: LaneSettings) -> LaneSettings:
        limits = {each: getattr(before, attribute) for each, attribute in _ATTRIBUTES.items()}
        limits |= {each: given[each] for each in _ATTRIBUTES if each in given}
        pause = after(before.pause)
        _refuse_misfits(limits, given)
        unpinned = before.unpinned if _LIMITS.isdisjoint(given) else frozenset[str]()
        values = {_ATTRIBUTES[name]: value for name, value in limits.items()}
        return replace(before, pause=pause, unpinned=unpinned, **values)

    return await _changed_lane(call, name, changed, wanted, given.get("calmUntil", UNSET))


@post("/lanes/{lane:str}/pause", operation_id="pauseLane", summary="Pause a lane", status_code=200)
async def pause_lane(request: HttpRequest, lane: FromPath[str]) -> JsonResponse:
    """Lets none of its schedules start until it is resumed, or until `pausedUntil`; running ones
    end. Afterwards the due schedules go out in their order, at the lane's rate. If the lane is
    paused already, the call sets the end and the note as given. Safe to repeat."""
    call = await call_of(request)
    name, wanted = _named(lane), wanted_of(request.scope)
    pause = await pause_of(request, call)
    return await _changed_lane(call, name, pause.applied, wanted)


@post(
    "/lanes/{lane:str}/resume", operation_id="resumeLane", summary="Resume a lane", status_code=200
)
async def resume_lane(request: HttpRequest, lane: FromPath[str]) -> JsonResponse:
    """Ends the pause of a lane. Safe to repeat."""
    call = await call_of(request)
    name, wanted = _named(lane), wanted_of(request.scope)
    await no_fields(request, call)
    return await _changed_lane(call, name, resumed, wanted)


@delete("/lanes/{lane:str}", operation_id="clearLane", summary="Clear a lane", status_code=200)
async def clear_lane(request: HttpRequest, lane: FromPath[str]) -> JsonResponse:
    """Removes all settings of a lane, its pause and its calm too. Its waiting schedules go on
    without limits; the answer has their number."""
    call = await call_of(request)
    name, wanted = _named(lane), wanted_of(request.scope)
    waiting = await call.store.lanes.clear(call.account_id, name, wanted, who=await call.who())
    return JsonResponse(200, ClearedLaneBody(name, waiting, cleared(waiting)))


@get("/account", operation_id="getAccount", summary="Read the account")
async def get_account(request: HttpRequest) -> JsonResponse:
    """Shows whether the account is paused, and by which API key; the callback of schedules that
    name none; its plan with its limits; and what the account has. The `ETag` is that of its
    settings alone."""
    call, wanted = await call_of(request), wanted_of(request.scope)
    settings, held = await asyncio.gather(
        call.store.pauses.read(call.account_id), call.store.accounts.holdings(call.account_id)
    )
    return read_answer(wanted, _shown(call, settings, held), settings.etag)


@patch("/account", operation_id="changeAccount", summary="Change the account")
async def change_account(request: HttpRequest) -> JsonResponse:
    """Pauses or resumes all schedules of the account, and sets the callback of schedules that name
    none. A `callbackUrl` counts for schedules that end from now on, and for the account's callbacks
    that wait."""
    call = await call_of(request)
    wanted = wanted_of(request.scope)
    given = parse_patch(await _body(request, call), OF_ACCOUNT, call.service.rules, _now_ms(call))
    after = await pausing(call, given)

    def changed(before: AccountSettings) -> AccountSettings:
        callback = _callback_after(before.callback, given)
        return replace(before, pause=after(before.pause), callback=callback)

    return await _changed_account(call, changed, wanted)


@post("/account/pause", operation_id="pauseAccount", summary="Pause the account", status_code=200)
async def pause_account(request: HttpRequest) -> JsonResponse:
    """Lets nothing of the account start until it is resumed, or until `pausedUntil`. Schedules can
    be created, changed and cancelled, and due ones wait; running ones end, and callbacks go on.
    Each lane has a pause of its own: a schedule in it starts when neither is on. If the account is
    paused already, the call sets the end and the note as given. Safe to repeat."""
    call = await call_of(request)
    wanted, pause = wanted_of(request.scope), await pause_of(request, call)
    return await _changed_account(call, pause.applied, wanted)


@post(
    "/account/resume", operation_id="resumeAccount", summary="Resume the account", status_code=200
)
async def resume_account(request: HttpRequest) -> JsonResponse:
    """Ends the pause of the account; lanes that are paused stay so. Safe to repeat."""
    call = await call_of(request)
    wanted = wanted_of(request.scope)
    await no_fields(request, call)
    return await _changed_account(call, resumed, wanted)


def _callback_after(
    before: AccountCallback | None, given: dict[str, Any]
) -> AccountCallback | None:
    url = given.get("callbackUrl", before and before.url)
    if isinstance(url, Doubt):
        if before is None or masked_url(before.url) != url.value:
            raise invalid(url.faults)
        url = before.url
    _refuse_misfits({"callbackUrl": url, "callbackOn": given.get("callbackOn")}, given)
    on = given.get("callbackOn", before and before.on)
    return None if url is None else AccountCallback(url, on or CallbackOn.EXECUTED)


async def pausing(call: Call, given: dict[str, Any]) -> Callable[[Pause | None], Pause | None]:
    """The pause after a change. It raises InvalidRequest for an end or a note without a pause."""
    by = await call.store.api_keys.name_of(call.key_id) if given.get("paused") else ""

    def after(before: Pause | None) -> Pause | None:
        is_paused = given.get("paused", before is not None)
        stays = before if is_paused else None
        until_ms = given.get("pausedUntil", stays and stays.until_ms)
        note = given.get("pauseNote", stays and stays.note)
        _refuse_misfits({"paused": is_paused, "pausedUntil": until_ms, "pauseNote": note}, given)
        return Pause(by, until_ms, note).instead_of(before) if is_paused else None

    return after


async def pause_of(request: HttpRequest, call: Call) -> Pause:
    """The one that a body asks for, which may be empty. Raises InvalidRequest."""
    values = parse_pause(await _body(request, call), call.service.rules, _now_ms(call))
    by = await call.store.api_keys.name_of(call.key_id)
    return Pause(by, values["pausedUntil"], values["pauseNote"])


async def no_fields(request: HttpRequest, call: Call) -> bytes:
    """A body that may be empty, or an object without members. Raises InvalidRequest."""
    data, findings = await _body(request, call), Findings()
    _NOTHING.members(data or b"{}", findings)
    findings.refuse_if_any()
    return data


def cleared(waiting: int) -> str:
    """The sentence in the answer about a cleared lane."""
    if not waiting:
        return "Cleared; nothing waits in it"
    go = "schedule goes" if waiting == 1 else "schedules go"
    return f"Cleared; {waiting:,} waiting {go} on without limits"


def _named(lane: str) -> str:
    """Raises InvalidRequest."""
    try:
        return lane_filter(lane)
    except ValueError as error:
        raise invalid([FieldError("lane", str(error))]) from None


def _refuse_misfits(values: dict[str, Any], given: dict[str, Any]) -> None:
    if found := misfits(values, given):
        raise invalid(found)


async def _body(request: HttpRequest, call: Call) -> bytes:
    return await read_body(request.scope, request.receive, call.service.settings.max_body_bytes)


def _now_ms(call: Call) -> int:
    return call.store.clock.now_ms()


def _lane_answer(lane: Lane) -> JsonResponse:
    return JsonResponse(200, LANE.of(lane), tag(lane.settings.etag))


async def _changed_lane(
    call: Call,
    name: str,
    change: Callable[[LaneSettings], LaneSettings],
    wanted: Precondition,
    calm_until_ms: int | UnsetType | None = UNSET,
) -> JsonResponse:
    who = await call.who()
    lane = await call.store.lanes.change(
        call.account_id, name, change, wanted, calm_until_ms=calm_until_ms, who=who
    )
    return _lane_answer(lane)


async def _changed_account(
    call: Call, change: Callable[[AccountSettings], AccountSettings], wanted: Precondition
) -> JsonResponse:
    settings = await call.store.pauses.change(call.account_id, change, wanted, who=await call.who())
    held = await call.store.accounts.holdings(call.account_id)
    return JsonResponse(200, _shown(call, settings, held), tag(settings.etag))


def _shown(call: Call, account: AccountSettings, held: Holdings) -> Any:
    plan, settings = held.account.plan, call.service.settings
    limits = (settings.rate_limits.get(plan), settings.stored_bytes.get(plan))
    return ACCOUNT.of(ShownAccount(account, held, *limits))


HANDLERS = [
    list_lanes,
    get_lane,
    set_lane,
    change_lane,
    pause_lane,
    resume_lane,
    clear_lane,
    get_account,
    change_account,
    pause_account,
    resume_account,
]
