"""What tests of several workers start from."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from scheduler.store import Store, keys
from tests.support.plain import redis_of
from tests.support.servers import Deployment


@pytest.fixture
def deployment() -> Iterator[Deployment]:
    """An API; workers are the tests' to start."""
    with Deployment() as running:
        running.api()
        yield running
        assert running.problems() == []


def said_by_workers(deployment: Deployment, what: str) -> list[int]:
    """A number that each live worker says of itself, as `inFlight` or `fired`."""

    async def read(store: Store) -> list[int]:
        says = await redis_of(store).hvals(keys.WORKERS)
        return [json.loads(each.partition(b" ")[2])[what] for each in says]

    return deployment.in_store(read)
