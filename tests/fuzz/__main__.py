"""`make fuzz`: all that takes bytes from outside is fed with anything, for SECONDS=60. It ends with
what broke, and the smallest input that does it."""

from __future__ import annotations

import argparse
import time

import click

from tests.fuzz.fuzzing import run
from tests.fuzz.subjects import SUBJECTS

_AT_ONCE = 2000

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the first inputs")
    parser.add_argument("--subject", action="append", choices=sorted(SUBJECTS))
    options = parser.parse_args()
    until_s, seed = time.monotonic() + options.seconds, options.seed
    while time.monotonic() < until_s:
        for subject in options.subject or SUBJECTS:
            click.echo(f"{_AT_ONCE:,} inputs for {subject}, seed {seed}")
            run(subject, _AT_ONCE, seed)
        seed += 1
