"""Numbers in scripts: Redis 7.0 writes a zero that was negated as -0, and Lua counts to 2^53."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scheduler import store
from scheduler.errors import Damaged
from scheduler.store import keys
from tests.scheduler.scene import Scene

_NEGATED = re.compile(r"redis\.p?call\(.*, -[#a-z(]")


def test_commands_get_negated_numbers_only_as_whole_digits() -> None:
    lines = {
        f"{path.name}:{number}": line
        for path in Path(store.__file__).parent.rglob("*.lua")
        for number, line in enumerate(path.read_text().splitlines(), 1)
    }
    assert {place: line for place, line in lines.items() if _NEGATED.search(line)} == {}


async def test_a_sum_too_large_to_be_exact_is_refused_and_nothing_is_written(scene: Scene) -> None:
    schedule_id = await scene.create(60_000)
    await scene.redis.hset(scene.base + keys.ACCOUNT, "credits", 2**53)
    with pytest.raises(Damaged):
        await scene.cancel(schedule_id)
    assert [each.schedule_id for each in await scene.log(status="scheduled")] == [schedule_id]
