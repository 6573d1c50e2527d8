"""What can be done about many requests in one confirmed step."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from litestar import post

from api.dashboard.answer import Raw, redirect
from api.dashboard.csrf import Form, written
from api.dashboard.render import page
from api.dashboard.requests.actions import again, utc_text
from api.dashboard.requests.filters import Filter, read_filter
from api.dashboard.requests.listing import searched
from api.dashboard.session import Viewer, zone_of
from api.findings import invalid
from api.payload import parse_change
from api.service import HttpRequest, service_of
from scheduler.durations import parse_duration
from scheduler.errors import Conflict, FieldError, InvalidRequest, NotFound
from scheduler.ids import is_schedule_id
from scheduler.models import Idempotency, Request, Schedule, Status
from scheduler.store import Store
from scheduler.store.schedules.replays import SENTENCES, Verdict
from scheduler.times import format_iso8601

MOST = 1000
_SHOWN = 8
_AT_ONCE = 16
# How long "all that match" is looked for, and how large what is replayed in one step may be.
_PATIENCE_S = 5.0
_MOST_REPLAYED_BYTES = 32 * 1024 * 1024

WORDS = {"cancel": "Cancel", "again": "Run again", "move": "Reschedule"}


class Done(NamedTuple):
    """How many it was done to; of the others, how many for each reason."""

    number: int
    refused: Counter[str]

    def words(self, done: str) -> str:
        told = f"{self.number:,} {done}."
        for reason, count in self.refused.most_common():
            told += f" {count:,} not: {reason.rstrip('.').lower()}."
        return told


@post("/requests/bulk", include_in_schema=False)
async def bulk(request: HttpRequest) -> Raw:
    """Asks whether it is meant, with what it would be done to; confirmed, does it to just those.
    A form that is sent twice does it once."""
    viewer, form = await written(request)
    store = service_of(request).store
    wanted, _ = read_filter(form, zone_of(request), store.clock.now_ms())
    action = form.get("action", "")
    if action not in WORDS:
        raise invalid([FieldError("action", "There is no such action.")])
    if not form.get("confirmed"):
        ids, is_all = await _selected(store, viewer, form, wanted)
        return await _ask(request, viewer, wanted, action, ids, is_all=is_all)
    ids = _named(form)
    try:
        done = await _act(request, viewer, form, action, ids)
    except InvalidRequest as refusal:
        fault = " ".join(each.message for each in refusal.details)
        return await _ask(request, viewer, wanted, action, ids, is_all=True, fault=fault)
    await store.sessions.say(viewer.session, done)
    return redirect(request, wanted.address())


async def _act(
    request: HttpRequest, viewer: Viewer, form: Form, action: str, ids: Sequence[str]
) -> str:
    if action == "cancel":
        return (await _cancel(request, viewer, ids)).words("cancelled, their credits came back")
    if action == "again":
        done = await _run_again(request, viewer, ids, form.get("once", ""))
        return done.words("run again, for a credit each")
    return (await _move(request, viewer, form, ids)).words("rescheduled")


def _named(form: Form) -> list[str]:
    return [each for each in dict.fromkeys(form.all("id")) if is_schedule_id(each)][:MOST]


async def _selected(
    store: Store, viewer: Viewer, form: Form, wanted: Filter
) -> tuple[list[str], bool]:
    """The ids that were chosen, or of all that match, and whether those are all."""
    if form.get("scope") != "matching":
        return _named(form), True
    found: list[str] = []
    loop = asyncio.get_running_loop()
    until_s = loop.time() + _PATIENCE_S
    query = wanted.query(store.clock.now_ms())._replace(limit=MOST)
    while len(found) < MOST and loop.time() < until_s:
        rows = await searched(store, viewer.account_id, query)
        found += [each.schedule_id for each in rows.entries]
        if rows.next is None:
            return list(dict.fromkeys(found))[:MOST], len(found) <= MOST
        query = query._replace(cursor=rows.next)
    return list(dict.fromkeys(found))[:MOST], False


async def _ask(
    request: HttpRequest,
    viewer: Viewer,
    wanted: Filter,
    action: str,
    ids: Sequence[str],
    *,
    is_all: bool,
    fault: str | None = None,
) -> Raw:
    store = service_of(request).store
    some = await asyncio.gather(*(_read(store, viewer.account_id, each) for each in ids[:_SHOWN]))
    return page(
        request,
        viewer,
        "requests/bulk.html",
        status=400 if fault else 200,
        wanted=wanted,
        action=action,
        words=WORDS[action],
        ids=ids,
        some=[each for each in some if each is not None],
        is_all=is_all,
        most=MOST,
        once=secrets.token_urlsafe(12),
        fault=fault,
    )


async def _read(store: Store, account_id: str, schedule_id: str) -> Schedule | None:
    try:
        return await store.schedules.get(account_id, schedule_id)
    except NotFound:
        return None


async def _cancel(request: HttpRequest, viewer: Viewer, ids: Sequence[str]) -> Done:
    """What was cancelled before counts: the answer to the first try may have been lost."""
    done = await service_of(request).store.canceller.by_id(viewer.account_id, ids)
    refusals = [each.refusal for each in done.each if not _is_cancelled(each.refusal)]
    refused = Counter(str(each) for each in refusals)
    return Done(len(done.each) - len(refusals), refused)


def _is_cancelled(refusal: Exception | None) -> bool:
    if refusal is None:
        return True
    return isinstance(refusal, Conflict) and refusal.status is Status.CANCELLED


async def _run_again(request: HttpRequest, viewer: Viewer, ids: Sequence[str], once: str) -> Done:
    store = service_of(request).store
    fingerprint = hashlib.sha256(" ".join(ids).encode()).hexdigest()
    done = await store.replayer.by_id(
        viewer.account_id,
        ids,
        again(store.clock.now_ms()),
        Idempotency(f"dashboard {once}", fingerprint),
        most_bytes=_MOST_REPLAYED_BYTES,
    )
    refused = [each.verdict for each in done.each if each.verdict is not Verdict.REPLAYED]
    return Done(len(done.each) - len(refused), Counter(SENTENCES[each] for each in refused))


async def _move(request: HttpRequest, viewer: Viewer, form: Form, ids: Sequence[str]) -> Done:
    """To one time, or all of them by so much later. Raises InvalidRequest for a bad time."""
    shift_ms = _shift_ms(form.get("shift", "").strip())
    at = utc_text(request, form.get("at", "")) if shift_ms is None else None
    gate, moved = asyncio.Semaphore(_AT_ONCE), 0
    refused: Counter[str] = Counter()

    async def move(schedule_id: str) -> None:
        nonlocal moved
        async with gate:
            try:
                await _move_one(request, viewer, schedule_id, at, shift_ms)
                moved += 1
            except (NotFound, Conflict) as why:
                refused[str(why)] += 1

    if at is not None:
        _judge(request, at)
    await asyncio.gather(*(move(each) for each in ids))
    return Done(moved, refused)


async def _move_one(
    request: HttpRequest, viewer: Viewer, schedule_id: str, at: str | None, shift_ms: int | None
) -> None:
    service = service_of(request)

    def changed(before: Request) -> Request:
        text = at or format_iso8601(before.trigger_at_ms + (shift_ms or 0))
        given = msgspec.json.encode({"triggerAt": text})
        return parse_change(given, service.rules, service.store.clock.now_ms()).of(before)

    await service.store.schedules.change(viewer.account_id, schedule_id, changed)


def _judge(request: HttpRequest, at: str) -> None:
    service = service_of(request)
    given = msgspec.json.encode({"triggerAt": at})
    parse_change(given, service.rules, service.store.clock.now_ms())


def _shift_ms(text: str) -> int | None:
    if not text:
        return None
    try:
        return parse_duration(text)
    except ValueError:
        raise invalid([FieldError("shift", "By how much: a duration such as 15m or 2h.")]) from None


HANDLERS = [bulk]
