"""Addresses of the dashboard's first edition, which were bookmarked and sent around."""

from __future__ import annotations

from urllib.parse import urlencode

from litestar import get
from litestar.params import FromPath

from api.dashboard.answer import Raw, redirect
from api.dashboard.requests.filters import ADDRESS
from api.service import HttpRequest


@get("/schedules", include_in_schema=False)
async def schedules(request: HttpRequest) -> Raw:
    query = {"q": request.query_params.get("q", ""), "status": "scheduled"}
    return _to(request, query)


@get("/schedules/{schedule_id:str}", include_in_schema=False)
async def schedule(request: HttpRequest, schedule_id: FromPath[str]) -> Raw:
    known = schedule_id if schedule_id.isascii() and schedule_id.isidentifier() else ""
    return redirect(request, f"{ADDRESS}/{known}")


@get("/logs", include_in_schema=False)
async def logs(request: HttpRequest) -> Raw:
    given = request.query_params
    query = {name: given.get(name, "") for name in ("status", "from", "to")}
    return _to(request, query | {"q": given.get("url", "")})


def _to(request: HttpRequest, query: dict[str, str]) -> Raw:
    return redirect(request, f"{ADDRESS}?{urlencode({k: v for k, v in query.items() if v})}")


HANDLERS = [schedules, schedule, logs]
