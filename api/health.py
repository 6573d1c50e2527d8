"""GET /healthz, GET /readyz: for load balancers; no key."""

from __future__ import annotations

import asyncio

from litestar import get

from api.answer import Answer
from api.bodies import HealthBody
from api.errors import Draining
from api.query import read_query
from api.service import HttpRequest, service_of
from scheduler.errors import StoreUnavailable

_PATIENCE_S = 2.0


@get("/healthz", operation_id="getHealth", summary="Alive?")
async def healthz(request: HttpRequest) -> Answer:
    """This process is alive, whatever the store does."""
    read_query(request.scope["query_string"])
    return Answer(200, HealthBody("ok"))


@get("/readyz", operation_id="getReadiness", summary="Able to serve?")
async def readyz(request: HttpRequest) -> Answer:
    """This process can serve: the store answers, and it is not about to end."""
    read_query(request.scope["query_string"])
    service = service_of(request)
    if service.draining:
        raise Draining("The service is draining")
    try:
        async with asyncio.timeout(_PATIENCE_S):
            await service.store.ping()
    except TimeoutError:
        raise StoreUnavailable("The store does not answer.") from None
    return Answer(200, HealthBody("ready"))
