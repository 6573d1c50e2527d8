"""`make attack`: floods of hostile targets, and what a good neighbour notices of each. Exit status
1 if it is more than the bounds allow."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import click

from cli.serving.roles import raise_limit
from tests.attack.floods import FLOODS
from tests.attack.run import KINDS, Attack, Result
from tests.attack.shared import SHARED
from tests.support.valkey import ValkeyProcess


def main() -> int:
    options = _parser().parse_args()
    raise_limit()
    chosen = [each for each in FLOODS if not options.flood or each.name in options.flood]
    broken = []
    with (
        tempfile.TemporaryDirectory(prefix="pd-attack-") as directory,
        Attack(Path(directory), options.timeout_ms, options.rate, options.seconds) as attack,
    ):
        if chosen:
            click.echo(_HEADER)
        for flood in chosen:
            count = max(1, round(flood.count * options.scale)) if flood.count else 0
            result = attack.run(flood._replace(count=count))
            click.echo(_line(result, count * flood.waves))
            broken += [f"{flood.name}: {what}" for what in _breaches(result, options)]
    for name, flood_of in SHARED.items():
        if not options.flood or name in options.flood:
            with ValkeyProcess() as valkey:
                said, is_bad = flood_of(valkey.url)
            click.echo(f"{name}: {said}")
            broken += [f"{name}: {said}"] if is_bad else []
    for breach in broken:
        click.echo(breach)
    return 1 if broken else 0


_HEADER = (
    "| Flood | fires | ended | "
    + " | ".join(f"{kind} p50 / p99 / worst (ms)" for kind in KINDS)
    + " | worker (MB) | beyond its limit (ms) |\n"
    + "|---|--:|--:|"
    + "--:|" * len(KINDS)
    + "--:|--:|"
)


def _line(result: Result, fires: int) -> str:
    late = [
        f"{each.p50:.0f} / {each.p99:.0f} / {each.worst:.0f}"
        for each in (result.neighbour[kind] for kind in KINDS)
    ]
    cells = [result.flood, f"{fires:,}", f"{result.fired:,}", *late]
    cells += [f"{result.memory_mb:.0f}", f"{max(0, result.beyond_ms):.0f}"]
    return "| " + " | ".join(cells) + " |"


def _breaches(result: Result, options: argparse.Namespace) -> list[str]:
    found = []
    for kind, late in result.neighbour.items():
        bound_ms = options.own_p99_ms if kind == "same account" else options.p99_ms
        if late.p99 > bound_ms:
            found.append(f"{kind}: p99 {late.p99:.0f} ms is over {bound_ms} ms")
        # The flood's account waits for its own: some of it may be due yet.
        if late.amiss and kind != "same account":
            found.append(f"{kind}: {late.amiss} did not come once each")
    if result.memory_mb > options.memory_mb:
        found.append(f"{result.memory_mb:.0f} MB is over {options.memory_mb} MB")
    if result.beyond_ms > options.beyond_ms:
        found.append(
            f"{result.beyond_ms:.0f} ms beyond a time limit is over {options.beyond_ms} ms"
        )
    if result.lost:
        found.append(f"{result.lost} warnings about the store or a lease")
    return found


_NAMES = [*(each.name for each in FLOODS), *SHARED]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    parser.add_argument("--flood", action="append", choices=_NAMES)
    parser.add_argument("--scale", type=float, default=1.0, help="of each flood's fires")
    parser.add_argument("--seconds", type=float, default=8.0, help="of the neighbour's requests")
    parser.add_argument("--rate", type=int, default=25, help="of each kind of these, a second")
    parser.add_argument("--timeout-ms", type=int, default=5000, help="of a fire")
    parser.add_argument("--p99-ms", type=float, default=250.0, help="of the neighbour, at most")
    parser.add_argument("--own-p99-ms", type=float, default=2000.0, help="of the flood's account")
    parser.add_argument("--memory-mb", type=float, default=400.0, help="of the worker, at most")
    parser.add_argument("--beyond-ms", type=float, default=200.0, help="over the time limit")
    return parser


if __name__ == "__main__":
    sys.exit(main())
