"""Rules that every script keeps, most of them read from its source."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import scheduler.store
from scheduler.errors import Damaged
from scheduler.store import keys
from tests.store.scene import Scene

_FOLDER = Path(scheduler.store.__file__).parent
_PLACES = re.compile(r"K\.(WAITING|HELD|TRIED|HEADS)\b|queue\.(waiting|held|tried)\b")
_FOLDERS = [
    *("operators", "check", "accounts", "bulk", "lanes", "recurring"),
    *("lifecycle", "log", "queries", "events", "shared"),
]
_INCLUDE = re.compile(r"^--@include (\w+)/", re.MULTILINE)
_NEGATED = re.compile(r"redis\.p?call\(.*, -[#a-z(]")
_WRITE = re.compile(r"'(Z(ADD|REM|INCRBY|POP)|H(SET|DEL|INCRBY)|DEL|UNLINK|RENAME|P?EXPIRE)")


def test_only_three_files_write_where_schedules_stand() -> None:
    writers = {
        path.relative_to(_FOLDER).as_posix()
        for path in _FOLDER.rglob("*.lua")
        for line in path.read_text().splitlines()
        if _PLACES.search(line) and _WRITE.search(line)
    }
    assert writers == {f"lifecycle/row/{name}.inc.lua" for name in ("queue", "place", "control")}


def test_a_script_includes_nothing_of_a_folder_above_its_own() -> None:
    """The folders stand on one another in one order; import-linter sees to their modules."""
    rising = [
        (path.name, folder)
        for path in _FOLDER.rglob("*.lua")
        for folder in _INCLUDE.findall(path.read_text())
        if path.parent != _FOLDER
        and _FOLDERS.index(folder) < _FOLDERS.index(path.relative_to(_FOLDER).parts[0])
    ]
    assert rising == []


def test_commands_get_negated_numbers_only_as_whole_digits() -> None:
    """Redis 7.0 writes a zero that was negated as -0."""
    lines = {
        f"{path.name}:{number}": line
        for path in _FOLDER.rglob("*.lua")
        for number, line in enumerate(path.read_text().splitlines(), 1)
    }
    assert {place: line for place, line in lines.items() if _NEGATED.search(line)} == {}


async def test_a_sum_too_large_to_be_exact_is_refused_and_nothing_is_written(scene: Scene) -> None:
    schedule_id = await scene.create(60_000)
    await scene.redis.hset(scene.base + keys.ACCOUNT, "credits", 2**53)
    with pytest.raises(Damaged):
        await scene.cancel(schedule_id)
    assert [each.schedule_id for each in await scene.log(statuses=["scheduled"])] == [schedule_id]
