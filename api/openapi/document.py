"""Makes the document from the handlers, the tables beside this file, and the bodies."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
from litestar.handlers import HTTPRouteHandler
from litestar.routes import HTTPRoute

from api.openapi.meanings import describe
from api.openapi.operations import (
    IDEMPOTENCY_KEY,
    IF_MATCH,
    IF_NONE_MATCH,
    LANE,
    NAME,
    OPERATIONS,
    RECURRING_ID,
    SCHEDULE_ID,
)
from api.openapi.refusals import ERRORS, OWN_ERRORS
from api.openapi.requests import REQUESTS
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
Postdate stores an HTTP request and sends it at a chosen time: `POST /schedule` now, and the request
goes out at `triggerAt`. A schedule costs one credit; a cancellation gives the credit back.

Every call but those under Health needs an API key in the header `x-api-key`, or as `Authorization:
Bearer`. Bodies are JSON, whatever their Content-Type says. Times are ISO 8601, and come back in
UTC, to the millisecond. An error is `{"error": "<one readable sentence>", "reason": "<a word for
programs>", "requestId": "req_…"}`; a 400 also has `details`, with the bad fields.
"""
_HEALTH = "Health"
_TAGS = {
    "Schedules": "Requests that are sent once, at their time.",
    "Statistics": "Executed requests, their outcomes, and the credits that are left.",
    "Account": "The settings for all schedules of the account, its plan, and what it has.",
    "Lanes": "Limits and pauses that schedules share.",
    "Recurring": "Requests that are sent again and again, by a rule.",
    "Signing": "Secrets with which a target verifies that a request comes from Postdate.",
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


_ITEMS: dict[type, tuple[type, ...]] = {
    bodies.BatchBody: (bodies.ExistingBody, bodies.AcceptedBody, bodies.RefusedBody),
    bodies.ReplaysBody: (bodies.ReplayedBody, bodies.UnreplayedBody),
    bodies.CancelledManyBody: (bodies.CancelledItemBody, bodies.UncancelledBody),
    bodies.ResendsBody: (bodies.ResentBody, bodies.UnsentBody),
}
_SUCCESSES = {200: "Done.", 201: "Created.", 202: "It will be sent."}
_ALL_ERRORS = (*ERRORS.values(), *OWN_ERRORS.values())


def _whole(description: str) -> Schema:
    return {"description": description, "schema": {"type": "integer"}}


_HEADERS: dict[str, Schema] = {
    "RateLimitLimit": _whole("Requests a second that the account's plan allows, if limited."),
    "RateLimitRemaining": _whole("Requests that are left at the moment."),
    "RateLimitReset": _whole("Seconds until all of them are available again."),
    "RequestId": {
        "description": "The id of this request, also in errors and in the log of the service.",
        "required": True,
        "schema": {"type": "string", "pattern": REQUEST_ID},
    },
    "RetryAfter": {**_whole("Seconds after which to try again."), "required": True},
    "ETag": {
        "description": "The tag of what the answer shows, for `If-Match` and `If-None-Match`.",
        "required": True,
        "schema": {"type": "string"},
    },
    "IdempotencyReplayed": {
        "description": "`true` if the answer was given before, to the same `Idempotency-Key`.",
        "schema": {"type": "string", "enum": ["true"]},
    },
}
_REQUEST_ID = {"Postdate-Request-Id": {"$ref": "#/components/headers/RequestId"}}
_ETAG = {"ETag": {"$ref": "#/components/headers/ETag"}}
_NOT_MODIFIED = "Its tag is one of `If-None-Match`; there is no body."
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
        error = OWN_ERRORS.get((str(handler.operation_id), status), ERRORS[status])
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
    for name, each in found.items():
        describe(name, each)
        if "description" in each:  # a docstring, with its indentation
            each["description"] = inspect.cleandoc(each["description"])
    for body, either in _ITEMS.items():
        refs = [_ref(item.__name__) for item in either]
        found[body.__name__]["properties"]["schedules"]["items"] = {"anyOf": refs}
    return {**CHOICES, **REQUESTS, **found}
