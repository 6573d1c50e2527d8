"""A walk in pieces meets each entry once, wherever the pieces end."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.store.keyed import Stores
from tests.store.scene import Scene
from tests.store.whole.operator_walks import Place
from tests.store.whole.walks import WALKS, Walk

_ROOT = Path(__file__).parents[3]
# What the size of a piece is called.
_SIZE = re.compile(r"_?(\w*AT_ONCE|CHUNKS?|PAGE|SCAN_COUNT|STEP|MOST_LATE)")
# Where it is looked for, and what the names of modules there begin with.
_ROOMS = {"api": "api", "cli": "cli", "scheduler": "scheduler", "worker": "worker"}
_ROOMS["clients/python/postdate"] = "postdate"
# How many run at a time, which are no pieces; what a batch answers in one go, which asks the store
# nothing; and what the bench fills a store with.
_GATES = {
    "api.calls.batch._AT_ONCE",
    "api.qstash.publish._AT_ONCE",
    "api.bulk_actions.acts._AT_ONCE",
    "api.bulk_actions.runner._ACCOUNTS_AT_ONCE",
    "cli.bench.rounds._STORED_AT_ONCE",
}


def _sizes() -> Iterator[str]:
    """The constants that are so called, by their dotted names."""
    for folder, room in _ROOMS.items():
        for path in (_ROOT / folder).rglob("*.py"):
            module = ".".join((room, *path.relative_to(_ROOT / folder).with_suffix("").parts))
            for each in ast.parse(path.read_text()).body:
                if isinstance(each, ast.Assign) and _is_number(each.value):
                    [name] = (target.id for target in each.targets if isinstance(target, ast.Name))
                    if _SIZE.fullmatch(name):
                        yield f"{module}.{name}"


def _is_number(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, int)


def test_every_walk_is_walked_here() -> None:
    covered = {bound for walk in WALKS for bound in walk.bounds}
    missing = set(_sizes()) - covered - _GATES
    assert not missing, "add a row to WALKS in tests/store/whole/walks.py"


@pytest.mark.slow
@pytest.mark.usefixtures("checks_at_once")
@pytest.mark.parametrize(
    ("walk", "count"),
    [(walk, count) for walk in WALKS for count in walk.counts],
    ids=lambda each: each.over.__name__ if isinstance(each, Walk) else str(each),
)
async def test_each_thing_is_met_once(
    scene: Scene, stores: Stores, walk: Walk, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for bound in walk.bounds:
        monkeypatch.setattr(bound, walk.piece)
    found, there = await walk.over(Place(scene, stores), count)
    assert sorted(found) == sorted(there)
