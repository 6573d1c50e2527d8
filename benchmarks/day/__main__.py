"""A day in 24 minutes: does anything grow that should not, and how late do requests go out?

    python -m benchmarks.day [--hours 24] [--minutes-per-hour 1] [--waiting 5000000]
                             [--valley 20] [--peak 2000] [--rules 2000] [--logged 200000] [--draw]

Real time runs as it is: each hour of the day has a minute of load at that hour's rate, and then the
store's clock is stepped forward by the other 59. So lateness is that of real requests, while the
store sees 24 hours: what has expired is removed, logs are trimmed, statistics roll over. (With a
clock that runs 60 times faster each wait, and all lateness, would be 60 times longer.) The step
comes when nothing is due or held; `clock.c` makes it, in the store alone. API and worker learn the
time from its replies, as ever.

The rate follows a day: a night's valley, and two peaks of the same height. `--waiting` schedules
are stored before it, some of them due in it. In each hour others are created over HTTP, one by one
and in batches: in lanes with a rate, with callbacks, for targets that refuse once or each time;
some are cancelled. `--rules` hourly rules are due beside them, and a tenth as many, of every ten
minutes, all at once after each step, in the first seconds, which are not measured. A client reads
statistics, log and lists. Ended schedules are kept for 6 hours, failed ones for 12, and a log of
`--logged` entries lies there before, which the day trims by age; later it trims by number as well.

At the end of each hour everything is counted, and after the day each series is judged by a bound
(`bounds.py`). It exits with 1 if one is beyond. A whole day is kept in `results/day.json` and drawn
into `docs/benchmarks/day.svg`; `--draw` does only that. A shorter one is a trial, and only printed.
Needs Linux and a C compiler.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks.day.bounds import Bound, bounds
from benchmarks.day.chart import draw
from benchmarks.day.look import Hour
from benchmarks.day.plan import ACCOUNTS, KINDS, LOOK_MS, SETTLE_MS, Plan
from benchmarks.day.run import run
from benchmarks.peers import machine
from benchmarks.support.rounds import short

_ROOT = Path(__file__).parents[2]
_RESULTS, _SVG = _ROOT / "benchmarks/results/day.json", _ROOT / "docs/benchmarks/day.svg"
_WHOLE_DAY = 24
_LEAST_BUSY_MS = 4000
_LEAST_LOAD_OF_OTHERS = 1.0


class Recorded(msgspec.Struct):
    """A whole day. The first of `hours` was counted before it began; `load`: what else the machine
    had to do."""

    machine: str
    measured: str
    load: float
    plan: Plan
    hours: list[Hour]

    @property
    def foot(self) -> str:
        said = f"{self.plan.waiting:,} waiting at first; {self.machine}; {self.measured}"
        is_busy = self.load > _LEAST_LOAD_OF_OTHERS
        return f"{said}, beside other work (a load of {self.load:.0f})" if is_busy else said


def record(found: Recorded) -> None:
    """A line for each hour."""
    text = msgspec.json.encode(found).replace(b'{"rate"', b'\n{"rate"')
    _RESULTS.write_bytes(text + b"\n")


def drawn() -> None:
    """Draws the recorded day."""
    found = msgspec.json.decode(_RESULTS.read_bytes(), type=Recorded)
    _SVG.write_text(draw(found.hours[1:], found.foot))
    print(f"Drawn: {_SVG.relative_to(_ROOT)}")


def judged(found: Sequence[Bound]) -> bool:
    """Prints each bound; whether all hold."""
    print(f"\n{'':42}{'value':>16}{'at most':>16}")
    for each in found:
        verdict = "ok" if each.holds else "BEYOND"
        print(f"{each.name:42}{short(each.value):>16}{short(each.most):>16}  {verdict}")
    return all(each.holds for each in found)


def chosen() -> tuple[Plan, bool]:
    """What to run, and whether only to draw."""
    options = argparse.ArgumentParser(description="A day in 24 minutes.")
    options.add_argument("--hours", type=int, default=_WHOLE_DAY)
    options.add_argument("--minutes-per-hour", type=float, default=1.0)
    options.add_argument("--waiting", type=int, default=5_000_000)
    options.add_argument("--rules", type=int, default=2000)
    options.add_argument("--logged", type=int, default=200_000)
    options.add_argument("--valley", type=int, default=20)
    options.add_argument("--peak", type=int, default=2000)
    options.add_argument("--draw", action="store_true", help="only draw the recorded day")
    given = options.parse_args()
    plan = Plan(
        given.hours,
        int(60_000 * given.minutes_per_hour),
        given.waiting,
        given.rules,
        given.logged,
        given.valley,
        given.peak,
    )
    if plan.busy_ms < _LEAST_BUSY_MS:
        options.error(f"An hour takes {(SETTLE_MS + LOOK_MS + _LEAST_BUSY_MS) // 1000} s at least.")
    if plan.hours < 3 or min(plan.rules, plan.logged) < ACCOUNTS:
        options.error(f"It takes 3 hours at least, and {ACCOUNTS} rules and entries of the log.")
    if sum(plan.due(hour, "waited") for hour in range(plan.hours)) > plan.waiting:
        options.error(f"{KINDS['waited'].share:.0%} of what is due in the day waits before it.")
    return plan, given.draw


def main() -> None:
    plan, only_draw = chosen()
    if only_draw:
        drawn()
        return
    described, began_s = machine.describe(), time.monotonic()
    hours = run(plan)
    print(f"{plan.hours} hours in {(time.monotonic() - began_s) / 60:.0f} minutes")
    all_hold = judged(bounds(plan, hours))
    if plan.hours == _WHOLE_DAY:
        name = "{cores} cores of {processor}, {store} with {malloc}".format(**described)
        record(Recorded(name, described["measured"], round(described["load"], 2), plan, hours))
        drawn()
    sys.exit(not all_hold)


if __name__ == "__main__":
    main()
