"""Calls of the API: the attempts of one, its answer or error; lists and results of several."""

from __future__ import annotations

import copy
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, NamedTuple, Self, TypeVar

import httpx

from postdate.arguments import real, text, whole
from postdate.checks import (
    checked_api_key,
    checked_etag,
    checked_headers,
    checked_key,
    checked_seconds,
    checked_url,
    given,
    user_agent,
)
from postdate.errors import (
    ConnectionFailed,
    PostdateError,
    error_of,
    reason_of,
    strange_answer,
)
from postdate.modes import Borrowed
from postdate.patience import Patience, retry_after_s
from postdate.results import read

T = TypeVar("T")

# Repeating does not help against these.
_HOPELESS = (httpx.LocalProtocolError, httpx.UnsupportedProtocol, httpx.TooManyRedirects)
_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_LONGEST_PAGE = 100
_AT_ONCE = 1000
# Most calls go to one of a few addresses, and to read one takes as long as all else of a request.
_url = lru_cache(maxsize=16)(httpx.URL)


class Response(NamedTuple):
    """A 2xx answer."""

    body: Any
    headers: httpx.Headers
    status: int

    @property
    def replayed(self) -> bool:
        """Whether an earlier call with the same idempotency key did it."""
        return bool(self.headers.get("idempotency-replayed") == "true")

    @property
    def of_all(self) -> dict[str, Any]:
        """What an answer about many says of each."""
        request_id = self.headers.get("postdate-request-id")
        return {"replayed": self.replayed, "requestId": request_id}

    def read_as(self, reader: Callable[[Any], T]) -> T:
        """Raises PostdateError for a body that is not Postdate's."""
        try:
            return reader(self.body)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise PostdateError(f"The answer does not come from Postdate: {error!r}") from error

    def read_tagged_as(self, reader: Callable[[Any], T]) -> T:
        """The same of a body with the answer's `etag`."""
        etag = self.headers.get("etag")
        return self.read_as(lambda body: reader({**body, "etag": etag}))


@dataclass(frozen=True, slots=True)
class Many(Generic[T]):
    """A call for many: its result, the name of the id in it, which list is meant without ids, and
    the fields that an answer has once for all. `tell` gets the results of each answer."""

    kind: type[T]
    path: str
    id_name: str
    listed: tuple[str, str]
    of_all: tuple[str, ...] = ()
    tell: Callable[[Sequence[T | PostdateError]], None] | None = None


