"""Numbers that scripts hand to commands: Redis 7.0 writes a zero that was negated as -0."""

from __future__ import annotations

import re
from pathlib import Path

from scheduler import store

_NEGATED = re.compile(r"redis\.p?call\(.*, -[#a-z(]")


def test_commands_get_negated_numbers_only_as_whole_digits() -> None:
    lines = {
        f"{path.name}:{number}": line
        for path in Path(store.__file__).parent.rglob("*.lua")
        for number, line in enumerate(path.read_text().splitlines(), 1)
    }
    assert {place: line for place, line in lines.items() if _NEGATED.search(line)} == {}
