"""Failures by what they have in common: the host, and what it answered."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from api.dashboard.requests.filters import Filter
from api.dashboard.session import Viewer
from api.dashboard.shared import shared_by
from api.service import HttpRequest, service_of
from scheduler.models import LogEntry, LogStatus
from scheduler.store import Store
from scheduler.store.log.logs import LogQuery
from scheduler.targets import split_url

_PAGES, _PER_PAGE = 5, 100
_MOST_GROUPS = 8
_GOOD_FOR_S = 4.0


class Group(NamedTuple):
    """`answer` is its error message; `at_ms` when it failed so last."""

    host: str
    answer: str
    status_code: int
    fires: int
    at_ms: int
    address: str


class Failures(NamedTuple):
    """The largest groups first; of the failures `looked_at`, `others` are in smaller groups. The
    period has no more than these if `is_all`."""

    groups: list[Group]
    looked_at: int
    others: int
    is_all: bool


async def failures_of(request: HttpRequest, viewer: Viewer, from_ms: int, to_ms: int) -> Failures:
    """The latest failures of a period. The address of a group leads to its requests."""
    store, account_id = service_of(request).store, viewer.account_id
    period = (from_ms // 60_000, to_ms // 60_000)
    return await shared_by(request).get(
        (account_id, "failures", period),
        _GOOD_FOR_S,
        lambda: _read(store, account_id, from_ms, to_ms),
    )


async def _read(store: Store, account_id: str, from_ms: int, to_ms: int) -> Failures:
    query = LogQuery(status=LogStatus.FAILED, from_ms=from_ms, to_ms=to_ms, limit=_PER_PAGE)
    entries: list[LogEntry] = []
    for _ in range(_PAGES):
        page = await store.logs.page(account_id, query)
        entries += page.entries
        if page.next_cursor is None:
            return grouped(entries, is_all=True)
        query = query._replace(cursor=page.next_cursor)
    return grouped(entries, is_all=False)


def grouped(entries: Iterable[LogEntry], *, is_all: bool) -> Failures:
    """Entries come latest first."""
    found: dict[tuple[str, str, int], list[int]] = {}
    for each in entries:
        key = (split_url(each.url)[0], each.error_message, each.status_code)
        found.setdefault(key, []).append(each.at_ms)
    groups = []
    for (host, answer, code), moments in found.items():
        alike = Filter(status=LogStatus.FAILED, q=host, answer=answer or str(code))
        groups.append(Group(host, answer, code, len(moments), moments[0], alike.address()))
    groups.sort(key=lambda group: (-group.fires, -group.at_ms))
    total = sum(group.fires for group in groups)
    others = sum(group.fires for group in groups[_MOST_GROUPS:])
    return Failures(groups[:_MOST_GROUPS], total, others, is_all)
