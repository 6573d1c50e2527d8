"""The log, filtered by what the address says, so that a view can be shared."""

from __future__ import annotations

from urllib.parse import urlencode

from litestar import get

from api.dashboard.answer import Raw
from api.dashboard.render import page
from api.dashboard.session import signed_in
from api.query import moment
from api.service import HttpRequest, service_of
from scheduler.errors import InvalidRequest
from scheduler.models import LogStatus
from scheduler.store.log.logs import LogPage, LogQuery

_PER_PAGE = 50
# Our idea of the store's clock may be behind it by as long as a reply takes.
_CLOCK_TOLERANCE_MS = 100
_FILTERS = ("status", "url", "from", "to")


@get("/logs", include_in_schema=False)
async def logs_page(request: HttpRequest) -> Raw:
    viewer = await signed_in(request)
    store = service_of(request).store
    asked = {name: request.query_params.get(name, "").strip() for name in _FILTERS}
    cursor = request.query_params.get("cursor") or None
    found = LogPage([], None)
    faults: dict[str, str] = {}
    try:
        query = _query(asked, cursor, faults, store.clock.now_ms())
        if not faults:
            found = await store.logs.page(viewer.account_id, query)
    except InvalidRequest:
        faults["cursor"] = "This page of the log is not there; begin at the first one."
    filters = {name: value for name, value in asked.items() if value}
    return page(
        request,
        viewer,
        "logs.html",
        status=400 if faults else 200,
        entries=found.entries,
        asked=asked,
        filters=filters,
        faults=faults,
        statuses=list(LogStatus),
        cursor=cursor,
        first="?" + urlencode(filters),
        more="?" + urlencode({**filters, "cursor": found.next_cursor})
        if found.next_cursor
        else None,
        now_ms=store.clock.now_ms(),
    )


def _query(
    asked: dict[str, str], cursor: str | None, faults: dict[str, str], now_ms: int
) -> LogQuery:
    """What the filters ask for; what cannot be read is named in `faults`, and left out.

    Unless a time or what waits is asked for, the log ends now: what is to come would be first.
    """
    times: dict[str, int | None] = {}
    for name in ("from", "to"):
        try:
            times[name] = moment(asked[name]) if asked[name] else None
        except ValueError as error:
            times[name], faults[name] = None, str(error)
    status = None
    if asked["status"]:
        try:
            status = LogStatus(asked["status"])
        except ValueError:
            faults["status"] = "There is no such status."
    if status is not LogStatus.SCHEDULED and times["to"] is None:
        times["to"] = now_ms + _CLOCK_TOLERANCE_MS
    return LogQuery(
        status=status,
        url=asked["url"] or None,
        from_ms=times["from"],
        to_ms=times["to"],
        limit=_PER_PAGE,
        cursor=cursor,
    )


HANDLERS = [logs_page]
