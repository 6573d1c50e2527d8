"""A walk in pieces meets each entry once, wherever the pieces end."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scheduler.keyed import Stores
from tests.scheduler.operator_walks import Place
from tests.scheduler.scene import Scene
from tests.scheduler.walks import WALKS, Walk

_ROOT = Path(__file__).parents[2]
# What the size of a piece is called.
_SIZE = re.compile(r"_(\w+_AT_ONCE|CHUNKS?|PAGE|SCAN_COUNT)")


def _sizes() -> Iterator[str]:
    """The constants of store and worker that are so called, by their dotted names."""
    for folder in ("scheduler/store", "worker"):
        for path in (_ROOT / folder).rglob("*.py"):
            module = ".".join(path.relative_to(_ROOT).with_suffix("").parts)
            for each in ast.parse(path.read_text()).body:
                if isinstance(each, ast.Assign) and isinstance(each.value, ast.Constant):
                    [name] = (target.id for target in each.targets if isinstance(target, ast.Name))
                    if _SIZE.fullmatch(name):
                        yield f"{module}.{name}"


def test_every_walk_is_walked_here() -> None:
    covered = {bound for walk in WALKS for bound in walk.bounds}
    missing = set(_sizes()) - covered
    assert not missing, "add a row to WALKS in tests/scheduler/walks.py"


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
