"""What takes several calls: lists, page by page, and many that are cancelled or replayed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any, TypeVar

from postdate.calls import Calls, as_json, checked_key
from postdate.chosen import Bodies
from postdate.errors import PostdateError, error_of
from postdate.results import read

T = TypeVar("T")

_LONGEST_PAGE = 100


class Walks(Calls):
    """Each goes on until the server has no more to tell, or as much was told as was asked for."""

    async def _each(
        self,
        kind: type[T],
        id_name: str,
        path: str,
        bodies: Bodies,
        *,
        of_all: Sequence[str] = (),
        key: str | None = None,
    ) -> AsyncGenerator[T | PostdateError, None]:
        """What became of each that was asked for, or its error. The fields `of_all` stand once in
        an answer. Each call has a key of its own, which is the first one's with a number."""
        while (body := bodies.next()) is not None:
            of_this = key if key is None or bodies.calls == 1 else f"{key}-{bodies.calls}"
            answer = await self._call(
                "POST", path, body=as_json(body), idempotency_key=of_this and checked_key(of_this)
            )
            items, cursor = answer.read_as(lambda body: (body["schedules"], body["nextCursor"]))
            shared = answer.read_as(lambda body: {name: body[name] for name in of_all})
            bodies.answered(len(items), cursor)
            for item in items:
                yield read_one(kind, {**item, **shared, "replayed": answer.replayed}, id_name)

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


def read_one(
    kind: type[T], item: Mapping[str, Any], id_name: str | None = None
) -> T | PostdateError:
    """One of many: a result, or the error that it came to."""
    if "code" in item:
        return error_of(item["code"], item, schedule_id=id_name and item[id_name])
    return read(kind, item)
