"""Cancels many requests, reschedules them, or runs them again, in one confirmed step."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import NamedTuple

from litestar import post

from api.dashboard.answer import Raw
from api.dashboard.csrf import ONCE, Form, once_of, written
from api.dashboard.render import page
from api.dashboard.requests.entry import new_time, utc_text
from api.dashboard.requests.filters import Filter, read_filter
from api.dashboard.requests.listing import searched
from api.dashboard.session import Viewer, redirect_saying, zone_of
from api.findings import invalid
from api.payload import AS_IT_WAS
from api.recurring_times import follow
from api.service import HttpRequest, service_of
from scheduler.durations import parse_duration
from scheduler.errors import Conflict, Damaged, FieldError, InvalidRequest, NotFound
from scheduler.ids import is_schedule_id
from scheduler.models import LogEntry, LogStatus, Request, Schedule
from scheduler.store import Store
from scheduler.store.log.logs import LogQuery
from scheduler.store.verdict import SENTENCES, Verdict
from scheduler.times import format_iso8601

MOST = 1000
_SHOWN = 8
_AT_ONCE = 16
# How long "all that match" is searched for, and how many bytes one step may replay.
_PATIENCE_S = 5.0
_MOST_REPLAYED_BYTES = 32 * 1024 * 1024


class Portion(NamedTuple):
    """Some of the schedules to act on, and the cursor of the next portion. `oldest_ms`: when the
    first of them ended or is due, where that is known."""

    ids: list[str]
    rest: str | None = None
    oldest_ms: int | None = None


class Done(NamedTuple):
    """The number of those that it was done to, and of the others by reason."""

    number: int
    refused: Counter[str]

    def after(self, number: int, refused: int) -> Done:
        """With those of the portions before this one."""
        earlier = Counter({"it could not be done": refused}) if refused else Counter()
        return Done(self.number + number, self.refused + earlier)

    def words(self, done: str) -> str:
        text = f"{self.number:,} {done}."
        for reason, count in self.refused.most_common():
            text += f" {count:,} not: {reason.rstrip('.').lower()}."
        return text


class Action(NamedTuple):
    """`words` ask for it, `done` follows the number of those that it was done to. `act` raises
    InvalidRequest for a bad field."""

    words: str
    done: str
    act: Callable[[HttpRequest, Viewer, Form, Sequence[str]], Awaitable[Done]]


@post("/requests/bulk")
async def bulk(request: HttpRequest) -> Raw:
    """Asks whether it is meant, with what it would be done to; confirmed, does it to just those.
    A form that is sent twice does it once."""
    viewer, form = await written(request)
    store = service_of(request).store
    wanted, faults = read_filter(form, zone_of(request), store.clock.now_ms())
    if faults:  # without its bad parts it would mean more than was asked for
        raise invalid([FieldError(name, fault) for name, fault in faults.items()])
    name = form.get("action", "")
    action = _ACTIONS.get(name)
    if action is None:
        raise invalid([FieldError("action", "There is no such action.")])
    if not form.get("confirmed"):
        portion = await _selected(store, viewer, form, wanted, form.get("rest"))
        return await _ask(request, viewer, wanted, portion, form)
    ids, rest = _named(form), form.get("rest") or None
    try:
        done = await action.act(request, viewer, form, ids) if ids else Done(0, Counter())
    except InvalidRequest as refusal:
        fault = " ".join(each.message for each in refusal.details)
        return await _ask(request, viewer, wanted, Portion(ids, rest), form, fault=fault)
    done = done.after(_count(form, "done"), _count(form, "refused"))
    if rest:
        there_ms = _there_ms(request, form) if name == "move" else None
        portion = await _selected(store, viewer, form, wanted, rest, there_ms)
        if portion.ids or portion.rest:
            return await _ask(request, viewer, wanted, portion, form, done=done)
    # Requests that were run again would have left the list; there they are grey, each beside
    # its replay.
    there = wanted.address(replayed=None)
    return await redirect_saying(request, viewer, done.words(action.done), there)


def _there_ms(request: HttpRequest, form: Form) -> int | None:
    """The one time that all are moved to; None if there is none."""
    try:
        return None if form.get("shift", "").strip() else zone_of(request).moment(form["at"])
    except (KeyError, ValueError, OverflowError):
        return None


def _count(form: Form, name: str) -> int:
    """A sum that the form carries from one portion to the next: it is shown, and no more."""
    text = form.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def _named(form: Form) -> list[str]:
    return [each for each in dict.fromkeys(form.getall("id", [])) if is_schedule_id(each)][:MOST]


async def _selected(
    store: Store,
    viewer: Viewer,
    form: Form,
    wanted: Filter,
    rest: str | None,
    there_ms: int | None = None,
) -> Portion:
    """The ids that were chosen, or the next of all that match, but for those that are there."""
    if form.get("scope") != "matching":
        return Portion(_named(form))
    loop = asyncio.get_running_loop()
    until_s = loop.time() + _PATIENCE_S
    query = _matching(wanted, form["action"], rest or None, store.clock.now_ms())
    found: list[LogEntry] = []
    while len(found) < MOST and loop.time() < until_s:
        query = query._replace(limit=MOST - len(found))
        rows = await searched(store, viewer.account_id, query)
        found += [each for each in rows.entries if each.at_ms != there_ms]
        if rows.next is None:
            return _portion(found, None)
        query = query._replace(cursor=rows.next)
        if rows.wait_ms:
            await asyncio.sleep(min(rows.wait_ms / 1000, until_s - loop.time()))
    return _portion(found, query.cursor)


def _portion(found: Sequence[LogEntry], rest: str | None) -> Portion:
    # No schedule was made for a time that a recurring one missed.
    ids = list(dict.fromkeys(each.schedule_id for each in found if each.schedule_id))
    return Portion(ids, rest, min((each.at_ms for each in found), default=None))


def _matching(wanted: Filter, action: str, cursor: str | None, now_ms: int) -> LogQuery:
    """All that match and that this can be done to. The latest come first, and this makes and moves
    requests to later times, so that none is met twice."""
    query = wanted._replace(cursor=cursor, back=False).query(now_ms)._replace(descending=True)
    if action != "again":
        return query._replace(statuses=query.statuses or (LogStatus.SCHEDULED,))
    to_ms = now_ms + 1 if query.to_ms is None else min(query.to_ms, now_ms + 1)
    return query._replace(to_ms=to_ms)


async def _ask(
    request: HttpRequest,
    viewer: Viewer,
    wanted: Filter,
    portion: Portion,
    form: Form,
    *,
    done: Done | None = None,
    fault: str | None = None,
) -> Raw:
    """Whether it is meant; once that was said, the rest goes on by itself, a portion at a time."""
    store, ids = service_of(request).store, portion.ids
    some = await asyncio.gather(*(_read(store, viewer.account_id, each) for each in ids[:_SHOWN]))
    return page(
        request,
        "requests/bulk.html",
        status=400 if fault else 200,
        wanted=wanted,
        given=form,
        action=_ACTIONS[form["action"]],
        ids=ids,
        some=[each for each in some if each is not None],
        rest=portion.rest,
        oldest_ms=portion.oldest_ms,
        now_ms=store.clock.now_ms(),
        done=done,
        fault=fault,
    )


async def _read(store: Store, account_id: str, schedule_id: str) -> Schedule | None:
    try:
        return await store.schedules.get(account_id, schedule_id)
    except (NotFound, Damaged):
        return None


async def _cancel(request: HttpRequest, viewer: Viewer, form: Form, ids: Sequence[str]) -> Done:
    store = service_of(request).store
    done = await store.canceller.by_id(viewer.account_id, ids)
    await follow(store, viewer.account_id, done.each)
    refused = Counter(str(each.refusal) for each in done.each if each.refusal is not None)
    return Done(len(done.each) - refused.total(), refused)


async def _run_again(request: HttpRequest, viewer: Viewer, form: Form, ids: Sequence[str]) -> Done:
    store = service_of(request).store
    now_ms = store.clock.now_ms()
    done = await store.schedules.replay_all(
        viewer.account_id,
        ids,
        partial(AS_IT_WAS.of_replay, now_ms=now_ms),
        once_of(form, " ".join(ids)),
        now_ms,
        most_bytes=_MOST_REPLAYED_BYTES,
    )
    refused = [each.verdict for each in done.each if each.verdict is not Verdict.DONE]
    return Done(len(done.each) - len(refused), Counter(SENTENCES[each] for each in refused))


async def _move(request: HttpRequest, viewer: Viewer, form: Form, ids: Sequence[str]) -> Done:
    """To one time, or all of them by so much later. Raises InvalidRequest for a bad time."""
    shift_ms = _shift_ms(form.get("shift", "").strip())
    at = utc_text(request, form.get("at", "")) if shift_ms is None else None
    if at is not None:
        new_time(request, at)  # a bad one is refused before anything is moved
    schedules, once = service_of(request).store.schedules, form.get("once", "")
    gate = asyncio.Semaphore(_AT_ONCE)

    def changed(before: Request) -> Request:
        text = at or format_iso8601(before.trigger_at_ms + (shift_ms or 0))
        return new_time(request, text).of(before)

    async def move(schedule_id: str) -> str:
        """Why it was not moved, if so. A form that is sent twice moves it by so much later once."""
        operation = f"{once}:{schedule_id}" if ONCE.fullmatch(once) else None
        async with gate:
            try:
                await schedules.change(viewer.account_id, schedule_id, changed, operation)
            except (NotFound, Conflict, Damaged) as why:
                return str(why)
        return ""

    refused = Counter(filter(None, await asyncio.gather(*(move(each) for each in ids))))
    return Done(len(ids) - refused.total(), refused)


def _shift_ms(text: str) -> int | None:
    if not text:
        return None
    try:
        return parse_duration(text)
    except ValueError:
        raise invalid([FieldError("shift", "By how much: a duration such as 15m or 2h.")]) from None


_ACTIONS = {
    "cancel": Action("Cancel", "cancelled, their credits came back", _cancel),
    "again": Action("Run again", "run again, for a credit each", _run_again),
    "move": Action("Reschedule", "rescheduled", _move),
}
HANDLERS = [bulk]
