"""GET /, /schema, /schema/openapi.json: this API described, for people and programs; no key."""

from __future__ import annotations

import functools
from pathlib import Path

from litestar import Litestar, get
from litestar.params import FromPath
from litestar.types import Receive, Scope, Send

from api.answer import Answer
from api.query import read_query
from api.service import HttpRequest
from scheduler.errors import NotFound

_STATIC = Path(__file__).parent / "static"
_JAVASCRIPT, _CSS = "text/javascript; charset=utf-8", "text/css; charset=utf-8"
_ASSETS = {
    "swagger-ui-bundle.js": (_STATIC / "swagger-ui/swagger-ui-bundle.js", _JAVASCRIPT),
    "swagger-ui.css": (_STATIC / "swagger-ui/swagger-ui.css", _CSS),
    "schema.js": (_STATIC / "schema.js", _JAVASCRIPT),
}
# Nothing is asked of another host, whatever the renderer would like. Its icons are data: URLs.
_PAGE_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "referrer-policy": "no-referrer",
}
_ASSET_HEADERS = {"cache-control": "public, max-age=86400"}


# A few local files, each once in memory: clients that read slowly would all hold one of their own.
_content = functools.cache(Path.read_bytes)


class File:
    """A file as an answer."""

    def __init__(self, path: Path, content_type: str, headers: dict[str, str]) -> None:
        self._path = path
        headers = {"content-type": content_type, "x-content-type-options": "nosniff", **headers}
        self._headers = [(name.encode(), value.encode()) for name, value in headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        content = _content(self._path)
        headers = [*self._headers, (b"content-length", b"%d" % len(content))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content, "more_body": False})


@get("/")
async def get_root(request: HttpRequest) -> Answer:
    """For somebody who knows the host only: a browser is led to the dashboard, others read where
    things are."""
    read_query(request.scope["query_string"])
    where = {"service": "postdate", "dashboard": "/dashboard", "documentation": "/schema"}
    headers = {"vary": "accept"}
    if "text/html" in request.headers.get("accept", ""):
        return Answer(303, where, headers | {"location": "/dashboard"})
    return Answer(200, where, headers)


@get("/schema")
async def browse_schema(request: HttpRequest) -> File:
    """A page to read the document in, and to try it."""
    read_query(request.scope["query_string"])
    return File(_STATIC / "schema.html", "text/html; charset=utf-8", _PAGE_HEADERS)


@get("/schema/assets/{name:str}")
async def get_asset(request: HttpRequest, name: FromPath[str]) -> File:
    """What the page is made of, served from here: no other host learns who reads it."""
    read_query(request.scope["query_string"])
    if name not in _ASSETS:
        raise NotFound("Not found")
    return File(*_ASSETS[name], _ASSET_HEADERS)


@get("/schema/openapi.json")
async def get_schema(request: HttpRequest) -> Answer:
    """The OpenAPI document."""
    read_query(request.scope["query_string"])
    app: Litestar = request.app
    return Answer(200, app.state.document)
