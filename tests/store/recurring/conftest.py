from __future__ import annotations

import pytest

from tests.store.recurring.rules import Rules
from tests.store.scene import Scene


@pytest.fixture
def rules(scene: Scene) -> Rules:
    return Rules(scene)


@pytest.fixture
def fake_rules(fake_scene: Scene) -> Rules:
    return Rules(fake_scene)
