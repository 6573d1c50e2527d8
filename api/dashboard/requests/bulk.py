"""Asks whether many requests are to be cancelled, rescheduled, moved to a lane or run again, or
their callbacks sent again, and begins it as a bulk action, which goes on by itself."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from typing import NamedTuple

from litestar import post
from litestar.params import FromPath

from api.bulk_actions.found import next_occurrences
from api.dashboard.answer import Raw, redirect
from api.dashboard.lanes import known_lanes, lane_given
from api.dashboard.render import page
from api.dashboard.requests.bulk_strip import ASKS, left_to_rules, title_of
from api.dashboard.requests.filters import Filter, read_filter
from api.dashboard.requests.listing import searched
from api.dashboard.viewer.csrf import ONCE, Form, written
from api.dashboard.viewer.session import ROOT, Viewer, our_page, zone_of
from api.schema.findings import invalid
from api.schema.payload import in_lane, moved_to
from api.service import HttpRequest, service_of
from scheduler.durations import parse_duration
from scheduler.errors import Damaged, FieldError, InvalidRequest, NotFound
from scheduler.events import Kind as EventKind
from scheduler.ids import is_schedule_id, new_operation
from scheduler.models import LogEntry, LogStatus, Schedule
from scheduler.store import Store
from scheduler.store.bulk.bulks import MOST_BULKS
from scheduler.store.bulk.records import Asked, Kind, packed, packed_ids
from scheduler.store.log.logs import LogQuery

# A form names so many at most; where more match, it names the filter.
MOST = 1000
_SHOWN = 8
# How long "all that match" is searched for.
_PATIENCE_S = 5.0
# In the place of an API key's name.
_BY = "dashboard"
_LONGEST_DIGITS = 15


class Portion(NamedTuple):
    """Some of the schedules to act on, and whether there are more. `oldest_ms`: when the first of
    them ended or is due, where that is known. So many were `left` to their recurring schedules."""

    ids: list[str]
    is_part: bool = False
    oldest_ms: int | None = None
    left: int = 0


@post("/requests/bulk")
async def bulk(request: HttpRequest) -> Raw:
    """Asks whether it is meant, with what it would be done to; confirmed, begins to do it to just
    those. A form that is sent twice does it once."""
    viewer, form = await written(request)
    service, zone = service_of(request), zone_of(request)
    store = service.store
    wanted, faults = read_filter(form, zone, store.clock.now_ms())
    if faults:  # without its bad parts it would mean more than was asked for
        raise invalid([FieldError(name, fault) for name, fault in faults.items()])
    if form.get("action") not in set(Kind):
        raise invalid([FieldError("action", "There is no such action.")])
    if wanted.bulk and form.get("scope") == "matching":
        raise invalid([FieldError("scope", "Of a bulk action's replays, select those to act on.")])
    kind = Kind(form["action"])
    if kind is Kind.CALLBACK and form.get("scope") == "matching" and not wanted.callback:
        raise invalid([FieldError("callback", "List callbacks by how they stand first.")])
    if not form.get("confirmed"):
        return await _ask(
            request, viewer, wanted, await _selected(store, viewer, form, wanted), form
        )
    fault = ""
    try:
        asked = _asked(request, form, kind, wanted)
        action_id = _id_of(form, asked)
        if asked.number != 0 and not await store.bulks.add(viewer.account_id, action_id, asked):
            fault = f"{MOST_BULKS} bulk actions are under way; wait for one, or stop it."
    except InvalidRequest as refusal:
        fault = " ".join(each.message for each in refusal.details)
    if fault:
        again = Portion(_named(form), bool(form.get("until")))
        return await _ask(request, viewer, wanted, again, form, fault=fault)
    if asked.number != 0:
        about = f"{title_of(asked)}: {_number_of(asked)}"
        await store.events.note(
            viewer.account_id, EventKind.BULK, who=viewer.who, about=about, operation=action_id
        )
    await service.bulk_runner.begin(viewer.account_id)
    # Requests that were run again would have left the list; there they are grey, each beside
    # its replay.
    return redirect(request, wanted.address(replayed=None))


@post("/requests/bulk/{action_id:str}/stop")
async def stop(request: HttpRequest, action_id: FromPath[str]) -> Raw:
    """The step that was begun is finished."""
    viewer, form = await written(request)
    service = service_of(request)
    await service.store.bulks.stop(viewer.account_id, _known(action_id))
    service.bulk_runner.wake()
    return redirect(request, our_page(form.get("back", "")) or ROOT)


@post("/requests/bulk/{action_id:str}/close")
async def close(request: HttpRequest, action_id: FromPath[str]) -> Raw:
    viewer, form = await written(request)
    await service_of(request).store.bulks.close(viewer.account_id, _known(action_id))
    return redirect(request, our_page(form.get("back", "")) or ROOT)


def _known(action_id: str) -> str:
    if ONCE.fullmatch(action_id) is None:
        raise NotFound("There is no such bulk action")
    return action_id


def _asked(request: HttpRequest, form: Form, kind: Kind, wanted: Filter) -> Asked:
    """Raises InvalidRequest for a bad time or lane."""
    store = service_of(request).store
    now_ms, until = store.clock.now_ms(), form.get("until", "")[:_LONGEST_DIGITS]
    is_search = until.isascii() and until.isdigit() and form.get("scope") == "matching"
    # What came since the question was asked is not of its answer.
    until_ms = min(int(until), now_ms) if is_search else now_ms
    shift_ms, to_ms = _new_time(request, form, now_ms) if kind is Kind.MOVE else (None, None)
    lane = None
    if kind is Kind.LANE:
        lane = lane_given(form)
        in_lane(lane, service_of(request).rules, now_ms)
    return Asked(
        kind=kind,
        by=_BY,
        at_ms=now_ms,
        schedules=None if is_search else packed_ids(_named(form)),
        query=_values(_matching(wanted, kind, until_ms)) if is_search else {},
        until_ms=until_ms,
        pairs=wanted.pairs() if form.get("scope") == "matching" else {},
        shift_ms=shift_ms,
        to_ms=to_ms,
        lane=lane,
    )


def _number_of(asked: Asked) -> str:
    if asked.number is None:
        return "all that match"
    return "1 request" if asked.number == 1 else f"{asked.number:,} requests"


def _id_of(form: Form, asked: Asked) -> str:
    """The same for a form that is sent twice; filled in differently it is another action."""
    once = form.get("once", "")
    if ONCE.fullmatch(once) is None:
        once = new_operation()
    what = packed(Asked(asked.kind, once, 0, asked.schedules, {}, 0, asked.pairs))
    what += f"{asked.shift_ms} {asked.to_ms} {asked.lane} {form.get('until')}".encode()
    return base64.urlsafe_b64encode(hashlib.sha256(what).digest()[:12]).decode()


def _new_time(request: HttpRequest, form: Form, now_ms: int) -> tuple[int | None, int | None]:
    """By how much later (ms), or the one time (ms) that all are moved to."""
    shift, rules = form.get("shift", "").strip(), service_of(request).rules
    field = "shift" if shift else "at"
    try:
        if shift:
            shift_ms = parse_duration(shift)
            moved_to(now_ms + shift_ms, rules, now_ms)
            return shift_ms, None
        to_ms = zone_of(request).moment(form.get("at", ""))
        moved_to(to_ms, rules, now_ms)
    except (ValueError, OverflowError):
        message = (
            "By how much: a duration such as 15m or 2h." if shift else "A time, or a duration."
        )
        raise invalid([FieldError(field, message)]) from None
    return None, to_ms


def _named(form: Form) -> list[str]:
    """Raises InvalidRequest for more than a form may name: none is left out in silence."""
    named = [each for each in dict.fromkeys(form.getall("id", [])) if is_schedule_id(each)]
    if len(named) > MOST:
        raise invalid([FieldError("id", f"Tick at most {MOST:,}, or choose all that match.")])
    return named


async def _selected(store: Store, viewer: Viewer, form: Form, wanted: Filter) -> Portion:
    """The ids that were chosen, or the first of all that match, without the next occurrences of
    recurring schedules, unless the filter names one."""
    if form.get("scope") != "matching":
        return Portion(_named(form))
    found, is_part = await _matches(store, viewer, Kind(form["action"]), wanted)
    left = set[str]()
    if Kind(form["action"]).is_of_waiting and "recurring" not in wanted.named:
        left = await next_occurrences(store.server, viewer.account_id, found)
    # No schedule was made for a time that a recurring one missed.
    found = [each for each in found if each.schedule_id and each.schedule_id not in left]
    ids = list(dict.fromkeys(each.schedule_id for each in found))
    oldest_ms = min((each.at_ms for each in found), default=None)
    return Portion(ids, is_part, oldest_ms, len(left))


async def _matches(
    store: Store, viewer: Viewer, kind: Kind, wanted: Filter
) -> tuple[list[LogEntry], bool]:
    """The first of all that match, and whether there are more."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + _PATIENCE_S
    query = _matching(wanted, kind, store.clock.now_ms())
    found: list[LogEntry] = []
    while len(found) < MOST and loop.time() < until_s:
        rows = await searched(store, viewer.account_id, query._replace(limit=MOST - len(found)))
        found += rows.entries
        if rows.next is None:
            return found, False
        query = query._replace(cursor=rows.next)
        if rows.wait_ms:
            await asyncio.sleep(min(rows.wait_ms / 1000, until_s - loop.time()))
    return found, True


