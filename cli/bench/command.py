"""`postdate bench`: what this machine carries, in two minutes."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli.output import Progress, fail, show
from cli.parameters import Number
from scheduler.errors import PostdateError

if TYPE_CHECKING:
    from cli.bench.sizing import SizingReport


@click.command(name="bench")
@click.option(
    "--seconds",
    type=Number(0.5, 3600),
    default=90.0,
    show_default=True,
    help="How long to measure; the time to store the schedules comes on top.",
)
@click.option(
    "--rate",
    type=Number(0, min_open=True),
    default=1000.0,
    show_default=True,
    help="How many a second you need: accepted, and fired.",
)
@click.option(
    "--directory",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=Path(),
    help="On which disk; its files lie in a new directory here, and are removed."
    " [default: the current directory]",
)
@click.option("--redis-url", metavar="URL", help="Measure this store, which must have no accounts.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for machines.")
def bench_command(
    seconds: float,
    rate: float,
    directory: Path,
    redis_url: str | None,
    as_json: bool,
) -> None:
    """Measure what this machine carries, in two minutes.

    Starts a store, an API and a worker of its own, as `postdate up` would, accepts and fires at
    itself as fast as it can, in short rounds, and stops and removes all of it. It prints how many
    schedules a second were accepted and fired, how late, which resource was full first, the memory
    of a million waiting ones, and how many processes --rate needs. It ignores settings in the
    environment and touches no store but its own.

    With --redis-url it measures a store that you have set up for that: one server, a cluster or
    sentinels. It refuses one that has accounts, and removes its own in the end.
    POSTDATE_WAIT_REPLICAS counts as it does for an API.
    """
    from cli.serving.log_setup import set_up_logging
    from cli.serving.roles import raise_limit

    set_up_logging("warning", as_json=as_json)
    raise_limit()
    try:
        import msgspec
        import uvloop

        found = uvloop.run(_measure(directory, redis_url, seconds, rate, shown=not as_json))
    except PostdateError as error:
        fail(str(error), as_json=as_json)
    except (asyncio.CancelledError, KeyboardInterrupt):
        fail("Ended before it was done.", as_json=as_json)
    from cli.bench.sizing import as_text

    show(msgspec.to_builtins(found), as_text(found), as_json=as_json)


def _forget_settings(but: str | None) -> None:
    """Neither this process nor its children may read the caller's settings."""
    for name in [name for name in os.environ if name.startswith("POSTDATE_")]:
        if name != but:
            del os.environ[name]
    os.environ["POSTDATE_LOG_LEVEL"] = "error"  # they warn of each hold


async def _measure(
    directory: Path, redis_url: str | None, seconds: float, rate: float, *, shown: bool
) -> SizingReport:
    from cli.bench.rounds import ROUNDS, rounds
    from cli.bench.sizing import findings
    from cli.bench.stage import given_store, own_store, staged

    _forget_settings(but="POSTDATE_WAIT_REPLICAS" if redis_url else None)
    store = given_store(redis_url) if redis_url else own_store(directory)
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    done = []
    with Progress("Rounds", ROUNDS, shown=shown) as progress:
        async with store as measured, staged(measured) as stage:
            async for each in rounds(stage, seconds):
                done.append(each)
                progress.add(1)
    return findings(done, os.cpu_count() or 1, rate)
