"""Every test here is about a whole Postdate, its store included."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _store_server(store_server: str) -> None:
    """It may be on either server: see the suite's conftest."""
