"""Lists of schedules: which are asked for, and a page of them. Pure."""

from __future__ import annotations

from typing import NamedTuple

from scheduler.models import Schedule
from scheduler.store.queries.timeline import Found, Span, encode_cursor, merge


class Selection(NamedTuple):
    """Which schedules of a list are meant: those of this very URL (None: any), whose moment is in
    `[from_ms, to_ms)`, at most so many, behind a cursor."""

    url: str | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    limit: int = 50
    cursor: str | None = None

    @property
    def is_search(self) -> bool:
        """Whether the list is looked through for those that it names."""
        return self.url is not None

    def wants(self, schedule: Schedule) -> bool:
        return self.url is None or schedule.request.url == self.url


class SchedulePage(NamedTuple):
    """`next_cursor` is None at the end."""

    schedules: list[Schedule]
    next_cursor: str | None

    @classmethod
    def of(cls, found: Found[Schedule], limit: int, stretch: Span) -> SchedulePage:
        page = merge([found], limit, stretch)
        return cls(page.entries, encode_cursor(page.next) if page.next else None)
