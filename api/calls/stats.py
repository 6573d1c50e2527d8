"""GET /stats, /stats/logs, /stats/remaining-credits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from litestar import get

from api.answer import JsonResponse
from api.auth import call_of
from api.schema.account_bodies import CreditsBody
from api.schema.bodies import LOG_ENTRY, USAGE, LogsBody
from api.schema.findings import invalid
from api.schema.query import DEFAULT_LIMIT, EXECUTIONS, LOGGED_BY_DEFAULT, OF_LOGS, PERIOD, Walk
from api.service import HttpRequest
from scheduler.durations import DAY_MS
from scheduler.errors import FieldError
from scheduler.runtime.pause import collected
from scheduler.store.log.logs import LogQuery

_MINUTE_MS = 60_000
_CLOCK_TOLERANCE_MS = 100


@get("/stats", operation_id="getUsage", summary="Usage statistics")
async def get_usage(request: HttpRequest) -> JsonResponse:
    """Counts the executions of a period: the last 30 days unless `from` and `to` say otherwise."""
    call = await call_of(request, PERIOD)
    from_ms, to_ms = period(call.query, call.store.clock.now_ms())
    return JsonResponse(
        200, USAGE.of(await call.store.stats.usage(call.account_id, from_ms, to_ms))
    )


@get("/stats/logs", operation_id="listLogs", summary="The execution log")
async def list_logs(request: HttpRequest) -> JsonResponse:
    """Shows one page of the log. For the next page, give its `nextCursor` as `cursor`. A page may
    be shorter than its `limit` before the end, which is where `nextCursor` is null. Entries
    `retrying` and `skipped` come only if `status` asks for them."""
    call = await call_of(request, OF_LOGS)
    query, asked = call.query, log_query(call.query)
    order = "desc" if asked.descending else "asc"
    names = ("targetUrl", "scheduleId", "lane", "reference", "label", "recurringId", "callback")
    walk = Walk("/stats/logs", order, ",".join(asked.statuses), *map(query.get, names))
    asked = asked._replace(cursor=walk.taken_back(query["cursor"]))
    page = await call.store.logs.page(call.account_id, asked)
    entries = await collected(map(LOG_ENTRY.of, page.entries))
    return JsonResponse(200, LogsBody(entries, walk.given_out(page.next_cursor)))


@get("/stats/remaining-credits", operation_id="getCredits", summary="The credit balance")
async def get_credits(request: HttpRequest) -> JsonResponse:
    """Shows how many more schedules the account can pay for."""
    call = await call_of(request)
    account = await call.store.accounts.get(call.account_id)
    return JsonResponse(200, CreditsBody(account.credits))


def period(query: Mapping[str, int | None], now_ms: int) -> tuple[int, int]:
    """The period that statistics are asked for. Raises InvalidRequest.

    Without `to` it ends with the current second, which includes the last executions though this
    process may be a few ms behind the store's clock. Without `from` it begins 30 days before its
    end, on a whole minute.
    """
    from_ms, to_ms = query["from"], query["to"]
    if to_ms is None:
        to_ms = (now_ms + _CLOCK_TOLERANCE_MS) // 1000 * 1000 + 1000
        if from_ms is not None and from_ms > to_ms:
            message = "It may not be in the future unless to is given."
            raise invalid([FieldError("from", message)])
    if from_ms is None:
        from_ms = -((30 * DAY_MS - to_ms) // _MINUTE_MS) * _MINUTE_MS
    return from_ms, to_ms


def log_query(query: Mapping[str, Any]) -> LogQuery:
    return LogQuery(
        statuses=query["status"] or (EXECUTIONS if query["callback"] else LOGGED_BY_DEFAULT),
        url=query["targetUrl"],
        from_ms=query["from"],
        to_ms=query["to"],
        limit=query["limit"] or DEFAULT_LIMIT,
        descending=(query["order"] or ("asc" if query["scheduleId"] else "desc")) == "desc",
        cursor=query["cursor"],
        schedule_id=query["scheduleId"],
        lane=query["lane"],
        reference=query["reference"],
        label=query["label"],
        recurring_id=query["recurringId"],
        callback=query["callback"],
    )


HANDLERS = [get_usage, list_logs, get_credits]
