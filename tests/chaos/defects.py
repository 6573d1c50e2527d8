"""Defects that a run has to notice: `make chaos ARGS=--defects` plants each in a copy of the tree,
makes one short run with it, and prints the promises that were broken."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import click

from tests.mutants.trees import applied, copied

LIFECYCLE = "scheduler/store/lifecycle/"
_RUN = ("--seconds", "20", "--margin-ms", "5000")


class Defect(NamedTuple):
    """`instead` of `text` in `file` breaks `promise`, which a run with these options notices."""

    name: str
    promise: str
    file: str
    text: str
    instead: str
    options: tuple[str, ...] = ()


_REPEATED = "sent again: a worker had lost it"
_LEDGER = "the ledger balances"
DEFECTS = (
    Defect(
        "a quarter of all outcomes is thrown away",
        _REPEATED,
        "worker/acks.py",
        "        shard = ack.invocation.shard\n        self._waiting",
        "        shard = ack.invocation.shard\n"
        "        if __import__('random').random() < 0.25:\n"
        "            self._holdings.remove([ack.invocation])\n"
        "            return\n"
        "        self._waiting",
    ),
    Defect(
        "an at-most-once request is sent again after its worker was lost",
        "at-most-once: once",
        "worker/outcome.py",
        "(expired or given_up or request.delivery is Delivery.AT_MOST_ONCE)",
        "(expired or given_up)",
    ),
    Defect(
        "an expired request is sent",
        "expired: not sent",
        "worker/outcome.py",
        "    expired = request.expires_at_ms is not None and now_ms > request.expires_at_ms",
        "    expired = False",
    ),
    Defect(
        "a cancellation refunds two credits",
        _LEDGER,
        LIFECYCLE + "end.lua",
        "{count, -count, -group.less}",
        "{count + 1, -count, -group.less}",
    ),
    Defect(
        "cancelling many refunds nothing",
        _LEDGER,
        LIFECYCLE + "end.lua",
        "{count, -count, -group.less}",
        "{count > 1 and 0 or 1, -count, -group.less}",
    ),
    Defect(
        "a replay takes two credits",
        _LEDGER,
        LIFECYCLE + "create.lua",
        "    if not there[new] and not found then\n",
        "    if not there[new] and not found then\n      account.left = account.left - 1\n",
    ),
    Defect(
        "many are replayed again that were replayed before",
        "replayed: in bulk once",
        LIFECYCLE + "create.lua",
        "elseif (ended[2] or account.originals[key]) and not again then",
        "elseif false then",
    ),
    Defect(
        "an Idempotency-Key is forgotten",
        "a repeated create is one schedule",
        LIFECYCLE + "create.lua",
        "if group.once and string.find(verdicts, DONE, 1, true) then",
        "if false then",
    ),
    Defect(
        "retries come in half of their time",
        "retried: as asked, and no sooner",
        "worker/retries.py",
        "1 + SPREAD * chance",
        "0.5 + SPREAD * chance",
    ),
    Defect(
        "one claim in ten ignores a hold",
        "on hold: nothing goes out",
        LIFECYCLE + "claim.lua",
        "redis.call('EXISTS', prefix .. K.HOLD) == 1 then",
        "redis.call('EXISTS', prefix .. K.HOLD) == 1 and now_us % 10 > 0 then",
        ("--faults", "stop", "--seconds", "60"),
    ),
    Defect(
        "requests are signed with the oldest secret alone",
        "signed with what is good",
        "worker/signatures.py",
        "            for each in secrets\n",
        "            for each in secrets[-1:]\n",
        ("--seconds", "30"),
    ),
    Defect(
        "a request that is sent again at once has the attempt of before",
        "at-least-once: attempts rise",
        "worker/fire.py",
        "self.invocation.attempt += 1",
        "self.invocation.attempt += 0",
    ),
    Defect(
        "what a drain gives back counts as an attempt",
        "given up: a worker had lost it",
        LIFECYCLE + "lease.lua",
        "fresh[#fresh + 1] = schedule",
        "tried[#tried + 1], tried[#tried + 2] = schedule, 1",
        ("--faults", "stop", "--claim-ahead-ms", "1000"),
    ),
)
_BROKEN = re.compile(r"^  Broken: (.*)$", re.MULTILINE)


def all_caught(seed: int, words: Sequence[str]) -> bool:
    """Of the defects whose names or files have one of the words in them; without any, of all.
    False as well if the code has moved from under one."""
    chosen = [d for d in DEFECTS if not words or any(word in d.name + d.file for word in words)]
    with tempfile.TemporaryDirectory(prefix="pd-defects-") as folder:
        tree = copied(Path(folder))
        told = [_judged(tree, defect, seed) for defect in chosen]
    click.echo(f"{told.count('caught')} of {len(told)} defects were caught.")
    return told.count("caught") == len(told) > 0


def _judged(tree: Path, defect: Defect, seed: int) -> str:
    path = tree / defect.file
    if path.read_text().count(defect.text) != 1:
        verdict, broken = "PASSAGE NOT FOUND ONCE", []
    else:
        with applied(path, defect.text, defect.instead):
            broken = _broken(tree, ["--seed", str(seed), *_RUN, *defect.options])
        verdict = "caught" if defect.promise in broken else "SURVIVED"
    click.echo(f"{verdict:<22} {defect.name} ({defect.file})")
    for promise in broken:
        click.echo(f"{'':22}   {promise}")
    return verdict


def _broken(tree: Path, options: list[str]) -> list[str]:
    path = os.pathsep.join([str(tree), str(tree / "clients/python")])
    with tempfile.TemporaryDirectory(dir=tree) as kept:
        command = [sys.executable, "-P", "-m", "tests.chaos", *options, "--keep", kept]
        done = subprocess.run(
            command,
            cwd=tree,
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode not in (0, 1) or "looked at" not in done.stdout:
        raise click.ClickException(f"The run failed:\n{done.stdout}{done.stderr}")
    return _BROKEN.findall(done.stdout)
