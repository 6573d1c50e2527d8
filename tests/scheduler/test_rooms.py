"""The rooms of the store stand on one another in one order; import-linter sees to their modules."""

from __future__ import annotations

import re
from pathlib import Path

from scheduler.store import keys

_STORE = Path(keys.__file__).parent
_ROOMS = ["operators", "accounts", "lifecycle", "log", "queries"]
_INCLUDE = re.compile(r"^--@include (\w+)/", re.MULTILINE)


def test_a_script_includes_nothing_of_a_room_above_its_own() -> None:
    rising = [
        (path.name, room)
        for path in _STORE.rglob("*.lua")
        for room in _INCLUDE.findall(path.read_text())
        if path.parent == _STORE or _ROOMS.index(room) < _ROOMS.index(path.parent.name)
    ]
    assert rising == []
