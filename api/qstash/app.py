"""The app with the door: `/qstash/v2/…` beside the native paths. The setting chooses it once."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, unquote_to_bytes

import msgspec
from litestar.types import Message, Receive, Scope, Send

from api.answer import JsonResponse, Options, allow
from api.app import App, create_app
from api.auth import authenticate, known_key
from api.errors import answered
from api.limits import MAX_ITEMS
from api.qstash import dlq, events, flow_control, keys, messages, publish, queues, schedules
from api.qstash.calls import QStashCall, Refused, Route
from api.qstash.headers import NOT_OFFERED
from api.reading import is_small, read_body
from scheduler.errors import Reason
from scheduler.runtime.settings import Settings
from scheduler.store import Store

_NOUNS = (publish, messages, dlq, queues, flow_control, schedules, events, keys)
_PREFIX, _NOWHERE = "/qstash", "/qstash/-"
_MOST_ASKED = "/v2/publish/{url}"
_TOKEN = b"qstash_token="
_FOUND = "postdate.qstash"
_UNOFFERED = {
    "/v2/topics": "URL groups",
    "/v2/workflows": "Workflows",
    "/v2/globalParallelism": "Limits of all keys together",
    "/llm": "Language models",
}
_REASONS = {404: Reason.NOT_FOUND, 405: Reason.METHOD_NOT_ALLOWED, 501: Reason.UNSUPPORTED_METHOD}


def create_door(settings: Settings, store: Store | None = None) -> App:
    """As `create_app`, with the door."""
    return create_app(settings, store, QStashApp)


class _Found(NamedTuple):
    """What a path leads to: its template ("": none), its routes by method, and what stands in the
    places of names; or what it would be (`unoffered`)."""

    template: str = ""
    routes: Mapping[str, Route] = MappingProxyType({})
    parts: tuple[str, ...] = ()
    unoffered: str = ""


def _paths(routes: Iterable[Route]) -> list[tuple[re.Pattern[str], _Found]]:
    """Literal parts win over names, and a `{url}` takes the rest."""
    by_path: dict[str, dict[str, Route]] = {}
    for route in routes:
        by_path.setdefault(route.path, {})[route.method] = route
    paths = sorted(by_path, key=lambda path: (path != _MOST_ASKED, path.replace("{", "~")))
    ways = (re.sub(r"\{\w+\}", "([^/]+)", path.replace("{url}", "(.+)")) for path in paths)
    each = zip(map(re.compile, ways), paths, strict=True)
    return [(way, _Found(path, by_path[path])) for way, path in each]


_PATHS = _paths(route for noun in _NOUNS for route in noun.ROUTES)


def _found(path: str) -> _Found:
    for way, found in _PATHS:
        if (match := way.fullmatch(path)) is not None:
            parts = [*map(unquote, match.groups())]
            if found.template.endswith("{url}"):
                parts[-1] = match[len(parts)]
            return found._replace(parts=tuple(parts))
    unoffered = (what for begin, what in _UNOFFERED.items() if path.startswith(begin))
    return _Found(unoffered=next(unoffered, ""))


class QStashApp(App):
    """Requests to the door get the path of their route before the app judges how a path is spelt:
    a destination is a part of a path as it was sent."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"].startswith(_PREFIX + "/"):
            scope = _at_its_route(scope)
        await super().__call__(scope, receive, send)

    async def _in_turn(self, scope: Any, receive: Any, send: Any) -> None:
        found: _Found | None = scope.get(_FOUND)
        if found is None:
            await super()._in_turn(scope, receive, send)
            return
        work = self._carry_out(found, scope, receive, send)
        if _is_quick(found, scope):
            await work
        else:
            await self._taken(work, scope)

    async def _carry_out(self, found: _Found, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            answer = await self._answer(found, scope, receive)
        except Exception as error:
            answer = self._refusal(error, found, scope)

        def named(event: Message) -> Awaitable[None]:
            """Clients of QStash take `RateLimit-*` for the limit of a day."""
            if event["type"] == "http.response.start":
                event["headers"] = [_burst(*line) for line in event["headers"]]
            return send(event)

        await answer(scope, receive, named if answer.status == 429 else send)

    async def _answer(self, found: _Found, scope: Any, receive: Receive) -> JsonResponse:
        service, method = self._service, scope["method"]
        route, settings, body = found.routes.get(method), service.settings, b""
        if method == "OPTIONS" and found.routes:
            return Options(found.routes)
        query = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        headers = [
            (name.decode("latin-1"), text.decode("latin-1")) for name, text in scope["headers"]
        ]
        told, is_read = (scope, found.parts, query, headers), False
        if _is_quick(found, scope) and (key := known_key(service, scope)) is not None:
            body, is_read = await read_body(scope, receive, settings.max_body_bytes), True
            call = QStashCall(service, service.store, key.account_id, "", *told, body)
            answer = await publish.publish_at_once(call, key)
            if answer is not None:
                return answer
        caller = await authenticate(service, scope)
        if route is None:
            raise _unrouted(found)
        if route.handler is publish.batch:
            body = await read_body(scope, receive, settings.max_batch_bytes, MAX_ITEMS)
        elif method != "GET" and not is_read:
            body = await read_body(scope, receive, settings.max_body_bytes)
        who = service, service.store, caller.account_id, caller.key_id
        return await route.handler(QStashCall(*who, *told, body))

    def _refusal(self, error: Exception, found: _Found, scope: Any) -> JsonResponse:
        if isinstance(error, Refused):
            self._service.tally.refuse(_REASONS.get(error.status, Reason.INVALID_FIELD))
            headers = {"allow": allow(found.routes)} if error.status == 405 else None
            return JsonResponse(error.status, {"error": str(error)}, headers)
        native = answered(error, scope, self._service)
        sentence = msgspec.json.decode(native.body)["error"]
        sentence = sentence.replace("Idempotency-Key", "Upstash-Deduplication-Id")
        return JsonResponse(native.status, {"error": sentence}, native.headers)


def _at_its_route(scope: Any) -> Any:
    """The scope with its route as the path. A `qstash_token` is as good as an `x-api-key`, and
    stays nowhere else."""
    raw_path, query, headers = scope["raw_path"] or b"", scope["query_string"], scope["headers"]
    found = _found(raw_path.removeprefix(_PREFIX.encode()).decode(errors="replace"))
    if _TOKEN in query:
        each = query.split(b"&")
        query = b"&".join(part for part in each if not part.startswith(_TOKEN))
        tokens = (part[len(_TOKEN) :] for part in each if part.startswith(_TOKEN))
        headers = [*headers, *((b"x-api-key", unquote_to_bytes(token)) for token in tokens)]
    path = _PREFIX + found.template if found.template else _NOWHERE
    named = {"path": path, "raw_path": path.encode(), "query_string": query, "headers": headers}
    template = {"path_template": path} if found.template else {}
    return {**scope, **named, **template, _FOUND: found}


def _is_quick(found: _Found, scope: Any) -> bool:
    """Whether it is a small message, which takes as little as a small create."""
    route = found.routes.get(scope["method"])
    return route is not None and route.handler is publish.publish and is_small(scope)


def _unrouted(found: _Found) -> Refused:
    if found.routes:
        return Refused(405, "Method not allowed")
    if found.unoffered:
        return Refused(501, NOT_OFFERED.format(found.unoffered))
    return Refused(404, "Not found")


def _burst(name: bytes, value: bytes) -> tuple[bytes, bytes]:
    return b"burst-" + name if name.startswith(b"ratelimit-") else name, value
