"""`make flaky`: `make test` again and again, by turns beside four busy loops and in a shuffled
order. It goes on after a failure, and ends with a table of the rounds; exit status 1 if one
failed."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import NamedTuple

import click

_LOOPS = 4
# It ends with its parent, however that ends.
_BUSY = "import os, sys\nwhile os.getppid() == int(sys.argv[1]): sum(range(100_000))"
_FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", re.MULTILINE)
_BESIDE, _SHUFFLED = "beside busy loops", "shuffled"


class Round(NamedTuple):
    kind: str
    seed: int | None
    passed: bool
    took_s: float
    failed: list[str]

    def __str__(self) -> str:
        said = "passed" if self.passed else "failed"
        seed = "" if self.seed is None else self.seed
        names = " ".join(self.failed)
        return f"{self.kind:<17} {seed:>5} {said:<6} {self.took_s:>5.0f} s  {names}".rstrip()


@click.command()
@click.option("--rounds", default=10, show_default=True, type=click.IntRange(min=1))
@click.option("--seed", default=1, show_default=True, help="Of the first shuffled round.")
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def main(rounds: int, seed: int, words: tuple[str, ...]) -> None:
    """WORDS go to pytest."""
    made = []
    for number in range(rounds):
        made.append(_round(seed + number // 2 if number % 2 else None, words))
        click.echo(f"{number + 1:>2} of {rounds}: {made[-1]}")
    click.echo(f"\n{'kind':<17} {'seed':>5} {'':<6} {'took':>7}  failed tests")
    for each in made:
        click.echo(each)
    if any(each.kind == _SHUFFLED and not each.passed for each in made):
        click.echo(f'\nAgain: make test ARGS="{shlex.join([*_order("SEED"), *words])}"')
    sys.exit(not all(each.passed for each in made))


def _round(seed: int | None, words: tuple[str, ...]) -> Round:
    order = [] if seed is None else _order(seed)
    began_s = time.monotonic()
    with nullcontext() if order else _busy_loops():
        done = subprocess.run(
            ["make", "test", f"ARGS={shlex.join(['-q', '-rfE', *order, *words])}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    took_s, passed = time.monotonic() - began_s, done.returncode == 0
    if not passed:
        click.echo(done.stdout)
    kind = _SHUFFLED if order else _BESIDE
    return Round(kind, seed, passed, took_s, _FAILED.findall(done.stdout))


def _order(seed: int | str) -> list[str]:
    """Files in a shuffled order, and the tests of each."""
    return ["-p", "random_order", f"--random-order-seed={seed}"]


@contextmanager
def _busy_loops() -> Iterator[None]:
    loops = [
        subprocess.Popen([sys.executable, "-c", _BUSY, str(os.getpid())]) for _ in range(_LOOPS)
    ]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
        for loop in loops:
            loop.wait()


if __name__ == "__main__":
    main()
