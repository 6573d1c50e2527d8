"""GET /: where somebody arrives who knows the host only; no key."""

from __future__ import annotations

from litestar import get

from api.answer import Answer
from api.query import read_query
from api.service import HttpRequest

_DASHBOARD, _DOCUMENT = "/dashboard", "/schema"


@get("/")
async def get_root(request: HttpRequest) -> Answer:
    """A browser is led to the dashboard; others are told where things are."""
    read_query(request.scope["query_string"])
    where = {"service": "postdate", "dashboard": _DASHBOARD, "documentation": _DOCUMENT}
    headers = {"vary": "accept"}
    if "text/html" in request.headers.get("accept", ""):
        return Answer(303, where, headers | {"location": _DASHBOARD})
    return Answer(200, where, headers)
