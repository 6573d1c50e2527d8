"""The answers that the OpenAPI document has at every call, as a process gives them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.api.letters import UNKNOWN
from tests.api.process import ApiProcess, Reply, serving
from tests.support.apps import built
from tests.support.servers import ValkeyProcess

_DOCUMENT: dict[str, Any] = built().state.document
_CALLS = {
    operation["operationId"]: (method.upper(), re.sub(r"{\w+}", UNKNOWN, path), operation)
    for path, item in _DOCUMENT["paths"].items()
    for method, operation in item.items()
}
_METHODS = {"GET", "POST", "PUT", "PATCH", "DELETE", "TRACE"}


@pytest.fixture(scope="module")
def strict(valkey_server: ValkeyProcess) -> Iterator[ApiProcess]:
    settings = {"allowed_hosts": ["api.example"], "head_timeout_ms": 300}
    with serving(valkey_server.url, **settings) as process:
        yield process


def head(method: str, path: str, *lines: str, host: str = "api.example") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", f"Host: {host}", *lines, "", ""]).encode()


def is_documented(reply: Reply, operation: dict[str, Any]) -> None:
    [_, _, name] = operation["responses"][str(reply.status)]["$ref"].rsplit("/", 2)
    response = _DOCUMENT["components"]["responses"][name]
    for header, described in response["headers"].items():
        assert header in reply.headers or not described.get("required"), header
    schema = response["content"]["application/json"]["schema"]
    Draft202012Validator(_DOCUMENT | schema).validate(reply.json)


def other_method(path: str) -> str:
    """One that no call of the path has."""
    return min(_METHODS - {method for method, its, _ in _CALLS.values() if its == path})


@pytest.mark.parametrize("status", [400, 405, 414, 421, 431, 501])
def test_every_call_has_these_answers(strict: ApiProcess, status: int) -> None:
    for name, (method, path, operation) in _CALLS.items():
        asked = {
            400: [head(method, path, "Host: twice")],
            405: [head(other_method(path), path)],
            414: [head(method, f"{path}?{'a' * 9000}")],
            421: [head(method, path, host="evil.example")] * (operation["tags"] != ["Health"]),
            431: [head(method, path, "X: " + "a" * 70_000)],
            501: [
                head("FETCH", path),
                head(method, path, "Transfer-Encoding: gzip, chunked"),
            ],
        }
        for request in asked[status]:
            reply = strict.ask(request)
            assert reply.status == status, name
            is_documented(reply, operation)
        assert asked[status] or str(status) not in operation["responses"], name


def test_every_call_may_come_too_slowly(strict: ApiProcess) -> None:
    with ExitStack() as stack:
        slow = {name: stack.enter_context(closing(strict.connect())) for name in _CALLS}
        for name, connection in slow.items():
            method, path, _ = _CALLS[name]
            connection.sendall(head(method, path)[:-3])
        for name, connection in slow.items():
            reply = Reply(connection)
            assert reply.status == 408, name
            is_documented(reply, _CALLS[name][2])
