"""The app: every route, and what holds for each request."""

from __future__ import annotations

import inspect
import re
import time
from collections.abc import AsyncIterator, Awaitable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, cast
from urllib.parse import urlsplit

from litestar import HttpMethod, Litestar, route
from litestar.datastructures import State
from litestar.types import HTTPScope, Message, Receive, Send

from api.answer import JsonResponse, Options
from api.auth import known_key
from api.calls import batch, bulk, lanes, public, recurring, schedule, signing, stats
from api.dashboard.routes import dashboard_router, looking_router
from api.door.proxies import parsed
from api.errors import answered, error_body, on_exception
from api.fair_queue import STRANGERS, Payer, note_payer
from api.openapi.document import document
from api.reading import connection_of, end, header, is_small
from api.request_ids import HEADER, request_id_of
from api.service import HttpRequest, Service
from scheduler.errors import Reason
from scheduler.runtime.settings import Settings
from scheduler.runtime.version import version
from scheduler.store import Store
from scheduler.store.server.writes import one_call
from scheduler.target.destinations import any_of, is_loopback

_ROOMS = (public, schedule, batch, bulk, stats, lanes, recurring, signing)
_HEALTH = ("/healthz", "/readyz")
_DASHBOARD = "/dashboard"
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_KNOWN_METHODS = frozenset({*_METHODS, "TRACE", "QUERY"})  # the others are a 501 at any path
_PORT = re.compile(r":[0-9]*$")

# Names the missing setting to operators whose proxy stands before the dashboard.
_UNSUPPORTED = "No path has this method"
# What Litestar would answer, too, is not there: `//account`, `/account/`, `/stats%2Flogs`.
_NOWHERE = "/-/-/-/-/-"
_MISDIRECTED = "This service does not answer under this Host; POSTDATE_ALLOWED_HOSTS may name it"


def create_app(
    settings: Settings, store: Store | None = None, kind: type[App] | None = None
) -> App:
    """The API as an ASGI app, of a further kind if one is given. It opens the store itself unless
    one is given, which stays open."""
    handlers = [handler for room in _ROOMS for handler in room.HANDLERS]
    pages = [dashboard_router(), looking_router()]
    paths = sorted({path for handler in handlers for path in handler.paths})
    app = (kind or App)(
        Service(settings, store),
        # The first one: each path that has none yet gets one of litestar's.
        [route(paths, http_method=HttpMethod.OPTIONS)(tell_methods), *handlers, *pages],
        lifespan=[_running],
        exception_handlers={Exception: on_exception},
        openapi_config=None,  # litestar cannot know what handlers make of a raw body
        logging_config=None,  # each process configures its own log
    )
    app.state.document = document(app.routes, version())
    return app


class Hosts:
    """Under which names this API answers, against DNS rebinding: a site whose name leads to our
    address could read a dashboard that answers under any name. The API itself needs a key.

    The names in the settings, for all paths; or else, for the dashboard, the public address,
    `localhost` and every literal address. Health is answered under any.
    """

    def __init__(self, settings: Settings) -> None:
        names = settings.allowed_hosts or _names_of_its_own(settings)
        self._prefix = "" if settings.allowed_hosts else _DASHBOARD
        self._addresses = not settings.allowed_hosts
        self._allowed = any_of(names)

    def allows(self, host: str, path: str) -> bool:
        """Whether this path is answered under this `host`, with or without a port."""
        if self._allowed is None or not path.startswith(self._prefix) or path in _HEALTH:
            return True
        name = _PORT.sub("", host.lower()).removesuffix(".")
        return self._allowed.fullmatch(name) is not None or (
            self._addresses and parsed(name.strip("[]")) is not None
        )


def _names_of_its_own(settings: Settings) -> list[str]:
    """Empty where the settings do not tell."""
    if settings.public_url is not None:
        return ["localhost", urlsplit(settings.public_url).hostname or ""]
    return ["localhost"] if is_loopback(settings.host) else []


