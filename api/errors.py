"""Errors to answers: the one place where an exception becomes a status code."""

from __future__ import annotations

import traceback
from contextlib import suppress
from typing import Any, cast

import structlog
from litestar import Response
from litestar.exceptions import HTTPException
from litestar.types import HTTPScope, Receive, Scope, Send
from msgspec.structs import replace

from api.answer import JsonResponse, allow
from api.auth import RateLimited, Unauthorized, authenticate, is_keyed
from api.reading import BodyEncoded, BodyTooLarge, ClientDisconnected, trace_id_of
from api.request_ids import request_id_of
from api.schema.bodies import ConflictBody, DetailedErrorBody, ErrorBody
from api.schema.findings import details_of
from api.service import HttpRequest, Service, service_of
from scheduler.errors import (
    Conflict,
    Damaged,
    FieldError,
    InsufficientCredits,
    InvalidRequest,
    KeyReused,
    NotFound,
    OutcomeUnknown,
    PostdateError,
    PreconditionFailed,
    QuotaExceeded,
    Reason,
    StoreError,
    StoreReplaced,
    Suspended,
    TooManyResends,
    TooManyScans,
    TooManySecrets,
    TooManyUpserts,
    Unreadable,
)
from scheduler.store.server.writes import outcome

_log = structlog.get_logger()

_REPEAT_CREATE = "Outcome unknown; repeat with the same Idempotency-Key"
_REPEAT = "Outcome unknown; repeat the request"
_WITHOUT_KEY = ("/schedule/cancel", "/callback", "/pause", "/resume")
_CHALLENGE = {"www-authenticate": 'Bearer realm="Postdate", ApiKey realm="Postdate"'}
RETRY = {"retry-after": "1"}


# Of each error, the first that fits: its status, and further headers.
_KINDS: tuple[tuple[type[PostdateError], int, dict[str, str]], ...] = (
    (InvalidRequest, 400, {}),
    (ClientDisconnected, 400, {}),
    (Unauthorized, 401, _CHALLENGE),
    (InsufficientCredits, 402, {}),
    (Suspended, 403, {}),
    (NotFound, 404, {}),
    (Conflict, 409, {}),
    (TooManySecrets, 409, {}),
    (PreconditionFailed, 412, {}),
    (BodyTooLarge, 413, {}),
    (QuotaExceeded, 413, {}),
    (BodyEncoded, 415, {"accept-encoding": "identity"}),
    (KeyReused, 422, {}),
    (RateLimited, 429, {}),
    (TooManyResends, 429, {}),
    (TooManyScans, 429, {}),
    (TooManyUpserts, 429, {}),
    (Damaged, 500, {}),
    (StoreError, 503, RETRY),
)
_FRAMEWORKS = {404: Reason.NOT_FOUND, 405: Reason.METHOD_NOT_ALLOWED}


def _kind_of(error: Exception) -> tuple[int, dict[str, str]]:
    for kind, status, headers in _KINDS:
        if isinstance(error, kind):
            return status, headers
    return 500, {}


def status_of(error: Exception) -> int:
    """The status that answers this error, or stands as `code` in an item of many."""
    return _kind_of(error)[0]


def _reason_of(error: Exception, scope: Scope) -> Reason:
    if isinstance(error, HTTPException) and error.status_code < 500:
        return _FRAMEWORKS.get(error.status_code, Reason.MALFORMED_REQUEST)
    if not isinstance(error, PostdateError):
        return Reason.INTERNAL_ERROR
    unknown = isinstance(error, OutcomeUnknown) and not _may_have_changed(scope)
    return Reason.STORE_UNAVAILABLE if unknown else error.reason


def _may_have_changed(scope: Scope) -> bool:
    return cast("HTTPScope", scope)["method"] != "GET"


def error_body(scope: Scope, sentence: str, reason: Reason) -> ErrorBody:
    return ErrorBody(sentence, reason, request_id_of(scope))


def _answer_to(error: Exception, scope: HTTPScope) -> JsonResponse:
    """What an error says to the client. A bare 500 explains nothing."""
    said = str(error), _reason_of(error, scope), request_id_of(scope)
    body = ErrorBody(*said)
    if isinstance(error, HTTPException) and error.status_code < 500:
        return _answer_to_the_frameworks(error, body)
    status, headers = _kind_of(error)
    match error:
        case InvalidRequest():
            body = DetailedErrorBody(*said, details_of(error))
        case Conflict() if error.status is not None:
            body = ConflictBody(*said, error.status)
        case Unauthorized(close=True):
            headers = headers | {"connection": "close"}
        case RateLimited() | TooManyResends() | TooManyScans() | TooManyUpserts():
            headers = {"retry-after": str(error.wait_s)}
        case OutcomeUnknown() if _may_have_changed(scope):
            keyed = scope["method"] == "POST" and not scope["path"].endswith(_WITHOUT_KEY)
            body = replace(body, error=_REPEAT_CREATE if keyed else _REPEAT)
        case Unreadable(key_id=""):
            status, headers = 500, {}
            body = replace(body, error="The stored data is damaged and cannot be read")
        case StoreError() if not isinstance(error, StoreReplaced):
            # Its own sentence may name hosts and ports: for the log, not for clients.
            body = replace(body, error="The service is temporarily unavailable")
        case _ if status == 500 and not isinstance(error, Damaged):
            body = replace(body, error="Internal server error")
    return JsonResponse(status, body, headers)


def _answer_to_the_frameworks(error: HTTPException, body: ErrorBody) -> JsonResponse:
    """An unknown path, a wrong method, a Host header that is none."""
    match error.status_code:
        case 404:
            return _Unrouted(404, replace(body, error="Not found"))
        case 405:
            allowed = (error.headers or {}).get("allow", "").split(", ")
            headers = {"allow": allow(allowed)}
            return _Unrouted(405, replace(body, error="Method not allowed"), headers)
        case status:
            details = [FieldError("request", f"{error.detail}.")]
            found = DetailedErrorBody(error.detail, body.reason, body.request_id, details)
            return JsonResponse(status, found)


class _Unrouted(JsonResponse):
    """The answer to a request that no handler had: its account may have a rate for the headers."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with suppress(StoreError):  # there is no such path, for any caller
            try:
                if is_keyed(scope):
                    await authenticate(scope["litestar_app"].state.service, scope)
            except (Unauthorized, RateLimited, Suspended) as refusal:
                await _answer_to(refusal, cast("HTTPScope", scope))(scope, receive, send)
                return
        await super().__call__(scope, receive, send)


def answered(error: Exception, scope: HTTPScope, service: Service) -> JsonResponse:
    """The answer to a request that raised this; counts it, and logs it if it is our fault."""
    error = outcome(error)
    answer = _answer_to(error, scope)
    service.tally.refuse(_reason_of(error, scope))
    request_id = request_id_of(scope)
    if isinstance(error, StoreError):
        service.outage.note(error, request_id)
    if answer.status == 500 and not isinstance(error, Damaged):  # logged where it is read
        # As text: a log that shows the variables of every frame would show the API key.
        trace = "".join(traceback.format_exception(error))
        _log.error(
            "request failed",
            path=scope["path"],
            method=scope["method"],
            request_id=request_id,
            exception=trace,
            **trace_id_of(scope),
        )
    return answer


def on_exception(request: HttpRequest, error: Exception) -> Response[Any]:
    """Litestar's hook for everything that a handler, or the routing, raises."""
    return cast("Response[Any]", answered(error, request.scope, service_of(request)))
