"""A target that answers everybody: what a first request can be sent to, and be seen to arrive."""

from __future__ import annotations

from litestar import HttpMethod, route

from api.dashboard.answer import Raw, data
from api.reading import read_body
from api.service import HttpRequest

# More is refused: nothing here keeps what it is sent.
_MOST_BYTES = 256 * 1024
_TOLD = ("postdate-schedule-id", "postdate-trigger-at", "postdate-attempt", "content-type")


@route(
    "/echo",
    http_method=[
        HttpMethod.GET,
        HttpMethod.POST,
        HttpMethod.PUT,
        HttpMethod.PATCH,
        HttpMethod.DELETE,
    ],
    include_in_schema=False,
)
async def echo(request: HttpRequest) -> Raw:
    """200, and what of the request came in; nobody has to sign in for it."""
    body = await read_body(request.scope, request.receive, _MOST_BYTES)
    headers = {name: request.headers[name] for name in _TOLD if name in request.headers}
    return data({"method": request.method, "headers": headers, "bodyBytes": len(body)})


HANDLERS = [echo]