class App(Litestar):
    """Litestar, which also counts each request, judges its Host, answers HEAD as GET, and creates
    schedules by itself.

    HEAD is not a GET on the dashboard: there the GET of a one-time link uses it up, and a program
    that looks ahead by HEAD must not.
    """

    def __init__(self, service: Service, handlers: list[Any], **options: Any) -> None:
        state = State({"service": service})
        super().__init__(handlers, state=state, request_class=HttpRequest, **options)
        _forget_paths(self)
        self._service = service
        self._hosts = Hosts(service.settings)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        with one_call():
            await self._serve(scope, receive, send)

    async def _serve(self, scope: Any, receive: Any, send: Any) -> None:
        service, method, path = self._service, scope["method"], scope["path"]
        status, began_s = 0, time.perf_counter()
        if not _is_exact(scope):
            path = (_DASHBOARD if path.startswith(_DASHBOARD) else "") + _NOWHERE
            scope = {**scope, "path": path}
        if method == "HEAD" and not path.startswith(_DASHBOARD):
            scope = {**scope, "method": "GET"}  # uvicorn sends no body all the same

        def noted(event: Message) -> Awaitable[None]:
            nonlocal status
            if event["type"] == "http.response.start":
                status = event["status"]
                event["headers"] = [*event["headers"], (HEADER, request_id_of(scope).encode())]
            return send(event)  # type: ignore[no-any-return]

        try:
            if not self._hosts.allows((header(scope, b"host") or b"").decode("latin-1"), path):
                body = error_body(scope, _MISDIRECTED, Reason.MISDIRECTED)
                await JsonResponse(421, body)(scope, receive, noted)
            elif method not in _KNOWN_METHODS:
                body = error_body(scope, _UNSUPPORTED, Reason.UNSUPPORTED_METHOD)
                await JsonResponse(501, body)(scope, receive, noted)
            elif path == "*":  # OPTIONS for the server as a whole
                await Options(_METHODS)(scope, receive, noted)
            else:
                await self._in_turn(scope, receive, noted)
        except Exception as error:
            if status:  # an answer has begun
                raise
            await answered(error, scope, service)(scope, receive, noted)
        finally:
            end(scope)
            took_s = time.perf_counter() - began_s
            service.tally.note(scope.get("path_template", "none"), method, status, took_s)

    async def _in_turn(self, scope: Any, receive: Any, send: Any) -> None:
        """Small creates and questions after health, which take little, never wait."""
        service, work = self._service, super().__call__
        if scope["path"] == "/schedule" and scope["method"] == "POST":
            work = partial(_create, service)
            if is_small(scope):
                await work(scope, receive, send)
                return
        elif scope["path"] in _HEALTH:
            await work(scope, receive, send)
            return
        await self._taken(work(scope, receive, send), scope)

    def _taken(self, work: Coroutine[Any, Any, None], scope: Any) -> Awaitable[None]:
        """The work of a request, in the turns of its account."""
        service = self._service
        key = None if service.opened is None else known_key(service, scope)
        payer = Payer(STRANGERS if key is None else key.account_id)
        note_payer(scope, payer)
        return service.turns.taken(work, payer)


async def _create(service: Service, scope: HTTPScope, receive: Receive, send: Send) -> None:
    """Past litestar: its eight coroutines around each handler, for routing, arguments and errors,
    take 20 us. The route of this path is litestar's as well: the OpenAPI document, OPTIONS and 405
    come of it."""
    cast("dict[str, Any]", scope)["path_template"] = scope["path"]
    try:
        answer = await schedule.create(service, scope, receive)
        if (connection := connection_of(scope)) is not None:
            connection.remember_head(scope)
    except Exception as error:
        answer = answered(error, scope, service)
    await answer(scope, receive, send)


async def tell_methods(request: HttpRequest) -> Options:
    """Litestar's own answer knows the methods of a path's first handler only."""
    template = request.scope["path_template"]
    routes = (each for each in request.app.routes if each.path_format == template)
    return Options(method for each in routes for method in each.methods)


@asynccontextmanager
async def _running(app: Litestar) -> AsyncIterator[None]:
    service: Service = app.state.service
    async with service.running():
        yield


def _is_exact(scope: Any) -> bool:
    """Whether the path is spelt as the only spelling of a path is, but for percent signs."""
    path = scope["path"]
    if "//" in path or (path.endswith("/") and path != "/"):
        return False
    raw_path = scope["raw_path"] or b""
    return b"%" not in raw_path or b"%2f" not in raw_path.lower()


def _forget_paths(app: Litestar) -> None:
    """Litestar keeps the last thousand paths and their parameters, one-time links too, and has no
    setting for it. So it routes a path of the same form, without the client's own words."""
    route: Any = inspect.unwrap(app.asgi_router.handle_routing)
    words = {word for each in app.routes for word in each.path_components}

    def routed(path: str, method: str) -> tuple[Any, Any, str, dict[str, str], str]:
        parts = path.split("/")
        form = "/".join([part if part in words or not part else "-" for part in parts])
        app, handler, _, parameters, template = route(form, method)
        if parameters:
            named = zip(template.split("/"), parts, strict=False)
            parameters = {name[1:-1]: part for name, part in named if name.startswith("{")}
        return app, handler, path, parameters, template

    app.asgi_router.handle_routing = cast("Any", routed)
