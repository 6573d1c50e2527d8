"""Applies each mutant in a copy of the tree, one after the other, and shows that tests notice.

Exits with 1 if one survives, or cannot be judged: its passage is gone, or its tests fail as it is.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

import click

from tests.mutants.generated import Change, Survivor, judges_of, sampled, survivors
from tests.mutants.mutants import MUTANTS, Mutant, applied, copied

_PASSED, _FAILED = 0, 1
# A mutant that lets a test wait for ever has been noticed as well, or what cleans up after it.
_LONGEST_S = 600
_LONGEST_END_S = 30
# Of a generated one, for which many tests are run.
_LONGEST_GENERATED_S = 600
_RECORDED = "recorded as harmless"
_PYTEST = ("-m", "pytest", "-q", "-x", "--timeout=60", "-p", "no:cacheprovider")


@click.command()
@click.argument("words", nargs=-1)
@click.option("--generated", type=int, help="So many generated ones instead.")
@click.option("--seed", default=1, help="Of the sample of generated ones.")
@click.option("--part", default="1/1", metavar="N/M", help="The Nth of M parts of the sample.")
def main(words: tuple[str, ...], generated: int | None, seed: int, part: str) -> None:
    """Only the mutants whose names or files have one of WORDS in them; without any, all."""
    with tempfile.TemporaryDirectory(prefix="pd-mutants-") as folder:
        tree = copied(Path(folder))
        if generated is not None:
            first, step = (int(number) for number in part.split("/"))
            told = _generated(tree, sampled(generated, seed)[first - 1 :: step], words)
        else:
            chosen = [m for m in MUTANTS if not words or any(w in m.name + m.file for w in words)]
            told = [(mutant.name, _judged(tree, mutant)) for mutant in chosen]
    bad = [name for name, verdict in told if verdict not in ("caught", _RECORDED)]
    click.echo(f"{len(told) - len(bad)} of {len(told)} mutants were caught.")
    sys.exit(bool(bad or not told))


def _generated(
    tree: Path, changes: Sequence[Change], words: tuple[str, ...]
) -> list[tuple[str, str]]:
    """The line of each change, and whether tests notice it."""
    recorded, told = survivors(), list[tuple[str, str]]()
    for change in changes:
        if words and not any(word in change.file for word in words):
            continue
        began_s, text = time.monotonic(), (tree / change.file).read_text()
        number, before, after = change.line_in(text)
        if Survivor(change.file, before, after) in recorded:
            verdict = _RECORDED
        else:
            with applied(tree / change.file, text, change.applied_to(text)):
                code = _run(tree, ("-k", "not redis", *judges_of(change)), _LONGEST_GENERATED_S)
            verdict = {_PASSED: "SURVIVED", None: "NOT JUDGED IN TIME"}.get(code, "caught")
        name = f"{change.file}:{number}\n    - {before}\n    + {after}"
        click.echo(f"{verdict:<22} {time.monotonic() - began_s:5.1f} s  {name}")
        told.append((name, verdict))
    return told


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
    if code is None:
        return "caught"
    if code == _FAILED and not _is_sound(tree, mutant.tests):
        return "FAILS WITHOUT IT"
    return {_PASSED: "SURVIVED", _FAILED: "caught"}.get(code, f"PYTEST SAID {code}")


@cache
def _is_sound(tree: Path, tests: tuple[str, ...]) -> bool:
    """Whether they pass in the tree as it is: others can show nothing."""
    return _run(tree, tests) == _PASSED


def _run(tree: Path, tests: tuple[str, ...], longest_s: float = _LONGEST_S) -> int | None:
    """What pytest, in the tree, says of these tests; None if it did not end in time."""
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    with subprocess.Popen(
        [sys.executable, "-P", *_PYTEST, *tests],
        cwd=tree,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # A shell starts its background jobs deaf to SIGINT.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as pytest:
        try:
            return pytest.wait(longest_s)
        except subprocess.TimeoutExpired:
            pytest.send_signal(signal.SIGINT)  # it stops the servers that it has started
            with suppress(subprocess.TimeoutExpired):
                pytest.wait(_LONGEST_END_S)
            pytest.kill()
            return None


if __name__ == "__main__":
    main()
