"""What tests of several workers start from."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.servers import Deployment


@pytest.fixture
def deployment() -> Iterator[Deployment]:
    """An API; workers are the tests' to start."""
    with Deployment() as running:
        running.api()
        yield running
        assert running.problems() == []
