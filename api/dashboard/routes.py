"""Every page, and what an error looks like on one."""

from __future__ import annotations

import contextlib
import traceback
from dataclasses import replace
from typing import Any, cast

import structlog
from litestar import Response, Router, get, post
from litestar.connection import ASGIConnection
from litestar.exceptions import HTTPException, PermissionDeniedException
from litestar.handlers import BaseRouteHandler
from litestar.params import FromPath

from api.dashboard import jump, keys, lanes, overview, pauses
from api.dashboard.answer import Raw, redirect
from api.dashboard.operators import accounts, audit, holds, system
from api.dashboard.recurring import composer as recurring_composer
from api.dashboard.recurring import listing as recurring_listing
from api.dashboard.recurring import preview, rule
from api.dashboard.render import sentence, static_file
from api.dashboard.requests import bulk, bulk_strip, composer, entry, listing, suggestions
from api.dashboard.viewer import history, members, sign_in
from api.dashboard.viewer.session import (
    SIGN_IN,
    NotSignedIn,
    OwnAccount,
    asked_for,
    back_cookie,
    signed_in,
)
from api.errors import status_of
from api.request_ids import request_id_of
from api.service import HttpRequest, service_of
from scheduler.callers import Role
from scheduler.errors import (
    Damaged,
    KeepsChanging,
    NotFound,
    OutcomeUnknown,
    StoreError,
    StoreFull,
    TooManyLanes,
    Unreadable,
)
from scheduler.store.server.writes import outcome

_log = structlog.get_logger()

_REQUESTS = (listing, suggestions, composer, bulk, bulk_strip, entry)
_RECURRING = (recurring_listing, recurring_composer, preview, rule)
_PAGES = (
    sign_in,
    members,
    history,
    overview,
    jump,
    *_REQUESTS,
    *_RECURRING,
    lanes,
    pauses,
    keys,
    system,
    holds,
    audit,
    accounts,
)
# What an operator sees of an account: nothing that makes or changes something, and no secrets.
_LOOKED_AT = (
    *overview.HANDLERS,
    jump.jump_page,
    *(
        listing.requests_page,
        listing.closed_panel,
        listing.more,
        suggestions.suggest,
        entry.entry_page,
        bulk_strip.strips,
    ),
    *(recurring_listing.recurring_page, rule.rule_page),
    *(lanes.lanes_page, lanes.lane_page, pauses.banner),
)
_READ_ONLY = "An operator only looks at this account: nothing can be changed here"
_NEEDS = {
    Role.ACT: "You may only look at this account: ask one of its owners for another role",
    Role.OWN: "Only owners of this account may do this",
}
_TITLES = {
    400: "That is not valid",
    402: "No credits left",
    403: "Refused",
    404: "Not found",
    409: "Too late",
    412: "Changed meanwhile",
    413: "Too much",
    429: "Too many searches",
}
_OTHER = "Not possible"
# Whose status says less than they do.
_TITLES_OF: dict[type[Exception], str] = {TooManyLanes: _TITLES[413], KeepsChanging: _TITLES[412]}


@get("/{rest:path}")
async def no_such_page(request: HttpRequest, rest: FromPath[str]) -> Raw:
    with contextlib.suppress(NotSignedIn):
        await signed_in(request)
    raise NotFound("There is no such page.")


@post("/{rest:path}")
async def no_such_write(rest: FromPath[str]) -> Raw:
    raise NotFound("There is no such page.")


def dashboard_router() -> Router:
    handlers = [handler for each in _PAGES for handler in each.HANDLERS]
    return Router(
        path="/dashboard",
        route_handlers=[*handlers, static_file, no_such_page],
        guards=[_may],
        exception_handlers={Exception: cast("Any", _on_exception)},
    )


def looking_router() -> Router:
    """The same pages of any account, for operators, at an address that names it. Its writes are all
    there, and all refused."""
    handlers = [each for page in (*_REQUESTS, *_RECURRING, lanes, pauses) for each in page.HANDLERS]
    writes = [
        each for each in handlers if "POST" in each.http_methods and each is not composer.echo
    ]
    return Router(
        path="/dashboard/as/{looked_at:str}",
        route_handlers=[*_LOOKED_AT, *writes, no_such_page, no_such_write],
        guards=[_reads_only],
        exception_handlers={Exception: cast("Any", _on_exception)},
    )


async def _may(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """Before any handler: it names the role that it `needs`; to write needs one that may act, and
    to read none. Raises PermissionDeniedException."""
    writes = connection.scope.get("method") not in ("GET", "HEAD")
    needed = handler.opt.get("needs", Role.ACT if writes else Role.READ)
    if needed == Role.READ:
        return
    with contextlib.suppress(NotSignedIn):  # the handler says so
        viewer = await signed_in(cast("HttpRequest", connection))
        if not viewer.role.allows(needed):
            raise PermissionDeniedException(_NEEDS[needed])


def _reads_only(connection: ASGIConnection[Any, Any, Any, Any], _: BaseRouteHandler) -> None:
    """Before any handler, so none can forget it. Raises PermissionDeniedException."""
    if connection.scope.get("method") not in ("GET", "HEAD"):
        raise PermissionDeniedException(_READ_ONLY)


def _on_exception(request: HttpRequest, error: Exception) -> Response[Any]:
    if isinstance(error, NotSignedIn):
        back = back_cookie(request, asked_for(request))
        answer = redirect(request, SIGN_IN, as_a_whole=True).with_cookie(back)
    elif isinstance(error, OwnAccount):
        answer = replace(redirect(request, error.page, as_a_whole=True), leads_out=True)
    else:
        answer = sentence(request, *_page_of(request, error))
    return cast("Response[Any]", answer)


def _page_of(request: HttpRequest, error: Exception) -> tuple[int, str, str]:
    """The status, the title and the text of its page."""
    error = outcome(error)
    if isinstance(error, HTTPException) and error.status_code < 500:
        return error.status_code, _TITLES.get(error.status_code, _OTHER), f"{error.detail}."
    if isinstance(error, Damaged):
        return 500, "Cannot be read", f"{error}."
    if isinstance(error, Unreadable) and not error.key_id:
        return (
            500,
            "Cannot be read",
            "Its stored data is damaged: an operator can look.",
        )
    if isinstance(error, StoreError):
        service_of(request).outage.note(error, request_id_of(request.scope))
    if isinstance(error, OutcomeUnknown) and request.method == "POST":
        text = "The store's answer was lost: it may or may not have been done."
        return 503, "Unknown", f"{text} Look before you try again."
    if isinstance(error, StoreFull):
        text = "The store is full: nothing new can be stored until there is room."
        return 503, "No room left", f"{text} Existing schedules are kept and fired."
    if isinstance(error, StoreError):
        text = "The store does not answer right now. Schedules are kept; try again soon."
        return 503, "A moment, please", text
    status = status_of(error)
    if status < 500:
        title = _TITLES_OF.get(type(error)) or _TITLES.get(status, _OTHER)
        return status, title, f"{str(error).rstrip('.')}."
    # As text: a log that shows the variables of every frame would show cookies.
    trace = "".join(traceback.format_exception(error))
    path = _without_secret(request.scope["path"])
    name = request_id_of(request.scope)
    _log.error("page failed", path=path, request_id=name, exception=trace)
    return 500, "Something went wrong", "It has been written to the log."


def _without_secret(path: str) -> str:
    """A one-time link's path has its secret in it."""
    return path.rpartition("/")[0] + "/…" if path.startswith("/dashboard/link/") else path
