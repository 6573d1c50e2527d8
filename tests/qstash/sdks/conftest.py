"""Postdate with the door, and the SDKs' clients of an account of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from qstash import AsyncQStash, QStash

from tests.client.typescript.conftest import Node, package, run
from tests.support.customer import Customer
from tests.support.deployment import Deployment

__all__ = ["package"]  # a fixture that `sdk` asks for

MODES = ("blocking", "awaiting")


@pytest.fixture(scope="session")
def running() -> Iterator[Deployment]:
    with Deployment(qstash="on") as running:
        running.api()
        running.worker()
        yield running


@pytest.fixture
def customer(running: Deployment) -> Customer:
    return running.customer()


def base_url(customer: Customer) -> str:
    """What QSTASH_URL says; QSTASH_TOKEN is the API key."""
    return f"{customer.base_url}/qstash"


@pytest.fixture(scope="session")
def sdk(package: Path) -> Node:
    """Runs a program of this folder where the TypeScript SDK is installed; returns stdout."""
    here = Path(__file__).parent
    return lambda name, *given: run(package, "node", str(here / name), *given)


@pytest.fixture(params=MODES)
def client(request: pytest.FixtureRequest, customer: Customer) -> Iterator[Any]:
    """Each test is run with both of Python's clients; `called` has the methods that it has used."""
    with asyncio.Runner() as runner:
        made: dict[str, Any] = {"base_url": base_url(customer), "retry": False}
        if request.param == "blocking":
            blocking = QStash(customer.key, **made)
            yield Recording(blocking, None, set())
            blocking.http._client.close()
        else:
            awaiting = AsyncQStash(customer.key, **made)
            yield Recording(awaiting, runner, set())
            runner.run(awaiting.http._client.aclose())


class Recording:
    """A client, or a noun of it, whose calls are noted and whose coroutines run to their end."""

    def __init__(
        self, inner: Any, runner: asyncio.Runner | None, called: set[str], noun: str = ""
    ) -> None:
        self._inner, self._runner, self._noun = inner, runner, noun
        self.called = called

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return Recording(found, self._runner, self.called, name)

        def call(*arguments: Any, **named: Any) -> Any:
            self.called.add(f"{self._noun}.{name}")
            result = found(*arguments, **named)
            return (
                self._runner.run(result) if asyncio.iscoroutine(result) and self._runner else result
            )

        return call

    def methods(self) -> set[str]:
        """All that the client has."""
        nouns = [each for each in vars(self._inner) if not each.startswith("_") and each != "http"]
        return {
            f"{noun}.{name}"
            for noun in nouns
            for name in dir(getattr(self._inner, noun))
            if not name.startswith("_")
        }
