"""Which schedules a call for many means, and the bodies of the requests that it takes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from postdate.errors import strange_answer

T = TypeVar("T")

_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class Chosen:
    """Those of a list that match, where no ids are given."""

    status: str
    url: str | None
    from_: str | None
    to: str | None
    limit: int | None

    def bodies(self, schedule_ids: Iterable[str] | None) -> Bodies:
        """Raises ValueError for ids beside a filter, and for none."""
        if schedule_ids is None:
            return _Matching(self)
        if (self.url, self.from_, self.to, self.limit) != (None, None, None, None):
            raise ValueError("Give either ids or what to choose by, not both.")
        ids = [schedule_ids] if isinstance(schedule_ids, str) else list(schedule_ids)
        if not ids:
            raise ValueError("Give at least one id; without any argument all that match are meant.")
        return _Named(ids)


class Bodies:
    """One body after the other, as what came of the one before allows."""

    calls = 0

    def next(self) -> dict[str, Any] | None:
        """The next body; None if there is no more to ask."""
        body = self._next()
        self.calls += body is not None
        return body

    def answered(self, count: int, cursor: str | None) -> None:
        """So many were told, and the list goes on there. Raises PostdateError if it cannot be."""

    def results(self, told: Sequence[T]) -> tuple[T, ...]:
        """All that was told, for the caller."""
        return tuple(told)

    def _next(self) -> dict[str, Any] | None:
        raise NotImplementedError


class _Named(Bodies):
    """An id that is given twice is asked for once, and has one result twice."""

    def __init__(self, ids: Sequence[str]) -> None:
        self._given = ids
        self._left = self._ids = list(dict.fromkeys(ids))
        self._asked = 0

    def _next(self) -> dict[str, Any] | None:
        ids, self._left = self._left[:_AT_ONCE], self._left[_AT_ONCE:]
        self._asked = len(ids)
        return {"ids": ids} if ids else None

    def answered(self, count: int, cursor: str | None) -> None:
        if count != self._asked:
            raise strange_answer(count)

    def results(self, told: Sequence[T]) -> tuple[T, ...]:
        found = dict(zip(self._ids, told, strict=True))
        return tuple(found[schedule_id] for schedule_id in self._given)


class _Matching(Bodies):
    def __init__(self, chosen: Chosen) -> None:
        fields = {"targetUrl": chosen.url, "from": chosen.from_, "to": chosen.to}
        self._filter = {name: value for name, value in fields.items() if value is not None}
        self._filter["status"] = chosen.status
        self._left = chosen.limit
        self._cursor: str | None = None
        self._over = False

    def _next(self) -> dict[str, Any] | None:
        if self._over or self._left == 0:
            return None
        limit = _AT_ONCE if self._left is None else min(self._left, _AT_ONCE)
        body = {**self._filter, "limit": limit}
        return body if self._cursor is None else {**body, "cursor": self._cursor}

    def answered(self, count: int, cursor: str | None) -> None:
        self._cursor, self._over = cursor, cursor is None
        if self._left is not None:
            self._left = max(0, self._left - count)
