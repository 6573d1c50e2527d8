"""Rules that every script keeps, read from its source."""

from __future__ import annotations

import re
from pathlib import Path

import scheduler.store

_FOLDER = Path(scheduler.store.__file__).parent
_PLACES = re.compile(r"K\.(WAITING|HELD|TRIED|HEADS)\b|queue\.(waiting|held|tried)\b")
_FOLDERS = ["operators", "accounts", "lifecycle", "log", "queries"]
_INCLUDE = re.compile(r"^--@include (\w+)/", re.MULTILINE)
_WRITE = re.compile(r"'(Z(ADD|REM|INCRBY|POP)|H(SET|DEL|INCRBY)|DEL|UNLINK|RENAME|P?EXPIRE)")


def test_only_one_file_writes_where_schedules_stand() -> None:
    writers = {
        path.relative_to(_FOLDER).as_posix()
        for path in _FOLDER.rglob("*.lua")
        for line in path.read_text().splitlines()
        if _PLACES.search(line) and _WRITE.search(line)
    }
    assert writers == {"lifecycle/place.inc.lua"}


def test_a_script_includes_nothing_of_a_folder_above_its_own() -> None:
    """The folders stand on one another in one order; import-linter sees to their modules."""
    rising = [
        (path.name, folder)
        for path in _FOLDER.rglob("*.lua")
        for folder in _INCLUDE.findall(path.read_text())
        if path.parent == _FOLDER or _FOLDERS.index(folder) < _FOLDERS.index(path.parent.name)
    ]
    assert rising == []
