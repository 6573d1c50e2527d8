"""`make fuzz`: all that takes bytes from outside is fed with anything, for SECONDS=60. Exit status
1 if something broke; the smallest input that does it is printed."""

from __future__ import annotations

import argparse
import sys
import time
import traceback

from tests.fuzz.fuzzing import run
from tests.fuzz.subjects import SUBJECTS

_AT_ONCE = 2000


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the first inputs")
    parser.add_argument("--subject", action="append", choices=sorted(SUBJECTS))
    options = parser.parse_args()
    until_s = time.monotonic() + options.seconds
    broken, rounds = set[str](), 0
    while time.monotonic() < until_s:
        for subject in options.subject or SUBJECTS:
            if subject not in broken and not _survives(subject, options.seed + rounds):
                broken.add(subject)
        rounds += 1
    sys.stdout.write(f"{rounds} rounds of {_AT_ONCE:,} inputs for each, from seed {options.seed}\n")
    sys.stdout.write(f"broken: {', '.join(sorted(broken)) or 'nothing'}\n")
    return 1 if broken else 0


def _survives(subject: str, number: int) -> bool:
    try:
        run(subject, _AT_ONCE, number)
    except Exception:
        sys.stdout.write(f"{subject}, seed {number}:\n{traceback.format_exc()}\n")
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
