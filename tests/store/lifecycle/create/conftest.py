from __future__ import annotations

import pytest

from scheduler.store.lifecycle.create import create_rows, creator
from tests.store.lifecycle.create.parts import PIECE


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(creator, "_MOST_AT_ONCE", PIECE)
    monkeypatch.setattr(create_rows, "_ROWS_LIKE_ONE_JUDGED", 1)
