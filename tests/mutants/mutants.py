"""The mutants: one for each rule that a broken one of its kind once went unnoticed.

Each replaces one passage, which must stand in its file exactly once, and names the tests that are
to fail with it. A rule that moves takes its mutant along. They are written as in a diff:

    @ the file, and what pytest gets to run the tests
    # the rule that is broken
    - the passage
    + what stands there instead; without such lines the passage goes
    # another rule, and the passage as `git diff --word-diff` shows it
    ~ what [-goes-]{+comes+} within it
"""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.mutants.api import API
from tests.mutants.door import DOOR
from tests.mutants.store import STORE
from tests.mutants.worker import WORKER

_ROOT = Path(__file__).resolve().parents[2]
_ROOMS = [
    "postdate_server",
    "scheduler",
    "metrics",
    "api",
    "worker",
    "cli",
    "clients",
    "tests",
    "docs",
    "pyproject.toml",
]


# Within a line that is marked.
_GOES, _COMES = re.compile(r"\[-(.*?)-\]"), re.compile(r"\{\+(.*?)\+\}")


class Mutant(NamedTuple):
    """`instead` of `text` in `file` breaks what `name` says; `tests`, as pytest takes them,
    notice."""

    name: str
    file: str
    text: str
    instead: str
    tests: tuple[str, ...]


# A write of the dashboard as it begins, with its check; and without it.
_WRITE = re.compile(
    r"^async def (\w+)\([^)]*\)[^:]*:\n(?:(?!^\S).*\n)*?    (.*) = await written\(request.*\)\n",
    re.MULTILINE,
)
_UNCHECKED = """    from api.dashboard.viewer.csrf import read_form
    from api.dashboard.viewer.session import signed_in
    {names} = await signed_in(request), await read_form(request)
"""


def read(table: str) -> Iterator[Mutant]:
    """The mutants of a table. `{walk}` among the tests stands for their name up to its colon."""
    for head, name, text, instead in entries(table):
        file, tests = head.split(" ", 1)
        words = shlex.split(tests.replace("{walk}", name.partition(":")[0]))
        yield Mutant(name, file, text, instead, tuple(words))


def entries(table: str) -> Iterator[tuple[str, str, str, str]]:
    """Of each entry what stands behind `@` and `#`, and the passage before and after."""
    for group in table.split("\n@ ")[1:]:
        head, *changes = group.split("\n# ")
        for change in changes:
            name, *lines = change.splitlines()
            text, instead = (
                "\n".join(side for side in sides if side is not None)
                for sides in zip(*map(_sides, lines), strict=True)
            )
            yield head, name, text, instead


def _sides(line: str) -> tuple[str | None, str | None]:
    """A line of a passage before and after; None where it is not there."""
    sign, text = line[0], line[2:]
    if sign != "~":
        return (text, None) if sign == "-" else (None, text)
    return _COMES.sub("", _GOES.sub(r"\1", text)), _COMES.sub(r"\1", _GOES.sub("", text))


def _from_any_page() -> Iterator[Mutant]:
    """Each write of the dashboard without its check: it is taken from any page of any site."""
    for path in sorted((_ROOT / "api/dashboard").rglob("*.py")):
        file = path.relative_to(_ROOT).as_posix()
        for write in _WRITE.finditer(path.read_text()):
            *before, _ = write[0].splitlines(keepends=True)
            unchecked = "".join(before) + _UNCHECKED.format(names=write[2])
            name = f"{write[1]} is taken from any page"
            yield Mutant(name, file, write[0], unchecked, ("tests/dashboard/test_writes.py",))


MUTANTS = (
    *(mutant for table in (STORE, WORKER, API, DOOR) for mutant in read(table)),
    *_from_any_page(),
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
