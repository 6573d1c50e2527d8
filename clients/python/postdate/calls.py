"""One call of the API: its attempts, and its answer or error."""

from __future__ import annotations

import importlib.metadata
import json
import os
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from time import monotonic
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import httpx

from postdate.errors import (
    ConnectionFailed,
    PostdateError,
    RateLimited,
    Unavailable,
    error_of,
    nothing_was_done,
    reason_of,
)

T = TypeVar("T")

# Repeating does not help against these.
_HOPELESS = (httpx.LocalProtocolError, httpx.UnsupportedProtocol, httpx.TooManyRedirects)
_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_LONGEST_KEY = 255
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0
# Most calls go to one of a few addresses, and to read one takes as long as all else of a request.
_url = lru_cache(maxsize=16)(httpx.URL)


class Response(NamedTuple):
    """A 2xx answer."""

    body: Any
    headers: httpx.Headers

    @property
    def replayed(self) -> bool:
        """Whether an earlier call with the same idempotency key did it."""
        return bool(self.headers.get("idempotency-replayed") == "true")

    def read_as(self, reader: Callable[[Any], T]) -> T:
        """Raises PostdateError for a body that is not Postdate's."""
        try:
            return reader(self.body)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise PostdateError(f"The answer is none of Postdate's: {error!r}") from error


class Calls(ABC):
    """Every call is safe to repeat: a create by its idempotency key, the others by nature."""

    def __init__(self, base_url: str | None, api_key: str | None, retry_for: float) -> None:
        self._base_url = _checked_url(_given("base_url", base_url, "POSTDATE_URL"))
        key = _checked_key(_given("api_key", api_key, "POSTDATE_API_KEY"))
        self._headers = {"x-api-key": key, "user-agent": _user_agent()}
        self._retry_for = retry_for

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
    ) -> Response:
        """`body` is JSON. Raises PostdateError when repeating is useless, or after `retry_for`
        seconds without those spent waiting for a connection."""
        request = self._request(method, path, query or {}, body, idempotency_key)
        patience = _Patience(self._retry_for)
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
        given = {name: value for name, value in query.items() if value is not None}
        url = _url(self._base_url + path)
        return httpx.Request(method, url, params=given or None, headers=headers, content=body)

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
            return Response(body, response.headers)
        wait_s = _retry_after_s(response.headers.get("retry-after"))
        refused = error_of(
            response.status_code, body, reason=response.reason_phrase, retry_after=wait_s
        )
        refused.maybe_done = isinstance(refused, Unavailable) and not nothing_was_done(str(refused))
        return refused

    def _lost(self, error: httpx.RequestError) -> ConnectionFailed:
        never_sent = isinstance(error, _NEVER_SENT)
        what = "cannot be reached" if never_sent else "did not answer"
        lost = ConnectionFailed(f"{self._base_url} {what}: {reason_of(error)}")
        lost.__cause__ = error
        lost.maybe_done = not never_sent
        return lost


class _Patience:
    """The pauses of one call: they double, with jitter, are never shorter than the server asks for,
    and end within `retry_for_s`, without the time that attempts wait for a connection."""

    def __init__(self, retry_for_s: float) -> None:
        self._deadline_s = monotonic() + retry_for_s
        self._longest_s = _FIRST_PAUSE_S
        self._asked_s: float | None = None

    def asks(self) -> None:
        """An attempt asks for a connection."""
        self._asked_s = monotonic()

    def begins(self) -> None:
        """It has one; further calls change nothing."""
        if self._asked_s is not None:
            self._deadline_s += monotonic() - self._asked_s
            self._asked_s = None

    def pause_s(self, error: PostdateError) -> float | None:
        """How long to wait before the next attempt; None if there is none."""
        if not isinstance(error, RateLimited | Unavailable | ConnectionFailed):
            return None
        asked_s = 0.0 if isinstance(error, ConnectionFailed) else error.retry_after or 0.0
        pause_s = asked_s + self._longest_s * random.uniform(0.5, 1.0)  # noqa: S311
        self._longest_s = min(self._longest_s * 2, _LONGEST_PAUSE_S)
        return pause_s if monotonic() + pause_s <= self._deadline_s else None


def _retry_after_s(header: str | None) -> float | None:
    """Seconds; a proxy may send a date."""
    if header is None:
        return None
    if header.strip().isdigit():
        return float(header)
    try:
        moment = parsedate_to_datetime(header)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max((moment - datetime.now(UTC)).total_seconds(), 0.0)


def as_json(value: Mapping[str, Any]) -> bytes:
    """Raises ValueError for what JSON cannot express."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()


def checked_key(idempotency_key: str) -> str:
    """Raises ValueError for a key that the server would refuse or that cannot be sent."""
    visible = all("!" <= character <= "~" for character in idempotency_key)
    if not visible or not 1 <= len(idempotency_key) <= _LONGEST_KEY:
        raise ValueError(
            f"An idempotency key has 1 to {_LONGEST_KEY} visible ASCII characters, unlike"
            f" {idempotency_key!r}"
        )
    return idempotency_key


def _given(name: str, argument: str | None, variable: str) -> str:
    if argument is None:
        argument = os.environ.get(variable)
        if not argument:
            raise ValueError(f"Give {name}, or set {variable}.")
    return argument


def _checked_url(base_url: str) -> str:
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(
            "The address of a Postdate looks like http://127.0.0.1:8000 or"
            f" https://postdate.example, not like {base_url!r}"
        )
    return base_url.rstrip("/")


def _checked_key(api_key: str) -> str:
    if not api_key or not api_key.isascii() or not api_key.isprintable() or " " in api_key:
        raise ValueError("The API key is empty, or has characters that no key has.")
    return api_key


def _user_agent() -> str:
    try:
        return "postdate-client/" + importlib.metadata.version("postdate-client")
    except importlib.metadata.PackageNotFoundError:
        return "postdate-client"  # run from a checkout that was never installed