class Calls(ABC):
    """Every call is safe to repeat: a create by its idempotency key, the others by nature."""

    _http: Any

    def __init__(
        self,
        base_url: str | None,
        api_key: str | None,
        retry_for: float,
        timeout: float | None,
        headers: Mapping[str, str] | None,
    ) -> None:
        self._base_url = checked_url(given("base_url", base_url, "POSTDATE_URL"))
        self._headers = {"user-agent": user_agent()}
        self._extensions: dict[str, Any] = {}
        self._set(given("api_key", api_key, "POSTDATE_API_KEY"), retry_for, timeout, headers)

    def with_options(
        self,
        *,
        api_key: str | None = None,
        retry_for: float | None = None,
        timeout: float | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Self:
        """A copy with other options; `headers` are added to this client's.

        It shares this client's connections: closing the copy closes nothing, and when this client
        is closed, calls of the copy raise RuntimeError too.
        """
        copied = copy.copy(self)
        retry_for = self._retry_for if retry_for is None else retry_for
        copied._http = Borrowed(self._http.get)  # noqa: SLF001  # it is of this very class
        copied._set(api_key, retry_for, timeout, headers)  # noqa: SLF001
        return copied

    def _set(
        self,
        api_key: str | None,
        retry_for: float,
        timeout: float | None,
        headers: Mapping[str, str] | None,
    ) -> None:
        """Options that are None keep their value."""
        self._headers = {**self._headers, **checked_headers(headers or {})}
        if api_key is not None:
            self._headers["x-api-key"] = checked_api_key(api_key)
        self._retry_for = real("retry_for", retry_for)
        if timeout is not None:  # none for the wait for a connection
            seconds = checked_seconds("timeout", timeout)
            self._extensions = {"timeout": httpx.Timeout(seconds, pool=None).as_dict()}

    @abstractmethod
    async def _send(self, request: httpx.Request, begins: Callable[[], None]) -> httpx.Response:
        """Calls `begins`, once or more, when it has a connection."""

    @abstractmethod
    async def _sleep(self, seconds: float) -> None: ...

    async def _call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str | int | None] | None = None,
        body: bytes | None = None,
        idempotency_key: str | None = None,
        if_match: str | None = None,
        if_none_match: str | None = None,
    ) -> Response:
        """`body` is JSON. With `if_match`, the `etag` of an earlier answer, the server does it only
        to what still has that etag; with `if_none_match` "*", only if there is none yet. Raises
        PreconditionFailed, and PostdateError when repeating is useless, or after `retry_for`
        seconds without those spent waiting for a connection."""
        request = self._request(method, path, query or {}, body, idempotency_key)
        for name, etag in (("if_match", if_match), ("if_none_match", if_none_match)):
            if etag is not None:
                request.headers[name.replace("_", "-")] = checked_etag(name, etag)
        patience = Patience(self._retry_for)
        maybe_done = False
        while True:
            patience.asks()
            outcome = await self._attempt(request, patience.begins)
            if isinstance(outcome, Response):
                return outcome
            maybe_done = outcome.maybe_done = maybe_done or outcome.maybe_done
            pause_s = patience.pause_s(outcome)
            if pause_s is None:
                outcome.idempotency_key = idempotency_key
                raise outcome
            await self._sleep(pause_s)

    async def _each(
        self,
        many: Many[T],
        schedule_ids: Iterable[str] | None,
        matching: Mapping[str, str | bool | None],
        limit: int | None,
        key: str | None = None,
    ) -> tuple[Sequence[T | PostdateError], int]:
        """One result for each id, in order, or for each that matches; and how many were left out.
        Raises ValueError for ids with a filter and for no ids, TypeError if one is no string."""
        filters = {name: value for name, value in matching.items() if value is not None}
        limit = None if limit is None else whole("limit", limit)
        if schedule_ids is None:
            return await self._each_matching(many, filters, limit, key)
        if filters or limit is not None:
            raise ValueError("Give either ids or what to choose by, not both.")
        ids = [schedule_ids] if isinstance(schedule_ids, str) else list(schedule_ids)
        if not ids:
            raise ValueError("Give at least one id; without any argument all that match are meant.")
        for number, each in enumerate(ids):
            text(f"schedule_ids[{number}]", each)
        return await self._each_named(many, ids, key), 0

    async def _each_named(
        self, many: Many[T], ids: Sequence[str], key: str | None
    ) -> Sequence[T | PostdateError]:
        """A repeated id is sent once, and has its result as often as it was given."""
        asked = list(dict.fromkeys(ids))
        found: dict[str, T | PostdateError] = {}
        for number, start in enumerate(range(0, len(asked), _AT_ONCE), 1):
            some = asked[start : start + _AT_ONCE]
            results, _, _ = await self._some(many, {"ids": some}, key, number)
            if len(results) != len(some):
                raise strange_answer(len(results))
            for name, result in zip(some, results, strict=True):
                if isinstance(result, PostdateError):  # it has but the beginning of a malformed one
                    result.schedule_id = name
                found[name] = result
            if many.tell is not None:
                many.tell(results)
        return [found[each] for each in ids]

    async def _each_matching(
        self, many: Many[T], filters: Mapping[str, str | bool], limit: int | None, key: str | None
    ) -> tuple[Sequence[T | PostdateError], int]:
        field, word = many.listed
        body: dict[str, Any] = {**filters, field: word}
        found: list[T | PostdateError] = []
        number = left = 0
        while limit is None or len(found) < limit:
            number += 1
            body["limit"] = _AT_ONCE if limit is None else min(limit - len(found), _AT_ONCE)
            results, body["cursor"], more = await self._some(many, body, key, number)
            found += results
            left += more
            if many.tell is not None:
                many.tell(results)
            if body["cursor"] is None:
                break
        return found, left

    async def _some(
        self, many: Many[T], body: Mapping[str, Any], key: str | None, number: int
    ) -> tuple[list[T | PostdateError], str | None, int]:
        """The results of one call, the next cursor, and how many were left out. Later calls number
        the first one's key."""
        own = key if key is None or number == 1 else checked_key(f"{key}-{number}")
        try:
            answer = await self._call("POST", many.path, body=as_json(body), idempotency_key=own)
        except PostdateError as error:
            error.idempotency_key = key  # with which the whole can be repeated
            error.maybe_done = error.maybe_done or number > 1  # a part of it was
            raise

        def reader(body: Any) -> tuple[list[T | PostdateError], str | None, int]:
            shared = {name: body[name] for name in many.of_all} | answer.of_all
            items = [{**item, **shared} for item in body["schedules"]]
            results = [read_one(many.kind, each, many.id_name) for each in items]
            return results, body["nextCursor"], int(body.get("occurrencesLeft", 0))

        return answer.read_as(reader)

    async def _pages(
        self,
        path: str,
        query: Mapping[str, str | bool | None],
        name: str,
        reader: Callable[[Any], T],
        limit: int | None,
    ) -> AsyncGenerator[T, None]:
        """A page may be short, or empty, before the end."""
        cursor: str | None = None
        left = None if limit is None else whole("limit", limit)
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

    def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str | int | None],
        body: bytes | None,
        idempotency_key: str | None,
    ) -> httpx.Request:
        """Made once: all attempts send the same bytes."""
        headers = dict(self._headers)
        if idempotency_key is not None:
            headers["idempotency-key"] = idempotency_key
        if body is not None:
            headers["content-type"] = "application/json"
        asked = {name: value for name, value in query.items() if value is not None}
        url = _url(self._base_url + path)
        try:
            return httpx.Request(
                method,
                url,
                params=asked or None,
                headers=headers,
                content=body,
                extensions=dict(self._extensions),
            )
        except httpx.InvalidURL:
            raise ValueError("The filters together are too long for a URL.") from None

    async def _attempt(
        self, request: httpx.Request, begins: Callable[[], None]
    ) -> Response | PostdateError:
        try:
            response = await self._send(request, begins)
        except _HOPELESS as error:
            return PostdateError(f"The request cannot be sent: {error}")
        except httpx.RequestError as error:
            return self._lost(error)
        try:
            body = response.json()
        except ValueError:
            body = None
        if response.is_success:
            return Response(body, response.headers, response.status_code)
        wait_s = retry_after_s(response.headers.get("retry-after"))
        phrase = response.reason_phrase
        return error_of(response.status_code, body, phrase=phrase, retry_after=wait_s)

    def _lost(self, error: httpx.RequestError) -> ConnectionFailed:
        never_sent = isinstance(error, _NEVER_SENT)
        what = "cannot be reached" if never_sent else "did not answer"
        lost = ConnectionFailed(f"{self._base_url} {what}: {reason_of(error)}")
        lost.__cause__ = error
        lost.maybe_done = not never_sent
        return lost


def read_one(
    kind: type[T], item: Mapping[str, Any], id_name: str | None = None
) -> T | PostdateError:
    """A result, or the error in its place."""
    if "code" not in item:
        return read(kind, item)
    error = error_of(item["code"], item)
    error.schedule_id = id_name and item[id_name]
    return error


def as_json(value: Mapping[str, Any]) -> bytes:
    """Raises TypeError or ValueError for what JSON cannot express: `json` alone may have it."""
    try:
        return _dumped(value, ensure_ascii=False)
    except UnicodeEncodeError:  # half of a surrogate pair, which only an escape can express
        return _dumped(value, ensure_ascii=True)
    except (TypeError, ValueError) as error:
        raise type(error)(f"json cannot be sent: {error}") from None


def _dumped(value: Mapping[str, Any], *, ensure_ascii: bool) -> bytes:
    return json.dumps(value, ensure_ascii=ensure_ascii, allow_nan=False).encode()
