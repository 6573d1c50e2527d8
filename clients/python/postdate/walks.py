"""What takes several calls: lists, page by page, and many that are cancelled or replayed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, TypeVar

from postdate.calls import Calls, as_json, checked_key
from postdate.chosen import Bodies
from postdate.errors import PostdateError, error_of
from postdate.results import Cancelled, Replayed, read

T = TypeVar("T")

_LONGEST_PAGE = 100


class Walks(Calls):
    """Each goes on until the server has no more to tell, or as much was told as was asked for."""

    async def _cancelled(self, bodies: Bodies) -> AsyncGenerator[Cancelled | PostdateError, None]:
        while (body := bodies.next()) is not None:
            answer = await self._call("POST", "/schedule/cancel", body=as_json(body))
            items, left, cursor = answer.read_as(
                lambda body: (body["schedules"], body["creditsRemaining"], body["nextCursor"])
            )
            bodies.answered(len(items), cursor)
            for item in items:
                if "code" in item:
                    yield error_of(item["code"], item, schedule_id=item["scheduleId"])
                else:
                    yield read(Cancelled, {**item, "creditsRemaining": left})

    async def _replayed(
        self, bodies: Bodies, key: str
    ) -> AsyncGenerator[Replayed | PostdateError, None]:
        """Each call has a key of its own, which is the first one's with a number."""
        while (body := bodies.next()) is not None:
            of_this = key if bodies.calls == 1 else checked_key(f"{key}-{bodies.calls}")
            answer = await self._call(
                "POST", "/schedule/replay", body=as_json(body), idempotency_key=of_this
            )
            items, cursor = answer.read_as(lambda body: (body["schedules"], body["nextCursor"]))
            bodies.answered(len(items), cursor)
            for item in items:
                if "code" in item:
                    yield error_of(item["code"], item, schedule_id=item["replayOf"])
                else:
                    yield read(Replayed, {**item, "replayed": answer.replayed})

    async def _pages(
        self,
        path: str,
        query: Mapping[str, str | None],
        name: str,
        reader: Callable[[Any], T],
        limit: int | None,
    ) -> AsyncGenerator[T, None]:
        """Every item of a list, a page at a time. A page may be short, or empty, before the end."""
        cursor: str | None = None
        left = limit
        while left is None or left > 0:
            most = _LONGEST_PAGE if left is None else min(left, _LONGEST_PAGE)
            answer = await self._call("GET", path, query={**query, "limit": most, "cursor": cursor})
            items, cursor = answer.read_as(
                lambda body: ([reader(each) for each in body[name]], body["nextCursor"])
            )
            for item in items:
                yield item
            if cursor is None:
                return
            left = None if left is None else left - len(items)
