"""Every page, and what an error looks like on one."""

from __future__ import annotations

import contextlib
import traceback
from typing import Any, cast

import structlog
from litestar import Request, Response, Router, get
from litestar.exceptions import HTTPException
from litestar.params import FromPath

from api.dashboard import credits, holder, keys, overview, signin, system
from api.dashboard.answer import Raw, redirect
from api.dashboard.csrf import Forbidden
from api.dashboard.render import sentence
from api.dashboard.requests import actions, bulk, composer, entry, listing
from api.dashboard.session import SIGN_IN, NotSignedIn, asked_for, back_cookie, signed_in
from api.dashboard.static import static_file
from api.reading import BodyEncoded, BodyTooLarge, ClientDisconnected
from api.service import HttpRequest, service_of
from scheduler.errors import (
    Conflict,
    Damaged,
    InsufficientCredits,
    InvalidRequest,
    NotFound,
    OutcomeUnknown,
    PostdateError,
    QuotaExceeded,
    StoreError,
    StoreFull,
    Suspended,
)

_log = structlog.get_logger()

_PAGES = (
    signin,
    overview,
    listing,
    composer,
    bulk,
    entry,
    actions,
    keys,
    credits,
    holder,
    system,
)
# Of each error: the status, and the title of its page.
_TOLD: tuple[tuple[type[PostdateError], int, str], ...] = (
    (NotFound, 404, "Not found"),
    (InsufficientCredits, 402, "No credits left"),
    (InvalidRequest, 400, "That is not valid"),
    (Conflict, 409, "Too late"),
    (Forbidden, 403, "Refused"),
    (Suspended, 403, "Suspended"),
    (BodyTooLarge, 413, "Too large"),
    (QuotaExceeded, 413, "No room left"),
    (BodyEncoded, 415, "Encoded"),
    (ClientDisconnected, 400, "Incomplete"),
    (Damaged, 500, "Cannot be read"),
)


@get("/{rest:path}")
async def no_such_page(request: HttpRequest, rest: FromPath[str]) -> Raw:
    with contextlib.suppress(NotSignedIn):
        await signed_in(request)
    raise NotFound("There is no such page.")


def dashboard_router() -> Router:
    handlers = [handler for each in _PAGES for handler in each.HANDLERS]
    return Router(
        path="/dashboard",
        route_handlers=[*handlers, static_file, no_such_page],
        exception_handlers={Exception: _on_exception},
    )


def _on_exception(asked: Request[Any, Any, Any], error: Exception) -> Response[Any]:
    request = cast("HttpRequest", asked)
    if isinstance(error, StoreError):
        service_of(request).outage.note(error)
    return cast("Response[Any]", _answer(request, error))


def _answer(request: HttpRequest, error: Exception) -> Raw:
    if isinstance(error, NotSignedIn):
        return redirect(request, SIGN_IN, as_a_whole=True).with_cookie(
            back_cookie(request, asked_for(request))
        )
    status, title, text = _told(request, error)
    return sentence(request, status, title, text)


def _told(request: HttpRequest, error: Exception) -> tuple[int, str, str]:
    """The status, the title and the text of its page."""
    if isinstance(error, HTTPException) and error.status_code < 500:
        return error.status_code, "Not possible", f"{error.detail}."
    for kind, status, title in _TOLD:
        if isinstance(error, kind):
            return status, title, f"{str(error).rstrip('.')}."
    if isinstance(error, OutcomeUnknown) and request.method == "POST":
        text = "The store's answer was lost: it may or may not have been done."
        return 503, "Unknown", f"{text} Look before you try again."
    if isinstance(error, StoreFull):
        text = "The store is full: nothing new can be stored until there is room."
        return 503, "No room left", f"{text} What was scheduled is kept and is fired."
    if isinstance(error, StoreError):
        text = "The store does not answer right now. What was scheduled is kept; try again soon."
        return 503, "A moment, please", text
    # As text: a log that shows the variables of every frame would show cookies.
    trace = "".join(traceback.format_exception(error))
    _log.error("page failed", path=_without_secret(request.scope["path"]), exception=trace)
    return 500, "Something went wrong", "It has been written to the log."


def _without_secret(path: str) -> str:
    """A one-time link's path has its secret in it."""
    return path.rpartition("/")[0] + "/…" if path.startswith("/dashboard/link/") else path
