"""GET /stats, /stats/logs, /stats/remaining-credits."""

from __future__ import annotations

from litestar import get

from api.answer import Answer
from api.auth import authenticate
from api.bodies import log_entry_body, usage_body
from api.query import DEFAULT_LIMIT, Query, one_of
from api.schemas import CreditsBody, LogsBody
from api.service import HttpRequest, service_of
from scheduler.models import Status
from scheduler.settings import DAY_MS
from scheduler.store.log.logs import LogQuery

DEFAULT_PERIOD_MS = 30 * DAY_MS

_MINUTE_MS = 60_000
_CLOCK_TOLERANCE_MS = 100
_NO_PARAMETERS: frozenset[str] = frozenset()
_PERIOD_PARAMETERS = frozenset({"from", "to"})
_LOG_PARAMETERS = _PERIOD_PARAMETERS | {"status", "targetUrl", "limit", "order", "cursor"}


@get("/stats", operation_id="getUsage", summary="Usage statistics")
async def get_usage(request: HttpRequest) -> Answer:
    """Executions of a period, counted; the last 30 days unless `from` and `to` say otherwise."""
    service = service_of(request)
    caller = await authenticate(service, request.scope)
    store = service.store
    query = Query(request.scope["query_string"], _PERIOD_PARAMETERS)
    from_ms, to_ms = period(query, store.clock.now_ms())
    return Answer(200, usage_body(await store.stats.usage(caller.account_id, from_ms, to_ms)))


@get("/stats/logs", operation_id="listLogs", summary="The execution log")
async def list_logs(request: HttpRequest) -> Answer:
    """One page of the log; `cursor` takes the `nextCursor` of the page before."""
    service = service_of(request)
    caller = await authenticate(service, request.scope)
    wanted = log_query(Query(request.scope["query_string"], _LOG_PARAMETERS))
    page = await service.store.logs.page(caller.account_id, wanted)
    return Answer(
        200, LogsBody([log_entry_body(entry) for entry in page.entries], page.next_cursor)
    )


@get("/stats/remaining-credits", operation_id="getCredits", summary="The credit balance")
async def get_credits(request: HttpRequest) -> Answer:
    """How many more requests the account can pay for."""
    service = service_of(request)
    caller = await authenticate(service, request.scope)
    Query(request.scope["query_string"], _NO_PARAMETERS).refuse_if_bad()
    remaining = await service.store.accounts.credits(caller.account_id)
    return Answer(200, CreditsBody(remaining))


def period(query: Query, now_ms: int) -> tuple[int, int]:
    """The period that statistics are asked for. Raises InvalidRequest.

    Without `to` it ends with the current second: what was executed a moment ago is in it, though
    this process may be a few ms behind the store's clock. Without `from` it begins 30 days before
    its end, on a whole minute.
    """
    from_ms, to_ms = query.period()
    if to_ms is None:
        to_ms = (now_ms + _CLOCK_TOLERANCE_MS) // 1000 * 1000 + 1000
        if from_ms is not None and from_ms > to_ms:
            query.find("from", "It may not be in the future unless to is given.")
    query.refuse_if_bad()
    if from_ms is None:
        from_ms = -((DEFAULT_PERIOD_MS - to_ms) // _MINUTE_MS) * _MINUTE_MS
    return from_ms, to_ms


def log_query(query: Query) -> LogQuery:
    """The page of the log that is asked for. Raises InvalidRequest."""
    status = query.get("status", one_of(*Status))
    url = query.get("targetUrl", str)
    from_ms, to_ms = query.period()
    limit, order, cursor = query.page()
    query.refuse_if_bad()
    return LogQuery(
        status=None if status is None else Status(status),
        url=url,
        from_ms=from_ms,
        to_ms=to_ms,
        limit=limit or DEFAULT_LIMIT,
        descending=order != "asc",
        cursor=cursor,
    )
