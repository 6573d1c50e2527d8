"""The app with the door: `/qstash/v2/…` beside the native paths. The setting chooses it once."""

from __future__ import annotations

import re
from typing import Any, NamedTuple
from urllib.parse import unquote, unquote_to_bytes

import msgspec
from litestar.exceptions import MethodNotAllowedException, NotFoundException
from litestar.types import Receive

from api.answer import JsonResponse, Options, allow
from api.app import App, create_app
from api.auth import authenticate, known_key
from api.errors import answered
from api.limits import MAX_ITEMS
from api.qstash import dlq, events, flow_control, keys, messages, publish, queues, schedules
from api.qstash.calls import QStashCall, Refused, Route, not_offered
from api.reading import REFUSAL, is_small, read_body
from scheduler.callers import Rate
from scheduler.errors import Reason
from scheduler.runtime.settings import Settings
from scheduler.store import Store

_NOUNS = (publish, messages, dlq, queues, flow_control, schedules, events, keys)
_PREFIX = "/qstash"
_TOKEN = b"qstash_token="
# In a scope, the path as it was sent, below the prefix.
_SENT = "postdate.qstash"
_UNOFFERED = {
    "/v2/topics": "URL groups",
    "/v2/workflows": "Workflows",
    "/v2/globalParallelism": "Limits of all keys together",
    "/llm": "Language models",
}
_REASONS = {404: Reason.NOT_FOUND, 501: Reason.UNSUPPORTED_METHOD}


def create_door(settings: Settings, store: Store | None = None) -> App:
    """As `create_app`, with the door."""
    return create_app(settings, store, QStashApp)


class _Way(NamedTuple):
    """A route, and what stands in the places of its names."""

    route: Route
    parts: tuple[str, ...]


def _form(path: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\{\w+\}", "([^/]+)", path.replace("{url}", "(.+)")))


def _route_order(route: Route) -> tuple[bool, str]:
    """Literal parts win over names, and a `{url}` takes the rest of the path."""
    return route.path.endswith("{url}"), route.path.replace("{", "~")


_ROUTES = sorted((route for noun in _NOUNS for route in noun.ROUTES), key=_route_order)
_FORMS = [(_form(route.path), route) for route in _ROUTES]
_METHODS = {route.method for route in _ROUTES}


def _way(method: str, path: str) -> _Way | None:
    for form, route in _FORMS:
        if route.method == method and (match := form.fullmatch(path)) is not None:
            names = [*map(unquote, match.groups())]
            if route.path.endswith("{url}"):
                names[-1] = match[len(names)]
            return _Way(route, tuple(names))
    return None


class QStashApp(App):
    """Requests to the door get a path of its own before the app judges how a path is spelt: a
    destination is a part of a path as it was sent."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"].startswith(_PREFIX + "/"):
            scope = _renamed(scope)
        await super().__call__(scope, receive, send)

    async def _in_turn(self, scope: Any, receive: Any, send: Any) -> None:
        if _SENT not in scope:
            await super()._in_turn(scope, receive, send)
            return
        way = _way(scope["method"], scope[_SENT])
        if way is not None:
            scope["path"] = scope["path_template"] = _PREFIX + way.route.path
        work = self._carry_out(way, scope, receive, send)
        if way is not None and _is_quick(way, scope):
            await work
        else:
            await self._taken(work, scope)

    async def _carry_out(self, way: _Way | None, scope: Any, receive: Any, send: Any) -> None:
        try:
            work = self._unrouted(scope) if way is None else self._routed(way, scope, receive)
            answer = await work
        except Exception as error:
            answer = self._refusal(error, scope)
        await answer(scope, receive, send)

    async def _routed(self, way: _Way, scope: Any, receive: Receive) -> JsonResponse:
        if REFUSAL in scope:
            raise scope.pop(REFUSAL)
        service, (route, parts), body = self._service, way, None
        settings = service.settings
        key = known_key(service, scope) if _is_quick(way, scope) else None
        if key is not None:
            body = await read_body(scope, receive, settings.max_body_bytes)
            call = QStashCall(service, service.store, key.account_id, "", scope, parts, body)
            answer = await publish.publish_at_once(call, key)
            if answer is not None:
                return answer
        caller = await authenticate(service, scope)
        if body is None:
            is_batch = route.handler is publish.batch
            most_bytes = settings.max_batch_bytes if is_batch else settings.max_body_bytes
            body = await read_body(scope, receive, most_bytes, MAX_ITEMS if is_batch else 1)
        who = service, service.store, caller.account_id, caller.key_id
        return await route.handler(QStashCall(*who, scope, parts, body))

    async def _unrouted(self, scope: Any) -> JsonResponse:
        methods = [method for method in _METHODS if _way(method, scope[_SENT])]
        if methods and scope["method"] == "OPTIONS":
            return Options(methods)
        await authenticate(self._service, scope)
        for begin, what in _UNOFFERED.items():
            if scope[_SENT].startswith(begin):
                raise not_offered(what)
        if methods:
            raise MethodNotAllowedException(headers={"allow": allow(methods)})
        raise NotFoundException

    def _refusal(self, error: Exception, scope: Any) -> JsonResponse:
        if isinstance(error, Refused):
            self._service.tally.refuse(_REASONS.get(error.status, Reason.INVALID_FIELD))
            return _Refusal(error.status, {"error": str(error)})
        native = answered(error, scope, self._service)
        sentence = msgspec.json.decode(native.body)["error"]
        sentence = sentence.replace("Idempotency-Key", "Upstash-Deduplication-Id")
        return _Refusal(native.status, {"error": sentence}, native.headers)


class _Refusal(JsonResponse):
    __slots__ = ()

    def lines(self, rate: Rate | None) -> list[tuple[bytes, bytes]]:
        """Clients of QStash take the `RateLimit-*` of a 429 for the limit of a day."""
        burst = (b"ratelimit-", b"burst-ratelimit-" if self.status == 429 else b"ratelimit-")
        return [(name.replace(*burst), value) for name, value in super().lines(rate)]


def _renamed(scope: Any) -> Any:
    """A `qstash_token` of the query is as good as an `x-api-key`, and stays nowhere else."""
    query, headers, sent = scope["query_string"], scope["headers"], scope["raw_path"] or b""
    if _TOKEN in query:
        each = query.split(b"&")
        query = b"&".join(part for part in each if not part.startswith(_TOKEN))
        tokens = (part[len(_TOKEN) :] for part in each if part.startswith(_TOKEN))
        headers = [*headers, *((b"x-api-key", unquote_to_bytes(token)) for token in tokens)]
    path = sent.removeprefix(_PREFIX.encode()).decode(errors="replace")
    nowhere = {"path": _PREFIX, "raw_path": _PREFIX.encode()}
    return {**scope, **nowhere, "query_string": query, "headers": headers, _SENT: path}


def _is_quick(way: _Way, scope: Any) -> bool:
    """Whether it is a small message, which takes as little as a small create."""
    return way.route.handler is publish.publish and is_small(scope)
