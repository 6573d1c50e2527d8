"""HEAD and OPTIONS, which every path has, and what `Allow` names."""

from __future__ import annotations

import inspect
import time
from collections.abc import Awaitable, Iterable, Mapping
from typing import Any, cast

from litestar import Litestar
from litestar.types import (
    ASGIApp,
    LifeSpanReceive,
    LifeSpanScope,
    LifeSpanSend,
    Message,
    Receive,
    Scope,
    Send,
)

from api.answer import Answer
from api.bodies import ErrorBody
from api.hosts import Hosts
from api.reading import end, header
from api.service import HttpRequest
from api.tally import Tally


def allow(methods: Iterable[str]) -> str:
    """The value of `Allow` where these methods have handlers."""
    named = set(methods)
    return ", ".join(sorted(named | {"HEAD"} if "GET" in named else named))


class Options:
    """The answer to OPTIONS: no body, and all methods of the path."""

    def __init__(self, methods: Iterable[str]) -> None:
        self._headers = [(b"allow", allow(methods).encode()), (b"content-length", b"0")]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": self._headers})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def tell_methods(request: HttpRequest) -> Options:
    """Litestar's own answer knows those of a path's first handler only."""
    template = request.scope["path_template"]
    routes = (each for each in request.app.routes if each.path_format == template)
    return Options(method for each in routes for method in each.methods)


# Whoever put a proxy before a dashboard of his own is to see what is missing.
_MISDIRECTED = Answer(
    421,
    ErrorBody("This service does not answer under this Host; POSTDATE_ALLOWED_HOSTS may name it"),
)


class App(Litestar):
    """Litestar, where HEAD is answered as GET is, without the body; and each request is counted.
    What is `direct`, by method and path, is not led through litestar.

    Not so on the dashboard: there the GET of a one-time link uses it up, and what looks ahead by
    HEAD must not.
    """

    def __init__(
        self,
        *args: Any,
        tally: Tally,
        hosts: Hosts,
        direct: Mapping[tuple[str, str], ASGIApp],
        **options: Any,
    ) -> None:
        super().__init__(*args, **options, request_class=HttpRequest)
        _forget_paths(self)
        self._direct = direct
        self._tally = tally
        self._hosts = hosts

    async def __call__(
        self,
        scope: Scope | LifeSpanScope,
        receive: Receive | LifeSpanReceive,
        send: Send | LifeSpanSend,
    ) -> None:
        asked = cast("dict[str, Any]", scope)
        if asked["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        method, status, began_s = asked["method"], 0, time.perf_counter()
        app = self._direct.get((method, asked["path"]), super().__call__)
        if method == "HEAD" and not asked["path"].startswith("/dashboard"):
            asked = {**scope, "method": "GET"}
            send = _without_body(cast("Send", send))

        def noted(event: Message) -> Awaitable[None]:
            nonlocal status
            if event["type"] == "http.response.start":
                status = event["status"]
            return cast("Send", send)(event)

        try:
            if self._is_misdirected(cast("Scope", asked)):
                await _MISDIRECTED(asked, receive, noted)  # type: ignore[arg-type]
            else:
                await app(cast("Scope", asked), cast("Receive", receive), cast("Send", noted))
        finally:
            end(asked)  # type: ignore[arg-type]
            took_s = time.perf_counter() - began_s
            self._tally.note(asked.get("path_template", "none"), method, status, took_s)

    def _is_misdirected(self, scope: Scope) -> bool:
        host = header(scope, b"host") or b""
        return not self._hosts.allows(host.decode("latin-1"), scope["path"])


def _forget_paths(app: Litestar) -> None:
    """Litestar keeps the last thousand paths and their parameters, one-time links too, and has no
    setting for it. So it routes a path of the same form, without a word of the client's."""
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


def _without_body(send: Send) -> Send:
    async def sent(event: Message) -> None:
        if event["type"] == "http.response.body":
            event = {**event, "body": b""}
        await send(event)

    return sent
