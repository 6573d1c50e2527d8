"""The table that both clients share is true of the Python client, and of the service's document."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from api.app import create_app
from clients import generate
from clients.typescript_types import typescript
from postdate import AsyncPostdate, Buffer, Postdate, calls, client, modes
from postdate.operations import Operations
from scheduler.runtime.settings import Settings
from tests.client.both import BASE_URL, KEY, Answer, Client, Server, answer
from tests.client.shared import SHARED, TEXTS

URL = "https://example.com"


def test_its_operations_are_those_of_the_document_and_of_the_client() -> None:
    document = create_app(Settings()).state.document
    operations = {
        each["operationId"]: f"{method.upper()} {path}"
        for path, methods in document["paths"].items()
        for method, each in methods.items()
        if each["tags"] != ["Health"]  # for load balancers, which need no client
    }
    assert {name: request for name, request, _, _ in SHARED["operations"]} == operations
    methods = {name for name in dir(Operations) if not name.startswith("_")} - {"with_options"}
    assert {name for _, _, name, _ in SHARED["operations"]} == methods


def test_generated_files_are_what_the_server_makes() -> None:
    assert generate.PYTHON.read_text() == generate.python(), "run `make schema`"
    assert generate.TYPESCRIPT.read_text() == typescript(), "run `make schema`"


def test_its_defaults_are_the_clients() -> None:
    defaults = SHARED["defaults"]
    assert (defaults["retryFor"], defaults["timeout"]) == (client.RETRY_FOR_S, client.TIMEOUT_S)
    assert defaults["connections"] == modes._CONNECTIONS
    assert (defaults["page"], defaults["many"]) == (calls._LONGEST_PAGE, calls._AT_ONCE)
    parameters = inspect.signature(Buffer).parameters
    for name in ("linger", "batchSize", "inFlight", "waiting"):
        snake = "".join(f"_{each.lower()}" if each.isupper() else each for each in name)
        assert parameters[snake].default == defaults[name]


def wrong_calls(client: Client, server: Server) -> dict[str, Callable[[], Any]]:
    def answered(step: Answer | Exception) -> Callable[[], Any]:
        def call() -> Any:
            server.plays(step)
            return client.with_options(retry_for=0).credits()

        return call

    def closed() -> None:
        buffer = Buffer(AsyncPostdate(BASE_URL, KEY))
        client._runner.run(buffer.aclose())
        client._runner.run(buffer.schedule(URL, delay=1))

    return {
        "no API key": lambda: Postdate(BASE_URL),
        "an empty API key": lambda: Postdate(BASE_URL, "pd 1"),
        "no address": lambda: Postdate("postdate.example", KEY),
        "an API key among the headers": lambda: client.with_options(headers={"X-API-Key": KEY}),
        "a header of the client's own": lambda: client.with_options(headers={"Content-Type": "a"}),
        "a header with a line break": lambda: client.with_options(headers={"x-a": "a\r\nx-b: c"}),
        "no timeout": lambda: client.with_options(timeout=0),
        "a long idempotency key": lambda: client.schedule(URL, delay=1, idempotency_key="x" * 256),
        "an id that is a path": lambda: client.get("../account"),
        "an etag with a line break": lambda: client.cancel("sch_1", if_match="a\nb"),
        "a negative delay": lambda: client.schedule(URL, delay=-1),
        "an endless delay": lambda: client.schedule(URL, delay=float("inf")),
        "no ids": lambda: client.cancel_many([]),
        "a page instead of JSON": answered(Answer(500, b"<html>", {})),
        "a stranger's answer": answered(answer(200, "<html>")),
        "a lost answer": answered(httpx.ReadError("")),
        "no connection": answered(httpx.ConnectError("")),
        "a closed buffer": closed,
    }


def test_its_texts_are_the_clients(
    client: Client, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("POSTDATE_API_KEY", raising=False)
    wrong = wrong_calls(client, server)
    assert wrong.keys() == TEXTS.keys()
    for what, call in wrong.items():
        with pytest.raises(Exception) as caught:  # of several kinds, by their texts
            call()
        assert TEXTS[what] in str(caught.value), what