def _matching(wanted: Filter, kind: Kind, now_ms: int) -> LogQuery:
    """All that match and that this can be done to, the latest first."""
    query = wanted._replace(cursor=None, back=False).query(now_ms)._replace(descending=True)
    if kind.is_of_waiting:
        return query._replace(statuses=query.statuses or (LogStatus.SCHEDULED,))
    to_ms = now_ms + 1 if query.to_ms is None else min(query.to_ms, now_ms + 1)
    return query._replace(to_ms=to_ms)


def _values(query: LogQuery) -> dict[str, object]:
    """Those that differ from a query for everything, but for its page."""
    plain, page_of_it = LogQuery()._asdict(), ("limit", "cursor")
    values = query._asdict().items()
    return {name: each for name, each in values if each != plain[name] and name not in page_of_it}


async def _ask(
    request: HttpRequest,
    viewer: Viewer,
    wanted: Filter,
    portion: Portion,
    form: Form,
    *,
    fault: str = "",
) -> Raw:
    store, ids, kind = service_of(request).store, portion.ids, Kind(form["action"])
    lanes = await known_lanes(store, viewer.account_id) if kind is Kind.LANE else []
    some = await asyncio.gather(*(_read(store, viewer.account_id, each) for each in ids[:_SHOWN]))
    return page(
        request,
        "requests/bulk.html",
        status=400 if fault else 200,
        wanted=wanted,
        given=form,
        asks=ASKS[kind],
        lanes_known=lanes,
        ids=ids,
        some=[each for each in some if each is not None],
        is_part=portion.is_part,
        oldest_ms=portion.oldest_ms,
        left=left_to_rules(portion.left) if portion.left else "",
        now_ms=store.clock.now_ms(),
        fault=fault,
    )


async def _read(store: Store, account_id: str, schedule_id: str) -> Schedule | None:
    try:
        return await store.schedules.get(account_id, schedule_id)
    except (NotFound, Damaged):
        return None


HANDLERS = [bulk, stop, close]
