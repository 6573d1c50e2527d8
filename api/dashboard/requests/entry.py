"""One request: what was asked, how it went, and what can still be done about it."""

from __future__ import annotations

import asyncio
import secrets
from base64 import b64encode
from collections.abc import Mapping
from typing import Any

import msgspec
from litestar import get
from litestar.params import FromPath

from api.dashboard.answer import Raw, is_for_panel
from api.dashboard.indent import indented
from api.dashboard.render import page
from api.dashboard.requests.curl import curl_of
from api.dashboard.requests.filters import Filter, read_filter
from api.dashboard.requests.list import list_page, read_page
from api.dashboard.requests.waterfall import Bar, waterfall
from api.dashboard.session import Viewer, asks_for_news, signed_in, zone_of
from api.masks import masked, masked_url
from api.service import HttpRequest, service_of
from scheduler.errors import NotFound
from scheduler.ids import invocation_id, is_schedule_id
from scheduler.models import BodyKind, LogEntry, LogStatus, Outcome, Request, Schedule
from scheduler.store import Store
from scheduler.targets import split_url


class Entry(LogEntry, frozen=True):
    """A request as far as it is known: its schedule while that is kept, and after that what the log
    has of it."""

    schedule: Schedule | None = None

    @property
    def state(self) -> str:
        """What a page that shows it can see change."""
        word = "executing" if self.executing else self.status.value
        return f"{word}-{self.attempt}"

    @property
    def waits(self) -> bool:
        return self.status is LogStatus.SCHEDULED and not self.executing

    @property
    def has_ended(self) -> bool:
        return self.status is not LogStatus.SCHEDULED

    @property
    def was_executed(self) -> bool:
        return self.status in (LogStatus.COMPLETED, LogStatus.FAILED, LogStatus.RETRYING)

    @property
    def sent_ms(self) -> int | None:
        """Of a later attempt only how late it was is kept."""
        if self.lateness_ms is None or self.attempt > 1:
            return None
        return self.scheduled_at_ms + self.lateness_ms

    @property
    def outcome(self) -> Outcome | None:
        """Of what was executed; of the attempt before the next, if one has failed that is made
        again. The log has less."""
        if self.schedule is None:
            return None
        retry = self.schedule.retry
        return retry.outcome if retry else self.schedule.outcome

    @property
    def waterfall(self) -> list[Bar]:
        return waterfall(self.outcome)

    @property
    def host(self) -> str:
        return split_url(self.url)[0]

    @property
    def invocation_id(self) -> str:
        return invocation_id(self.schedule_id)


def entry_of(schedule: Schedule) -> Entry:
    outcome, request = schedule.outcome, schedule.request
    return Entry(
        schedule_id=schedule.schedule_id,
        created_at_ms=schedule.created_at_ms,
        scheduled_at_ms=schedule.due_at_ms,
        executed_at_ms=schedule.ended_at_ms if outcome else None,
        url=request.url,
        method=request.method,
        status=LogStatus(schedule.status.value),
        status_code=outcome.status_code if outcome else 0,
        response_time_ms=outcome.response_time_ms if outcome else 0,
        error_message=outcome.error_message if outcome else "",
        at_ms=schedule.due_at_ms if schedule.ended_at_ms is None else schedule.ended_at_ms,
        lateness_ms=schedule.lateness_ms,
        attempt=schedule.attempts,
        executing=schedule.executing,
        schedule=schedule,
    )


@get("/requests/{schedule_id:str}")
async def entry_page(request: HttpRequest, schedule_id: FromPath[str]) -> Raw:
    """In the side panel of the list; or, for news of it, as it stands now."""
    viewer = await signed_in(request)
    if not is_schedule_id(schedule_id):
        raise NotFound("There is no such request.")
    return await show(request, viewer, schedule_id)


async def show(
    request: HttpRequest,
    viewer: Viewer,
    schedule_id: str,
    *,
    status: int = 200,
    fault: str | None = None,
) -> Raw:
    """A request as it stands. Raises NotFound where nothing is kept of it any more."""
    store, now_ms = service_of(request).store, service_of(request).store.clock.now_ms()
    reading = _read(store, viewer.account_id, schedule_id, request.query_params)
    if is_for_panel(request) or asks_for_news(request):
        wanted, _ = read_filter(request.query_params, zone_of(request), now_ms)
        entry = await reading
        return _part(request, viewer, entry, wanted, status, fault)
    shown, entry = await asyncio.gather(read_page(request, viewer), reading)
    panel = _values(request, entry, fault)
    return list_page(request, viewer, shown, **panel, status=status)


def _part(
    request: HttpRequest,
    viewer: Viewer,
    entry: Entry,
    wanted: Filter,
    status: int,
    fault: str | None,
) -> Raw:
    """The panel as a whole, where another one was shown; just its facts, where they changed."""
    news = asks_for_news(request)
    same = news and request.query_params.get("was") == entry.state
    values = _values(request, entry, fault)
    name = "requests/facts.html" if same else "requests/panel.html"
    answer = page(request, viewer, name, status=status, wanted=wanted, **values)
    if news and not same:
        answer.headers += [(b"hx-retarget", b"#panel"), (b"hx-reswap", b"innerHTML")]
    elif not news:
        at = str(entry.at_ms) if entry.has_ended else None
        attempt = str(entry.attempt) if entry.status is LogStatus.RETRYING else None
        address = wanted.address(f"/{entry.schedule_id}", at=at, attempt=attempt)
        answer.headers.append((b"hx-push-url", address.encode()))
    return answer


async def _read(store: Store, account_id: str, schedule_id: str, asked: Mapping[str, str]) -> Entry:
    """The schedule as it stands, or what the log has of it once it is not kept; with `attempt`, of
    that attempt, which only the log tells apart from those that came after it."""
    at_ms = _whole(asked.get("at", ""))
    if at_ms is not None and asked.get("attempt"):
        return await _logged(store, account_id, schedule_id, at_ms)
    try:
        return entry_of(await store.schedules.get(account_id, schedule_id))
    except NotFound:
        if at_ms is None:
            raise NotFound(
                "There is no such request, or it ended so long ago that it is not kept."
            ) from None
    return await _logged(store, account_id, schedule_id, at_ms)


async def _logged(store: Store, account_id: str, schedule_id: str, at_ms: int) -> Entry:
    logged = await store.logs.find(account_id, schedule_id, at_ms)
    return Entry(**msgspec.structs.asdict(logged))


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 15 else None


def _values(request: HttpRequest, entry: Entry, fault: str | None) -> dict[str, Any]:
    schedule = entry.schedule
    return {
        "entry": entry,
        "asked": schedule.request if schedule else None,
        "url": masked_url(entry.url),
        "headers": masked(schedule.request.headers) if schedule else {},
        "body": readable(schedule.request) if schedule else None,
        "curl": curl_of(schedule.request) if schedule else None,
        "once": secrets.token_urlsafe(12),
        "fault": fault,
        "now_ms": service_of(request).store.clock.now_ms(),
    }


def readable(request: Request) -> str | None:
    """The body, JSON on many lines; its numbers and spellings stay as they came. Bytes that need
    not be text are shown in base64."""
    if request.body is None:
        return None
    if request.body_kind is BodyKind.BINARY:
        return b64encode(request.body).decode()
    if request.body_kind is BodyKind.TEXT:
        return request.body.decode()
    return indented(request.body)


HANDLERS = [entry_page]
