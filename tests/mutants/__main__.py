"""Applies each mutant in a copy of the tree, one after the other, and shows that tests notice.

Exits with 1 if one survives, or cannot be judged: its passage is gone, or its tests fail as it is.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

import click

from tests.mutants.mutants import MUTANTS, Mutant, applied, copied

_PASSED, _FAILED = 0, 1
# A mutant that lets a test wait for ever has been noticed as well, or what cleans up after it.
_LONGEST_S = 600
_PYTEST = ("-m", "pytest", "-q", "-x", "--timeout=60", "-p", "no:cacheprovider")


@click.command()
@click.argument("words", nargs=-1)
def main(words: tuple[str, ...]) -> None:
    """Only the mutants whose names or files have one of WORDS in them; without any, all."""
    chosen = [m for m in MUTANTS if not words or any(word in m.name + m.file for word in words)]
    with tempfile.TemporaryDirectory(prefix="pd-mutants-") as folder:
        tree = copied(Path(folder))
        told = [(mutant, _judged(tree, mutant)) for mutant in chosen]
    bad = [mutant.name for mutant, verdict in told if verdict != "caught"]
    click.echo(f"{len(told) - len(bad)} of {len(told)} mutants were caught.")
    sys.exit(bool(bad or not told))


def _judged(tree: Path, mutant: Mutant) -> str:
    began_s = time.monotonic()
    verdict = _verdict(tree, mutant)
    took_s = time.monotonic() - began_s
    click.echo(f"{verdict:<22} {took_s:5.1f} s  {mutant.name} ({mutant.file})")
    return verdict


def _verdict(tree: Path, mutant: Mutant) -> str:
    if (tree / mutant.file).read_text().count(mutant.text) != 1:
        return "PASSAGE NOT FOUND ONCE"
    with applied(tree / mutant.file, mutant.text, mutant.instead):
        code = _run(tree, mutant.tests)
    if code == _FAILED and not _is_sound(tree, mutant.tests):
        return "FAILS WITHOUT IT"
    return {_PASSED: "SURVIVED", _FAILED: "caught"}.get(code, f"PYTEST SAID {code}")


@cache
def _is_sound(tree: Path, tests: tuple[str, ...]) -> bool:
    """Whether they pass in the tree as it is: others can show nothing."""
    return _run(tree, tests) == _PASSED


def _run(tree: Path, tests: tuple[str, ...]) -> int:
    """What pytest, in the tree, says of these tests."""
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    try:
        done = subprocess.run(
            [sys.executable, "-P", *_PYTEST, *tests],
            cwd=tree,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_LONGEST_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return _FAILED
    return done.returncode


if __name__ == "__main__":
    main()
