"""`make chaos`: runs by seeds, a table for each, and exit status 1 if a promise was broken."""

from __future__ import annotations

import argparse
import shutil
import sys
from contextlib import nullcontext
from pathlib import Path

import click

from tests.chaos.defects import all_caught
from tests.chaos.run import STORES, Options, run
from tests.chaos.verdict.verdict import table
from tests.support.store_servers import redis_embedded


def main() -> int:
    options = _parser().parse_args()
    if options.defects is not None:
        caught = [all_caught(seed, options.defects) for seed in options.seed]
        return 0 if all(caught) else 1
    with redis_embedded() if options.redis else nullcontext():
        held = [_one(seed, options) for seed in options.seed]
    return 0 if all(held) else 1


def _one(seed: int, given: argparse.Namespace) -> bool:
    fields = {name: vars(given)[name] for name in Options.__struct_fields__ if name in vars(given)}
    options = Options(**fields | {"seed": seed, "faults": tuple(given.faults)})
    verdict, directory = run(options, given.keep and given.keep / f"seed-{seed}")
    click.echo(table(verdict))
    told = "every promise held." if verdict.held else f"{len(verdict.breaches)} breaches."
    click.echo(f"\nSeed {seed}: {told}\n")
    if not verdict.held:
        click.echo(f"History: {directory}\n")
    elif given.keep is None:
        shutil.rmtree(directory, ignore_errors=True)
    return verdict.held


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, nargs="+", default=[1], help="one run for each")
    parser.add_argument("--seconds", type=float, default=60.0, help="of faults, then it heals")
    parser.add_argument("--store", choices=sorted(STORES), default="single")
    parser.add_argument(
        "--redis", action="store_true", help="the redis-server on PATH instead of Valkey"
    )
    parser.add_argument(
        "--margin-ms", type=int, default=10_000, help="what recovery may take beyond a lease"
    )
    parser.add_argument("--faults", nargs="+", default=[], help="only these kinds")
    parser.add_argument("--claim-ahead-ms", type=int, default=25)
    parser.add_argument("--processes", type=int, help="of each API and worker; 2 for an even seed")
    parser.add_argument("--wait-replicas", type=int, choices=[0, 1], default=1, help="of sentinels")
    parser.add_argument("--keep", type=Path, help="a directory for the histories, held or not")
    parser.add_argument(
        "--defects",
        nargs="*",
        metavar="WORD",
        help="plant known defects and show that runs of 20 s notice each; those with a WORD in "
        "their name or file",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
