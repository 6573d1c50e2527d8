"""What takes several calls: lists, page by page, and many that are cancelled or replayed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from postdate.calls import Calls, as_json, checked_key
from postdate.errors import PostdateError, error_of, strange_answer
from postdate.results import read

T = TypeVar("T")

_LONGEST_PAGE = 100
_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class Many(Generic[T]):
    """A call for many: its result, the name of the id in it, the status of those meant without ids,
    and the fields that an answer has once for all."""

    kind: type[T]
    path: str
    id_name: str
    status: str
    of_all: tuple[str, ...] = ()


class Walks(Calls):
    """Calls that repeat until the server has no more, or the limit is reached."""

    async def _each(
        self,
        many: Many[T],
        schedule_ids: Iterable[str] | None,
        matching: Mapping[str, str | None],
        limit: int | None,
        key: str | None = None,
    ) -> tuple[T | PostdateError, ...]:
        """One result for each id, in order, or for each that matches. Raises ValueError for ids
        with a filter, and for no ids."""
        filters = {name: value for name, value in matching.items() if value is not None}
        if schedule_ids is None:
            return await self._each_matching(many, filters, limit, key)
        if filters or limit is not None:
            raise ValueError("Give either ids or what to choose by, not both.")
        ids = [schedule_ids] if isinstance(schedule_ids, str) else list(schedule_ids)
        if not ids:
            raise ValueError("Give at least one id; without any argument all that match are meant.")
        return await self._each_named(many, ids, key)

    async def _each_named(
        self, many: Many[T], ids: Sequence[str], key: str | None
    ) -> tuple[T | PostdateError, ...]:
        """A repeated id is sent once, and has its result as often as it was given."""
        asked = list(dict.fromkeys(ids))
        found: dict[str, T | PostdateError] = {}
        for number, start in enumerate(range(0, len(asked), _AT_ONCE), 1):
            some = asked[start : start + _AT_ONCE]
            results, _ = await self._some(many, {"ids": some}, key, number)
            if len(results) != len(some):
                raise strange_answer(len(results))
            found |= zip(some, results, strict=True)
        return tuple(found[each] for each in ids)

    async def _each_matching(
        self, many: Many[T], filters: Mapping[str, str], limit: int | None, key: str | None
    ) -> tuple[T | PostdateError, ...]:
        body: dict[str, Any] = {**filters, "status": many.status}
        found: list[T | PostdateError] = []
        number = 0
        while limit is None or len(found) < limit:
            number += 1
            body["limit"] = _AT_ONCE if limit is None else min(limit - len(found), _AT_ONCE)
            results, body["cursor"] = await self._some(many, body, key, number)
            found += results
            if body["cursor"] is None:
                break
        return tuple(found)

    async def _some(
        self, many: Many[T], body: Mapping[str, Any], key: str | None, number: int
    ) -> tuple[list[T | PostdateError], str | None]:
        """The results of one call, and the next cursor. Later calls number the first one's key."""
        if key is not None and number > 1:
            key = checked_key(f"{key}-{number}")
        answer = await self._call("POST", many.path, body=as_json(body), idempotency_key=key)

        def reader(body: Any) -> tuple[list[T | PostdateError], str | None]:
            shared = {name: body[name] for name in many.of_all} | {"replayed": answer.replayed}
            items = [{**item, **shared} for item in body["schedules"]]
            return [read_one(many.kind, each, many.id_name) for each in items], body["nextCursor"]

        return answer.read_as(reader)

    async def _pages(
        self,
        path: str,
        query: Mapping[str, str | None],
        name: str,
        reader: Callable[[Any], T],
        limit: int | None,
    ) -> AsyncGenerator[T, None]:
        """A page may be short, or empty, before the end."""
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
    """A result, or the error in its place."""
    if "code" not in item:
        return read(kind, item)
    error = error_of(item["code"], item)
    error.schedule_id = id_name and item[id_name]
    return error
