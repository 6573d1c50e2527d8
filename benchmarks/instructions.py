"""How many instructions does a worker spend on one fire? Steady where CPU time is noise.

    python -m benchmarks.instructions [--count 20000] [--rounds 3]

A worker runs below Valgrind, whose cachegrind counts what it executes in user space, and fires
twice in each round: a few schedules, and `count` more. The difference is of the fires alone. The
rounds differ by some 2 %. Needs `valgrind`.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

import uvloop

from benchmarks.fire import one_round
from benchmarks.support import stage
from benchmarks.support.rounds import warn_of_noise

_WARM = 2000


def instructions(count: int) -> int:
    """What a worker executes from its start, through that many fires, to its end."""
    with contextlib.ExitStack() as stack:
        report = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "report"
        counting = ("--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null")
        below = ["valgrind", *counting, f"--log-file={report}"]
        server = stack.enter_context(stage.valkey())
        target = stack.enter_context(stage.target())
        with stage.worker(server.url, below=below) as worker:
            uvloop.run(one_round(target.url, count, "fires", server, [worker]))
        counted = re.search(r"I\s+refs:\s+([\d,]+)", report.read_text())
        assert counted, report.read_text()
        return int(counted[1].replace(",", ""))


def main() -> None:
    options = argparse.ArgumentParser(description="Counts the instructions of a fire.")
    options.add_argument("--count", type=int, default=20_000)
    options.add_argument("--rounds", type=int, default=3)
    chosen = options.parse_args()
    if shutil.which("valgrind") is None:
        sys.exit("There is no `valgrind` on this machine.")
    rounds = []
    for number in range(chosen.rounds):
        more = instructions(_WARM + chosen.count) - instructions(_WARM)
        rounds.append(more / chosen.count)
        print(f"round {number + 1}  {rounds[-1]:9,.0f} instructions a fire", flush=True)
    print(f"median   {statistics.median(rounds):9,.0f} instructions a fire")
    warn_of_noise([{"instructions": each} for each in rounds])


if __name__ == "__main__":
    main()
