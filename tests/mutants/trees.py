"""A copy of the tree, and one passage of it replaced for a while."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_ROOMS = (
    "scheduler",
    "metrics",
    "api",
    "worker",
    "cli",
    "clients",
    "tests",
    "docs",
    "pyproject.toml",
)


@contextmanager
def applied(path: Path, text: str, instead: str) -> Iterator[None]:
    """Within it the file has `instead` of `text`."""
    before = path.read_text()
    # Python matches bytecode to its source by second and size, which may both be the same.
    bytecode = Path(importlib.util.cache_from_source(str(path)))
    try:
        path.write_text(before.replace(text, instead))
        bytecode.unlink(missing_ok=True)
        yield
    finally:
        path.write_text(before)
        bytecode.unlink(missing_ok=True)


def copied(folder: Path) -> Path:
    """Copies to `folder` all that tests need; returns it."""
    for room in _ROOMS:
        if (_ROOT / room).is_dir():
            shutil.copytree(_ROOT / room, folder / room)
        else:
            shutil.copy2(_ROOT / room, folder / room)
    return folder
