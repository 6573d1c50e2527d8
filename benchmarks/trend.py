"""Is this commit slower than the one before? Measures it, compares the two, and records it.

    python -m benchmarks.trend            # five rounds, beside BullMQ: 10 minutes
    python -m benchmarks.trend --quick    # three rounds, alone: 3 minutes, for each change
    python -m benchmarks.trend --draw     # only draws again

A round is the burst, the lateness at two rates and the creates of `benchmarks.peers`, each on fresh
servers; then `benchmarks.store` once, in five stretches. The printed table has each median, its
ratio to the last recorded commit on such a machine, and whether that is noise, WORSE or better.
Each commit and machine has one line of benchmarks/results/trend.jsonl; measuring again replaces it.
docs/benchmarks/trend.svg draws them. Uncommitted changes are compared, but not recorded.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import uvloop

from benchmarks import store
from benchmarks.peers import machine, measure
from benchmarks.peers.__main__ import prepared
from benchmarks.peers.systems import System
from benchmarks.support import stage, trend_chart
from benchmarks.support.rounds import NOISE, are_noise, columns, short
from benchmarks.support.trend_chart import FIGURES

_ROOT = Path(__file__).parent.parent
_LINES = _ROOT / "benchmarks/results/trend.jsonl"
_SVG = _ROOT / "docs/benchmarks/trend.svg"
_RATES = (500, 2_000)
_LOGGED = 10_000
_MACHINE = "{cores} cores of {processor}, {system}, {store} with {malloc}, Python {python}"
_CHANGE = 0.1
_LEAST_ROUNDS = 3

Line = dict[str, Any]
"""`commit`, `committed`, `machine`, `load`, `rounds`; `figures`: median, least and most of each;
`beside`: the medians of BullMQ, if it was measured."""


class Commit(NamedTuple):
    name: str
    at: str


def checked_out() -> Commit | None:
    """None if files differ from it, since the figures are not its own, and outside of a clone."""
    try:
        name, at = _git("log", "-1", "--format=%h %cI").split()
        but_results = (".", ":!benchmarks/results", ":!docs/benchmarks")
        changed = _git("status", "--porcelain", "--", *but_results)
    except (OSError, subprocess.CalledProcessError):
        return None
    return None if changed else Commit(name, at)


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=_ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def one_round(system: System) -> dict[str, float]:
    """All figures but those of the store."""
    found = measure.enqueue(system, measure.FULL) | measure.burst(system, measure.FULL)
    for rate in _RATES:
        late = measure.lateness(system, measure.FULL._replace(rate=rate))
        found |= {key.replace("late_", f"late_{rate}_", 1): value for key, value in late.items()}
    wrong = {key: n for key, n in found.items() if n and key.endswith(("lost", "twice"))}
    if wrong:
        print(f"{system.title}: {wrong}")
    return {key: value for key, value in found.items() if key in FIGURES}


def run(systems: Sequence[System], rounds: int) -> Line:
    """Measures them in turn, ourselves first, and then our store."""
    described = machine.describe()  # before it is busy with ourselves
    if described["load"] > described["cores"] / 2:
        print(f"The machine is busy with other work: a load of {described['load']:.1f}.")
    found: dict[str, list[dict[str, float]]] = {_name(system): [] for system in systems}
    for number in range(rounds):
        for system in systems:
            measured = one_round(system)
            found[_name(system)].append(measured)
            burst = measured["burst_per_second"]
            print(f"round {number + 1}  {system.title:9} {burst:8,.0f}/s in a burst", flush=True)
    ours = columns(found.pop(_name(systems[0])))
    with stage.valkey() as server:
        costs = uvloop.run(store.measure(server, _LOGGED, _LOGGED))
    ours |= {f"store_{name}_us": values for name, values in costs.items()}
    return {
        "machine": _MACHINE.format(**described),
        "load": round(described["load"], 2),
        "rounds": rounds,
        "figures": {name: _range(values) for name, values in ours.items()},
        "beside": {
            peer: {name: _range(values)[0] for name, values in columns(measured).items()}
            for peer, measured in found.items()
        },
    }


def _name(system: System) -> str:
    return f"{system.title} {next(iter(system.versions().values()))}"


def _range(values: Sequence[float]) -> list[float]:
    return [round(each(values), 3) for each in (statistics.median, min, max)]


def load() -> list[Line]:
    if not _LINES.exists():
        return []
    return [json.loads(line) for line in _LINES.read_text().splitlines()]


def recorded(lines: Sequence[Line], new: Line) -> list[Line]:
    """The new one instead of an earlier one of the same commit and machine; by time of commit."""
    key = (new["commit"], new["machine"])
    kept = [line for line in lines if (line["commit"], line["machine"]) != key]
    return sorted([*kept, new], key=lambda line: datetime.fromisoformat(line["committed"]))


def before(lines: Sequence[Line], new: Line) -> Line | None:
    """The line before it on such a machine; the last one, if it is not recorded."""
    same = [line for line in lines if line["machine"] == new["machine"]]
    earlier = same[: same.index(new)] if new in same else same
    return earlier[-1] if earlier else None


def verdict(name: str, now: Sequence[float], before: Sequence[float] | None) -> str:
    """What a figure (median, least, most) says beside the one before. Among noise it is a change
    only if the ranges do not touch."""
    ranges = {"": now, **({"before: ": before} if before else {})}
    said = [
        f"{when}noise, {short(least)} to {short(most)}"
        for when, (_, least, most) in ranges.items()
        if are_noise((least, most))
    ]
    if before and abs(now[0] - before[0]) > _CHANGE * before[0]:
        apart = now[1] > before[2] or now[2] < before[1]
        more_is_better = name.endswith("_per_second")
        if apart or not said:
            said.insert(0, "better" if (now[0] > before[0]) == more_is_better else "WORSE")
    return "; ".join(said)


def table(now: Line, before: Line | None) -> str:
    """A row for each figure."""
    peer, beside = next(iter(now["beside"].items()), ("", {}))
    rows = [f"{'':44}{'this':>9}{'before':>9}{'ratio':>7}  {peer}".rstrip()]
    for name in filter(now["figures"].__contains__, FIGURES):
        figure = now["figures"][name]
        was = before["figures"].get(name) if before else None
        cells = f"{FIGURES[name]:44}{short(figure[0]):>9}"
        cells += f"{short(was[0]):>9}{figure[0] / was[0]:7.2f}" if was and was[0] else " " * 16
        other = short(beside[name]) if name in beside else ""
        rows.append(f"{cells}  {other:>{len(peer)}}  {verdict(name, figure, was)}".rstrip())
    return "\n".join(rows)


def write(lines: Sequence[Line]) -> None:
    _LINES.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    draw(lines)


def draw(lines: Sequence[Line]) -> None:
    _SVG.write_text(trend_chart.draw(lines))
    print(f"Drawn: {_SVG.relative_to(_ROOT)}")


def tell(new: Line, old: Line | None) -> None:
    this, compared = new.get("commit", "uncommitted"), old["commit"] if old else "none"
    print(f"this: {this}; before: {compared}\n\n{table(new, old)}\n")
    print(f"noise: rounds differ by more than {NOISE:.0%}; WORSE, better: by {_CHANGE:.0%}")


def main() -> None:
    options = argparse.ArgumentParser(description="Measures and records a commit.")
    options.add_argument("--quick", action="store_true", help="three rounds, without BullMQ")
    options.add_argument("--rounds", type=int)
    options.add_argument("--draw", action="store_true", help="only draw the recorded figures")
    chosen = options.parse_args()
    if chosen.draw:
        draw(load())
        return
    rounds = chosen.rounds or (3 if chosen.quick else 5)
    if rounds < _LEAST_ROUNDS:
        options.error(f"--rounds is to be {_LEAST_ROUNDS} at least: fewer do not show noise.")
    began_s, commit, lines = time.monotonic(), checked_out(), load()
    systems = prepared(["postdate"] if chosen.quick else ["postdate", "bullmq"])
    new = run(systems, rounds)
    if commit and commit == checked_out():  # nothing was edited meanwhile
        new = {"commit": commit.name, "committed": commit.at, **new}
        lines = recorded(lines, new)
    print(f"\n{new['machine']}; {new['rounds']} rounds, {time.monotonic() - began_s:.0f} s")
    tell(new, before(lines, new))
    if new in lines:
        write(lines)
    else:
        print("Not recorded: there are uncommitted changes, or this is no clone.")


if __name__ == "__main__":
    main()
