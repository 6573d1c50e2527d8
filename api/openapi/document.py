"""Makes the document from the handlers, the tables beside this file, and the bodies."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
from litestar.handlers import HTTPRouteHandler
from litestar.routes import HTTPRoute

from api.openapi.operations import (
    IDEMPOTENCY_KEY,
    IF_MATCH,
    IF_NONE_MATCH,
    LANE,
    NAME,
    OPERATIONS,
    RECURRING_ID,
    REQUESTS,
    SCHEDULE_ID,
)
from api.openapi.webhooks import BODIES, webhooks
from api.request_ids import PATTERN as REQUEST_ID
from api.schema import bodies
from api.schema.field import Schema
from api.schema.fields import CHOICES, SOON

# What the API answered to the examples of requests, and each kind of refusal, by its name, as
# tests/api/openapi/test_examples.py recorded it. The file cannot know the moment that these name.
_ANSWERS: dict[str, Schema] = msgspec.json.decode(
    Path(__file__).with_name("answers.json").read_bytes().replace(b"SOON", SOON.encode())
)
_REFS = "#/components/schemas/"
_DESCRIPTION = """\
An HTTP request with a future date on it: `POST /schedule` now, and the call goes out at
`triggerAt`. A schedule costs one credit; cancelling it gives the credit back.

