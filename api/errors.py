"""Errors to answers: the one place where an exception becomes a status code."""

from __future__ import annotations

import traceback
from typing import Any, cast

import structlog
from litestar import Request, Response
from litestar.exceptions import HTTPException

from api.answer import Answer
from api.schemas import ConflictBody, DetailedErrorBody, ErrorBody
from scheduler.errors import (
    Conflict,
    FieldError,
    InsufficientCredits,
    InvalidRequest,
    KeyReused,
    NotFound,
    OutcomeUnknown,
    PostdateError,
    StoreError,
)

_log = structlog.get_logger()

RETRY_AFTER_S = 1
_MOST_DETAILS = 100
_SHOWN_NAME_CHARACTERS = 100
_REPEAT_CREATE = "Outcome unknown; repeat with the same Idempotency-Key"
_REPEAT = "Outcome unknown; repeat the request"
_CHALLENGE = {"www-authenticate": 'ApiKey realm="Postdate"'}
_RETRY = {"retry-after": str(RETRY_AFTER_S)}


class Unauthorized(PostdateError):
    """The request has no API key, or none that is active. With `close`, the connection that it
    came on is closed behind the answer."""

    def __init__(self, sentence: str, *, close: bool = False) -> None:
        super().__init__(sentence)
        self.close = close


class RateLimited(PostdateError):
    """The account has used up its plan's rate; in `wait_s` seconds it may go on."""

    def __init__(self, wait_s: int) -> None:
        super().__init__(f"Too many requests; try again in {wait_s} s")
        self.wait_s = wait_s


class BodyTooLarge(PostdateError):
    """The body is, or says that it is, larger than `limit_bytes`."""

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(f"The request body is larger than {limit_bytes:,} bytes")


class ClientDisconnected(PostdateError):
    """The client went away before its request was complete; nobody reads the answer."""

    def __init__(self) -> None:
        super().__init__("The request was not complete")


class Draining(PostdateError):
    """This process is about to end and takes no new requests."""

    def __init__(self) -> None:
        super().__init__("The service is draining")


def invalid(details: list[FieldError]) -> InvalidRequest:
    """The refusal of a payload or query with these bad fields, at least one.

    What it says stays within bounds, whatever a client sends: past a hundred bad fields the
    rest are only counted.
    """
    if len(details) == 1:
        return InvalidRequest(details, _sentence_of_one(details[0]))
    sentence = f"{len(details):,} fields are not valid: "
    sentence += ", ".join(detail.field for detail in details[:10])
    if len(details) > 10:
        sentence += ", …"
    if len(details) > _MOST_DETAILS:
        rest = len(details) - _MOST_DETAILS
        details = [
            *details[:_MOST_DETAILS],
            FieldError("…", f"{rest:,} more fields are not valid."),
        ]
    return InvalidRequest(details, sentence)


def shown(name: str) -> str:
    """A client's own name for something, short enough to say back."""
    if len(name) <= _SHOWN_NAME_CHARACTERS:
        return name
    return name[:_SHOWN_NAME_CHARACTERS] + "…"


def _sentence_of_one(detail: FieldError) -> str:
    if detail.message == "Destination not allowed":
        return detail.message
    return f"{detail.field}: {detail.message}"


# The errors of which a client is told the sentence and no more: status, further headers.
_PLAIN: tuple[tuple[type[PostdateError], int, dict[str, str] | None], ...] = (
    (InsufficientCredits, 402, None),
    (NotFound, 404, None),
    (BodyTooLarge, 413, None),
    (KeyReused, 422, None),
    (Draining, 503, _RETRY),
)


def answer_to(error: Exception, method: str = "GET") -> Answer:
    """What an error says to the client of a request by this method. Whatever is not ours to
    explain is a bare 500."""
    if isinstance(error, OutcomeUnknown) and method != "GET":
        sentence = _REPEAT_CREATE if method == "POST" else _REPEAT
        return Answer(503, ErrorBody(sentence), _RETRY)
    if isinstance(error, PostdateError):
        return _answer_to_our_own(error)
    if isinstance(error, HTTPException) and error.status_code < 500:
        return _answer_to_the_frameworks(error)
    return Answer(500, ErrorBody("Internal server error"))


def _answer_to_our_own(error: PostdateError) -> Answer:
    sentence = str(error)
    match error:
        case InvalidRequest():
            return Answer(400, DetailedErrorBody(sentence, error.details))
        case Conflict():
            return Answer(409, ConflictBody(sentence, error.status))
        case Unauthorized():
            closing = {"connection": "close"} if error.close else {}
            return Answer(401, ErrorBody(sentence), _CHALLENGE | closing)
        case RateLimited():
            return Answer(429, ErrorBody(sentence), {"retry-after": str(error.wait_s)})
        case ClientDisconnected():
            return Answer(400, DetailedErrorBody(sentence, [FieldError("body", f"{sentence}.")]))
        case StoreError():
            # Its own sentence may name hosts and ports: for the log, not for clients.
            return Answer(503, ErrorBody("The service is temporarily unavailable"), _RETRY)
    for kind, status, headers in _PLAIN:
        if isinstance(error, kind):
            return Answer(status, ErrorBody(sentence), headers)
    return Answer(500, ErrorBody("Internal server error"))


def _answer_to_the_frameworks(error: HTTPException) -> Answer:
    """An unknown path, a wrong method, a Host header that is none."""
    match error.status_code:
        case 404:
            return Answer(404, ErrorBody("Not found"))
        case 405:
            return Answer(405, ErrorBody("Method not allowed"), error.headers)
        case status:
            detail = FieldError("request", f"{error.detail}.")
            return Answer(status, DetailedErrorBody(error.detail, [detail]))


def on_exception(request: Request[Any, Any, Any], error: Exception) -> Response[Any]:
    """Litestar's hook for everything that a handler, or the routing, raises."""
    answer = answer_to(error, request.method)
    if answer.status == 500:
        # As text: a log that shows the variables of every frame would show the API key.
        trace = "".join(traceback.format_exception(error))
        path = request.scope["path"]
        _log.error("request failed", method=request.method, path=path, exception=trace)
    return cast("Response[Any]", answer)
