"""The last outcomes of recurring schedules, and the occurrences beside one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from api.dashboard.recurring.texts import name_of
from scheduler.errors import NotFound, TooManyScans, Unreadable
from scheduler.models import LogEntry, LogStatus
from scheduler.recurrence.recurring import Rule
from scheduler.store import Store
from scheduler.store.log.logs import LogPage, LogQuery

MOST = 20
# How an occurrence ended; attempts that were repeated are left out.
_ENDS = (LogStatus.COMPLETED, LogStatus.FAILED, LogStatus.CANCELLED, LogStatus.SKIPPED)
_RAN = (LogStatus.COMPLETED, LogStatus.FAILED, LogStatus.CANCELLED)


class Outcomes(NamedTuple):
    """The last ones, the latest last, as they are drawn."""

    entries: list[LogEntry]

    @property
    def words(self) -> str:
        """`The last 20: 18 completed, 2 failed; the latest completed`."""
        if not self.entries:
            return "No outcome yet"
        counts = Counter(each.status.value for each in self.entries)
        parts = ", ".join(f"{count} {status}" for status, count in counts.most_common())
        return f"The last {len(self.entries)}: {parts}; the latest {self.entries[-1].status.value}"


class Beside(NamedTuple):
    """The occurrences beside one. `rule` is None if it is deleted, or `damaged`; `waiting` is the
    id of the next one, where it has not ended. `looked` is False if the account searches too much
    to look for them now."""

    recurring_id: str
    rule: Rule | None = None
    damaged: bool = False
    before: LogEntry | None = None
    after: LogEntry | None = None
    waiting: str | None = None
    looked: bool = True

    @property
    def title(self) -> str:
        return name_of(self.rule) if self.rule else self.recurring_id


async def outcomes_of(store: Store, account_id: str, recurring_id: str) -> Outcomes | None:
    """None if the account searches too much to look for them now."""
    query = LogQuery(_ENDS, limit=MOST, recurring_id=recurring_id)
    try:
        page = await store.logs.page(account_id, query)
    except TooManyScans:
        return None
    return Outcomes(page.entries[::-1])


async def all_outcomes(
    store: Store, account_id: str, ids: Iterable[str]
) -> dict[str, Outcomes | None]:
    """Of each rule, one after the other: an account's searches wait for each other anyway."""
    return {each: await outcomes_of(store, account_id, each) for each in ids}


async def occurrences_beside(
    store: Store, account_id: str, recurring_id: str, schedule_id: str, ended_ms: int | None
) -> Beside:
    """The occurrences before and after one that ended at a moment (None: it has not). Three reads
    at most."""
    found = Beside(recurring_id)
    try:
        found = found._replace(rule=await store.recurring.read(account_id, recurring_id))
    except NotFound:
        pass
    except Unreadable:
        found = found._replace(damaged=True)
    earlier, later = (
        LogQuery(_RAN, limit=2, descending=down, recurring_id=recurring_id)
        for down in (True, False)
    )
    after = None
    try:
        if ended_ms is not None:
            # Its own entry is the first of both.
            earlier, later = earlier._replace(to_ms=ended_ms + 1), later._replace(from_ms=ended_ms)
            after = _other(await store.logs.page(account_id, later), schedule_id)
        before = _other(await store.logs.page(account_id, earlier), schedule_id)
    except TooManyScans:
        return found._replace(looked=False)
    waiting = found.rule.schedule_id if found.rule and after is None else None
    waiting = None if waiting == schedule_id else waiting
    return found._replace(before=before, after=after, waiting=waiting)


def _other(page: LogPage, schedule_id: str) -> LogEntry | None:
    return next((each for each in page.entries if each.schedule_id != schedule_id), None)