Every call but those under Health needs an API key in the header `x-api-key`, or as `Authorization:
Bearer`. Bodies are JSON, whatever their Content-Type says. Times are ISO 8601, and come back in
UTC, to the millisecond. An error is `{"error": "<one readable sentence>", "reason": "<a word for
programs>", "requestId": "req_…"}`; a 400 also has `details`, with the bad fields.
"""
_HEALTH = "Health"
_TAGS = {
    "Schedules": "Requests that wait for their time.",
    "Statistics": "Executed requests, their outcomes, and the credits that are left.",
    "Account": "What is set for all schedules of the account, what it has and what it may have.",
    "Lanes": "Limits and pauses that schedules share.",
    "Recurring": "Requests that are sent again and again, by a rule.",
    "Signing": "Secrets by which a target verifies that a request is ours.",
    _HEALTH: "For load balancers.",
}
# By how a path begins.
_TAG_OF = {
    "schedule": "Schedules",
    "stats": "Statistics",
    "lanes": "Lanes",
    "account": "Account",
    "recurring": "Recurring",
    "signing": "Signing",
}
# What stands in a path, and its parameter; some may name what there is not.
_IN_PATH = {f"{{{each['name']}}}": each for each in (SCHEDULE_ID, RECURRING_ID, LANE, NAME)}
_MAY_BE_UNKNOWN = (SCHEDULE_ID, RECURRING_ID)
# Those of every call. OpenAPI has no answers of a path, so that each call has its path's 405.
_PUBLIC_ERRORS = (400, 405, 408, 414, 429, 431, 501, 503)
_KEYED_ERRORS = (*_PUBLIC_ERRORS, 401, 403, 421, 500)
_RETRY: Schema = {"Retry-After": {"$ref": "#/components/headers/RetryAfter"}}


class _Error(msgspec.Struct, frozen=True):
    """One kind of refusal, by its name in the document."""

    name: str
    when: str
    body: type = bodies.ErrorBody
    headers: Schema = {}


_ERRORS = {
    400: _Error(
        "BadRequest",
        "The payload or a parameter breaks a rule, or it is not valid HTTP; nothing was changed.",
        bodies.DetailedErrorBody,
    ),
    401: _Error(
        "Unauthorized",
        "There is no API key, or it is invalid or inactive.",
        headers={"WWW-Authenticate": {"schema": {"type": "string"}}},
    ),
    402: _Error("InsufficientCredits", "The account has too few credits."),
    403: _Error(
        "Suspended",
        "An operator has suspended the account. Nothing was done; due schedules wait.",
    ),
    404: _Error(
        "NotFound", "There is no such schedule or recurring schedule, or it is another account's."
    ),
    405: _Error(
        "MethodNotAllowed",
        "The path has other methods, which `Allow` names.",
        headers={"Allow": {"required": True, "schema": {"type": "string"}}},
    ),
    408: _Error(
        "RequestTimeout", "The request's head or body came too slowly; the connection is closed."
    ),
    409: _Error(
        "Conflict",
        "It has ended, or a worker has it: from a moment before triggerAt on; `status` says which. "
        "Or, without a `status`, the account has as many lanes as it may have.",
        bodies.ConflictBody,
    ),
    412: _Error(
        "PreconditionFailed",
        "The present state is not the one that If-Match or If-None-Match asks for; nothing was "
        "changed.",
    ),
    413: _Error(
        "TooLarge",
        "The body is larger than allowed, or the account has as much stored as its plan allows.",
    ),
    414: _Error(
        "TargetTooLong", "Path and query are longer than 8,192 bytes; the connection is closed."
    ),
    415: _Error("Encoded", "The body has a Content-Encoding."),
    421: _Error("Misdirected", "The service does not answer under this `Host`."),
    422: _Error("KeyReused", "The Idempotency-Key was used with another body before."),
    429: _Error(
        "TooManyRequests",
        "The rate of the account's plan is used up, that of its searches, or that of callbacks "
        "sent again; or too many requests wait on this connection, which is closed.",
        headers=_RETRY,
    ),
    431: _Error(
        "HeadTooLarge",
        "The request's line and headers are larger than allowed; the connection is closed.",
    ),
    500: _Error("InternalError", "A fault of the service's own."),
    501: _Error(
        "Unsupported",
        "No path has the method; or the body has a Transfer-Encoding other than `chunked`, and the "
        "connection is closed.",
    ),
    503: _Error(
        "Unavailable",
        "The store is away or full, or there are too many connections, and nothing was changed; "
        "or, with the reason outcome_unknown, the call may have been carried out, all of it or a "
        "part. Repeat it.",
        headers=_RETRY,
    ),
}
# What the answers of many are: unions that msgspec could not decode.
_ITEMS: dict[type, tuple[type, ...]] = {
    bodies.BatchBody: (bodies.ExistingBody, bodies.AcceptedBody, bodies.RefusedBody),
    bodies.ReplaysBody: (bodies.ReplayedBody, bodies.UnreplayedBody),
    bodies.CancelledManyBody: (bodies.CancelledItemBody, bodies.UncancelledBody),
    bodies.ResendsBody: (bodies.ResentBody, bodies.UnsentBody),
}
# Where a status means something else than elsewhere.
_OWN_ERRORS = {
    ("createSchedule", 409): _Error(
        "SeveralWaiting",
        "Several schedules wait with the reference, so that `onExisting` can mean none of them; or "
        "the account has as many lanes as it may have.",
        bodies.ConflictBody,
    ),
    ("createSchedules", 409): _Error(
        "TooManyLanes",
        "The account would have more lanes than it may have; nothing was stored.",
    ),
    **{
        (name, 409): _Error(
            "SettingsConflict",
            "Other calls keep changing the settings; or the account has as many lanes as it may "
            "have. Nothing was changed.",
        )
        for name in (
            *("setLane", "changeLane", "clearLane", "pauseLane", "resumeLane"),
            *("changeAccount", "pauseAccount", "resumeAccount"),
        )
    },
    **{
        (name, 409): _Error(
            "RecurringConflict",
            "The name is another one's, the account has as many recurring schedules or lanes as it "
            "may have, or other calls keep changing it. Nothing was changed.",
        )
        for name in (
            "createRecurring",
            "changeRecurring",
            "setRecurring",
            "deleteRecurring",
            "pauseRecurring",
            "resumeRecurring",
        )
    },
    ("triggerRecurring", 409): _Error(
        "TooManyLanes",
        "The account would have more lanes than it may have; nothing was stored.",
    ),
    ("resendCallback", 409): _Error(
        "NothingToReport",
        "It has not ended, its callback is pending already, or it was cancelled; `status` says how "
        "it stands.",
        bodies.ConflictBody,
    ),
    ("rotateSigningSecret", 409): _Error(
        "TooManySecrets",
        "Three secrets are good already, and a shorter `keepFor` would end one of them.",
    ),
}
_SUCCESSES = {200: "Done.", 201: "Created.", 202: "It will be sent."}
_ALL_ERRORS = (*_ERRORS.values(), *_OWN_ERRORS.values())


def _whole(description: str) -> Schema:
    return {"description": description, "schema": {"type": "integer"}}


_HEADERS: dict[str, Schema] = {
    "RateLimitLimit": _whole("Requests a second that the account's plan allows, if limited."),
    "RateLimitRemaining": _whole("Requests that are left at this moment."),
    "RateLimitReset": _whole("Seconds until all of them are there again."),
    "RequestId": {
        "description": "Names this request, in errors and in the service log beside its faults.",
        "required": True,
        "schema": {"type": "string", "pattern": REQUEST_ID},
    },
    "RetryAfter": {**_whole("Seconds after which to try again."), "required": True},
    "ETag": {
        "description": "Names what the answer shows, for If-Match and If-None-Match.",
        "required": True,
        "schema": {"type": "string"},
    },
    "IdempotencyReplayed": {
        "description": "`true` if the answer was given before, to the same Idempotency-Key.",
        "schema": {"type": "string", "enum": ["true"]},
    },
}
_REQUEST_ID = {"Postdate-Request-Id": {"$ref": "#/components/headers/RequestId"}}
_ETAG = {"ETag": {"$ref": "#/components/headers/ETag"}}
_NOT_MODIFIED = "It has a tag of If-None-Match; there is no body."
_RATE_HEADERS = {
    f"RateLimit-{name}": {"$ref": f"#/components/headers/RateLimit{name}"}
    for name in ("Limit", "Remaining", "Reset")
}


def document(routes: Iterable[object], version: str) -> Schema:
    """OpenAPI 3.1, of every route whose handler has an operation id, in the order of `OPERATIONS`:
    the framework keeps its routes in none."""
    paths: dict[str, Schema] = {}
    order = [*OPERATIONS]
    for path, method, handler in sorted(
        _described(routes), key=lambda each: order.index(str(each[2].operation_id))
    ):
        paths.setdefault(path, {})[method] = _operation(handler, path)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Postdate",
            "version": version,
            "description": _DESCRIPTION,
            "contact": {"name": "The Postdate authors"},
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": name, "description": each} for name, each in _TAGS.items()],
        "security": [{"ApiKey": []}, {"Bearer": []}],
        "paths": paths,
        "webhooks": webhooks(_ref(BODIES[0].__name__)),
        "components": {
            "schemas": _schemas(),
            "responses": {
                error.name: _response(
                    error.when, error.body, _RATE_HEADERS | error.headers, _ANSWERS.get(error.name)
                )
                for error in _ALL_ERRORS
            },
            "headers": _HEADERS,
            "securitySchemes": {
                "ApiKey": {"type": "apiKey", "in": "header", "name": "x-api-key"},
                "Bearer": {"type": "http", "scheme": "bearer"},
            },
        },
    }


def _described(routes: Iterable[object]) -> Iterator[tuple[str, str, HTTPRouteHandler]]:
    for route in routes:
        if isinstance(route, HTTPRoute):
            path = route.path_format.replace("_id}", "Id}")
            for method, (handler, _) in route.route_handler_map.items():
                if handler.operation_id and method != "HEAD":
                    yield path, method.lower(), handler


def _operation(handler: HTTPRouteHandler, path: str) -> Schema:
    operation = OPERATIONS[str(handler.operation_id)]
    tag = _TAG_OF.get(path.split("/")[1], _HEALTH)
    errors = {*operation.errors, *(_PUBLIC_ERRORS if tag == _HEALTH else _KEYED_ERRORS)}
    parameters: list[Schema] = [
        {
            "name": name,
            "in": "query",
            "schema": schema,
            "description": description,
            **({"style": "form", "explode": False} if schema["type"] == "array" else {}),
        }
        for name, _, schema, description in operation.query
    ]
    if operation.once:
        parameters.insert(0, IDEMPOTENCY_KEY)
        errors.add(422)
    if operation.tagged:
        errors.add(412)
    parameters[:0] = _preconditions(handler, errors)
    for parameter in (each for place, each in _IN_PATH.items() if place in path):
        parameters.insert(0, parameter)
        if parameter in _MAY_BE_UNKNOWN:
            errors.add(404)
    described: Schema = {
        "operationId": handler.operation_id,
        "summary": handler.summary,
        "description": " ".join((inspect.getdoc(handler.fn) or "").split()),
        "tags": [tag],
        "parameters": parameters,
        "responses": {str(handler.status_code): _success(handler, tag), **_not_modified(handler)},
    }
    if operation.existing is not None:
        when = "A schedule with this reference waited already, and was kept or replaced."
        answer = {**_ANSWERS[str(handler.operation_id)], "existing": True}
        del answer["message"]
        described["responses"]["200"] = _response(when, operation.existing, _once_headers(), answer)
    if operation.creates:
        created = _success(handler, tag)
        described["responses"]["201"] = created | {"description": _SUCCESSES[201]}
    if operation.body is not None:
        [example, *_] = REQUESTS[operation.body]["examples"]
        content = {"application/json": {"schema": _ref(operation.body), "example": example}}
        described["requestBody"] = {"required": operation.body_required, "content": content}
        errors |= {413, 415}
    if tag == _HEALTH:
        described["security"] = []
    for status in sorted(errors):
        error = _OWN_ERRORS.get((str(handler.operation_id), status), _ERRORS[status])
        described["responses"][str(status)] = {"$ref": f"#/components/responses/{error.name}"}
    return described


def _preconditions(handler: HTTPRouteHandler, errors: set[int]) -> list[Schema]:
    if 412 not in errors:
        return []
    return [IF_MATCH, IF_NONE_MATCH] if handler.http_methods & {"GET", "PUT"} else [IF_MATCH]


def _not_modified(handler: HTTPRouteHandler) -> Schema:
    if not OPERATIONS[str(handler.operation_id)].tagged or "GET" not in handler.http_methods:
        return {}
    headers = _REQUEST_ID | _RATE_HEADERS | _ETAG
    return {"304": {"description": _NOT_MODIFIED, "headers": headers}}


def _success(handler: HTTPRouteHandler, tag: str) -> Schema:
    name = str(handler.operation_id)
    operation = OPERATIONS[name]
    headers = {} if tag == _HEALTH else _RATE_HEADERS
    if operation.once:
        headers = _once_headers()
    if operation.tagged:
        headers = headers | _ETAG
    description = _SUCCESSES[handler.status_code]
    return _response(description, operation.answer, headers, _ANSWERS.get(name))


def _once_headers() -> Schema:
    replayed = {"$ref": "#/components/headers/IdempotencyReplayed"}
    return {**_RATE_HEADERS, "Idempotency-Replayed": replayed}


def _response(description: str, body: type, headers: Schema, example: Schema | None) -> Schema:
    content = {"application/json": {"schema": _ref(body.__name__), "example": example}}
    return {"description": description, "headers": _REQUEST_ID | headers, "content": content}


def _ref(name: str) -> Schema:
    return {"$ref": f"{_REFS}{name}"}


def _schemas() -> Schema:
    answers = {operation.answer for operation in OPERATIONS.values()}
    answers |= {each.existing for each in OPERATIONS.values() if each.existing is not None}
    errors = {error.body for error in _ALL_ERRORS}
    items = {item for each in _ITEMS.values() for item in each}
    described = sorted({*BODIES} | answers | errors | items, key=lambda body: body.__name__)
    _, found = msgspec.json.schema_components(described, ref_template=_REFS + "{name}")
    for each in found.values():
        if "description" in each:  # a docstring, with its indentation
            each["description"] = inspect.cleandoc(each["description"])
    for body, either in _ITEMS.items():
        refs = [_ref(item.__name__) for item in either]
        found[body.__name__]["properties"]["schedules"]["items"] = {"anyOf": refs}
    return {**CHOICES, **REQUESTS, **found}
