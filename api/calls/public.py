"""What needs no key: GET /, the API's description for people and programs, and its health."""

from __future__ import annotations

import functools
from pathlib import Path

from litestar import Litestar, get
from litestar.params import FromPath

from api.answer import JsonResponse
from api.errors import RETRY, error_body
from api.schema.bodies import HealthBody
from api.schema.query import read_query
from api.service import HttpRequest, service_of
from scheduler.errors import NotFound, Reason

_STATIC = Path(__file__).parent.parent / "static"
_ASSETS = {
    "swagger-ui-bundle.js": "swagger-ui/swagger-ui-bundle.js",
    "swagger-ui.css": "swagger-ui/swagger-ui.css",
    "schema.js": "schema.js",
}
_TYPES = {".js": "text/javascript", ".css": "text/css", ".html": "text/html"}
# The renderer may ask no other host. Its icons are data: URLs.
_PAGE_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "referrer-policy": "no-referrer",
}
_ASSET_HEADERS = {"cache-control": "public, max-age=86400"}


# A few local files, each once in memory: slow readers share it.
_content = functools.cache(Path.read_bytes)


class File(JsonResponse):
    """One of our files as an answer."""

    __slots__ = ()
    fixed = ((b"x-content-type-options", b"nosniff"),)

    def __init__(self, name: str, headers: dict[str, str]) -> None:
        path = _STATIC / name
        self.status, self.body = 200, _content(path)
        content_type = f"{_TYPES[path.suffix]}; charset=utf-8"
        self.headers = {"content-type": content_type, **headers}


@get("/")
async def get_root(request: HttpRequest) -> JsonResponse:
    """Leads browsers to the dashboard; tells others where things are."""
    read_query(request.scope["query_string"])
    where = {"service": "postdate", "dashboard": "/dashboard", "documentation": "/schema"}
    headers = {"vary": "accept"}
    if "text/html" in request.headers.get("accept", ""):
        return JsonResponse(303, where, headers | {"location": "/dashboard"})
    return JsonResponse(200, where, headers)


@get("/schema")
async def browse_schema(request: HttpRequest) -> File:
    """A page to read the document and to try it."""
    read_query(request.scope["query_string"])
    return File("schema.html", _PAGE_HEADERS)


@get("/schema/assets/{name:str}")
async def get_asset(request: HttpRequest, name: FromPath[str]) -> File:
    """The page's own files: no other host learns who reads it."""
    read_query(request.scope["query_string"])
    if name not in _ASSETS:
        raise NotFound("Not found")
    return File(_ASSETS[name], _ASSET_HEADERS)


@get("/schema/openapi.json")
async def get_schema(request: HttpRequest) -> JsonResponse:
    """The OpenAPI document."""
    read_query(request.scope["query_string"])
    app: Litestar = request.app
    return JsonResponse(200, app.state.document)


@get("/healthz", operation_id="getHealth", summary="Liveness")
async def healthz(request: HttpRequest) -> JsonResponse:
    """This process is alive, whether or not the store can be reached. Any query is ignored, as in
    `/readyz`: probes add one against caches."""
    return JsonResponse(200, HealthBody("ok"))


@get("/readyz", operation_id="getReadiness", summary="Readiness")
async def readyz(request: HttpRequest) -> JsonResponse:
    """This process can serve: the store answers, and it is not about to end."""
    service = service_of(request)
    if service.draining:
        body = error_body(request.scope, "The service is draining", Reason.DRAINING)
        return JsonResponse(503, body, RETRY)
    await service.reach_store()
    return JsonResponse(200, HealthBody("ready"))


HANDLERS = [get_root, browse_schema, get_schema, get_asset, healthz, readyz]
