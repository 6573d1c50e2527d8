"""The overview: the account's figures, past and coming schedules, and failures by what they have in
common; live. And its credits: the balance, spending, movements by day, and the bytes stored."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from litestar import get

from api.dashboard.answer import Raw
from api.dashboard.attention.account import (
    FAILED_SHARES,
    LATENESS_MS,
    STORED_SHARES,
    Failing,
    Source,
    attention_of,
    backlogs_of,
    lasts_ms,
)
from api.dashboard.attention.needs import NOTHING_STARTS, Attention, level
from api.dashboard.charts import (
    DAY_MS,
    FIRST,
    HOUR_MS,
    WINDOWS,
    Axis,
    Chart,
    Layer,
    stretch_of,
)
from api.dashboard.formats import number, roughly
from api.dashboard.render import page
from api.dashboard.requests.bulk_strip import bulks_of
from api.dashboard.requests.filters import Filter
from api.dashboard.shared import Shared, shared_by
from api.dashboard.timeline import picture_of
from api.dashboard.viewer.session import asks_for_news, signed_in, zone_of
from api.dashboard.zones import UTC
from api.service import HttpRequest, service_of
from scheduler.lane_settings import HeldBy
from scheduler.models import LogEntry, LogStatus
from scheduler.store import Store
from scheduler.store.accounts.accounts import Movements
from scheduler.store.log.logs import LogQuery
from scheduler.target.targets import split_url

_LATEST = 8
_CHOICES = ("1h", "24h", "7d", "30d")
_HEIGHT, _LOW_HEIGHT = 190, 130
_PAGES, _PER_PAGE = 5, 100
_MOST_GROUPS = 8
_DAYS_DRAWN = 30


class Group(NamedTuple):
    """`answer` is its error message; `at_ms` when it failed so last; `wanted` lists just those."""

    host: str
    answer: str
    status_code: int
    fires: int
    at_ms: int
    wanted: Filter


@get("")
async def overview_page(request: HttpRequest) -> Raw:
    """The page, or its news. The tiles show the last hour, whatever period the charts show."""
    viewer = await signed_in(request)
    store, zone, account_id = service_of(request).store, zone_of(request), viewer.account_id
    name = request.query_params.get("range", FIRST)
    chosen = name if name in _CHOICES else FIRST
    now_ms, shared = store.clock.now_ms(), shared_by(request)
    # Waiting entries stand at their triggerAt: up to now the log has executed ones.
    recent, news = LogQuery(limit=_LATEST, to_ms=now_ms + 1), asks_for_news(request)

    async def read_latest() -> tuple[list[LogEntry], dict[str, HeldBy]]:
        entries = (await store.logs.page(account_id, recent)).entries
        return entries, await store.holders.of_entries(account_id, entries)

    hour, picture, (failures, failing), (latest, held) = await asyncio.gather(
        picture_of(request, viewer, stretch_of("1h", now_ms, zone)),
        picture_of(request, viewer, stretch_of(chosen, now_ms, zone)),
        shared.get((account_id, "failures"), 4.0, lambda: _failures(store, account_id, now_ms)),
        shared.get((account_id, "latest"), 1.0, read_latest),
    )
    series, late_ms, pulse = hour.series, hour.lateness_ms(0.99) or 0, hour.pulse
    most_bytes = service_of(request).settings.stored_bytes.get(viewer.account.plan, 0)
    # A page that follows on a press shows what came of it.
    source = Source(
        store, shared if news else Shared(), viewer.account, pulse, failing, late_ms, most_bytes
    )
    attention = await attention_of(source)
    failed_share = series.failed / series.executed if series.executed else 0
    return page(
        request,
        "overview_live.html" if news else "overview.html",
        hour=hour,
        attention=attention,
        latest=latest,
        held=held,
        failed_level=level(failed_share, FAILED_SHARES),
        # A bucket ends at its bound, so a value at the edge is still good.
        lateness_level=level(late_ms - 1, LATENESS_MS),
        pulse=pulse,
        startable=await _startable(source, attention),
        now_ms=pulse.now_ms,
        picture=picture,
        failures=failures,
        bulks=await bulks_of(request, viewer),
        windows=WINDOWS,
        choices=_CHOICES,
        chosen=chosen,
        charts=[partial(each, zone, _LOW_HEIGHT) for each in (picture.lateness, picture.response)],
        activity=partial(picture.activity, zone, _HEIGHT),
        is_new=not (viewer.account.spent or series.executed or latest),
    )


async def _startable(source: Source, attention: Attention) -> int:
    """How many of those that are due within a minute can start in it."""
    pulse = source.pulse
    if any(each.kind in NOTHING_STARTS for each in attention.needs):
        return 0
    if not pulse.soon_in_lanes:
        return pulse.due_soon
    found = await backlogs_of(source.store, source.shared, source.account.account_id)
    return max(0, pulse.due_soon - found.stuck)


async def _failures(store: Store, account_id: str, now_ms: int) -> tuple[list[Group], Failing]:
    """The largest groups of those that were not replayed, each with the address of just those; and
    all of them by what fails."""
    first = LogQuery(
        (LogStatus.FAILED,), from_ms=now_ms - DAY_MS, to_ms=now_ms + 1, limit=_PER_PAGE
    )
    query, from_ms = first, first.from_ms
    found: dict[tuple[str, str, int], list[int]] = {}
    hosts, rules = dict[str, tuple[int, int]](), Counter[str]()
    for _ in range(_PAGES):
        log = await store.logs.page(account_id, query)
        rules.update(each.recurring_id for each in log.entries if each.recurring_id)
        for each in await store.logs.replayable(account_id, log.entries):
            host = split_url(each.url)[0].lower()
            key = (host, each.error_message, each.status_code)
            found.setdefault(key, []).append(each.at_ms)
            if each.at_ms >= now_ms - HOUR_MS:  # the newest comes first
                count, last_ms = hosts.get(host, (0, each.at_ms))
                hosts[host] = (count + 1, last_ms)
        if log.next_cursor is None:
            break
        query = query._replace(cursor=log.next_cursor)
    else:  # earlier ones are not counted
        from_ms = log.entries[-1].at_ms
    every = Filter(LogStatus.FAILED, replayable=True, from_ms=from_ms, to_ms=first.to_ms)
    groups = []
    for (host, answer, code), moments in found.items():
        alike = every._replace(host=host, answer=answer or str(code))
        groups.append(Group(host, answer, code, len(moments), moments[0], alike))
    groups.sort(key=lambda group: (-group.fires, -group.at_ms))
    return groups[:_MOST_GROUPS], Failing(hosts, rules)


@get("/credits")
async def credits_page(request: HttpRequest) -> Raw:
    viewer = await signed_in(request)
    service = service_of(request)
    days, used = await asyncio.gather(
        service.store.accounts.movements(viewer.account_id),
        service.store.accounts.stored_bytes(viewer.account_id),
    )
    now_ms = service.store.clock.now_ms()
    most = service.settings.stored_bytes.get(viewer.account.plan)
    left_ms = lasts_ms(viewer.account.credits, days, now_ms)
    percent = min(100 * used / most, 100) if most else 0
    return page(
        request,
        "credits.html",
        account=viewer.account,
        days=days,
        stored_bytes=used,
        most_bytes=most,
        percent=round(percent, 1),
        stored_level=level(percent / 100, STORED_SHARES),
        spending=spending(days, now_ms),
        lasts=roughly(left_ms) if left_ms else "",
        drawn=drawn(days, now_ms),
        kept_days=service.settings.log_retention_days,
    )


def spending(days: Sequence[Movements], now_ms: int) -> list[int]:
    """Of today, this week and this month, less what came back; a day begins when it does in UTC,
    a week on Monday."""
    today_ms = now_ms // DAY_MS * DAY_MS
    today = UTC.local(now_ms)
    starts = (today_ms, today_ms - today.weekday() * DAY_MS, today_ms - (today.day - 1) * DAY_MS)
    return [sum(d.spent - d.refunded for d in days if d.day_ms >= start) for start in starts]


def drawn(days: Sequence[Movements], now_ms: int) -> Chart:
    axis = Axis(now_ms // DAY_MS * DAY_MS - (_DAYS_DRAWN - 1) * DAY_MS, DAY_MS, _DAYS_DRAWN, UTC)
    spent = {each.day_ms: each.spent for each in days}
    values = [spent.get(axis.from_ms + i * DAY_MS, 0) for i in range(axis.columns)]
    layers = [Layer("spent", "spent", values)]
    return Chart("spent", "Spent by day", _LOW_HEIGHT, axis, layers, number)


HANDLERS = [overview_page, credits_page]
