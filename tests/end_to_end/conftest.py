"""What tests of several processes start from."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.servers import Deployment


@pytest.fixture(scope="module")
def working() -> Iterator[Deployment]:
    """An API and a worker, for all tests of a file."""
    with Deployment() as running:
        running.api()
        running.worker()
        yield running


@pytest.fixture
def deployment() -> Iterator[Deployment]:
    """An API; workers are the tests' to start."""
    with Deployment() as running:
        running.api()
        yield running
        assert running.problems() == []
