"""GET /healthz, GET /readyz: for load balancers and for `up`; no key."""

from __future__ import annotations

import asyncio

from litestar import HttpMethod, route

from api.answer import Answer
from api.errors import Draining
from api.schemas import HealthBody
from api.service import HttpRequest, service_of
from scheduler.errors import StoreUnavailable

_PATIENCE_S = 2.0
_METHODS = [HttpMethod.GET, HttpMethod.HEAD]


@route("/healthz", http_method=_METHODS, operation_id="getHealth", summary="Alive?")
async def healthz(request: HttpRequest) -> Answer:
    """This process is alive, whatever the store does."""
    return Answer(200, HealthBody("ok"))


@route("/readyz", http_method=_METHODS, operation_id="getReadiness", summary="Able to serve?")
async def readyz(request: HttpRequest) -> Answer:
    """This process can serve: the store answers, and it is not about to end."""
    service = service_of(request)
    if service.draining:
        raise Draining
    try:
        async with asyncio.timeout(_PATIENCE_S):
            await service.store.ping()
    except TimeoutError:
        raise StoreUnavailable("The store does not answer.") from None
    return Answer(200, HealthBody("ready"))
