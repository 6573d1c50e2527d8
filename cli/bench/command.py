"""`postdate bench`: what this machine carries, in two minutes."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.output import fail, show
from scheduler.errors import PostdateError
from scheduler.settings import from_environment

if TYPE_CHECKING:
    from cli.bench.ground import Ground
    from cli.bench.sizing import Findings


@click.command(name="bench")
@click.option(
    "--seconds",
    type=click.FloatRange(0.5, 3600),
    default=90.0,
    show_default=True,
    help="How long to measure; storing what is fired comes on top.",
)
@click.option(
    "--rate",
    type=click.FloatRange(0, min_open=True),
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
@click.option(
    "--live",
    is_flag=True,
    help="Measure the store that POSTDATE_REDIS_URL, --redis-url or --data-dir names, and not one"
    " of the bench's own.",
)
@click.option("--redis-url", metavar="URL", help="That store. [env: POSTDATE_REDIS_URL]")
@click.option(
    "--data-dir",
    metavar="DIR",
    help="Without a URL: the directory of a running `up`. [env: POSTDATE_DATA_DIR]",
)
@click.option("--yes", is_flag=True, help="With --live: do not ask, though the store is in use.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for machines.")
def bench_command(
    seconds: float,
    rate: float,
    directory: Path,
    live: bool,
    redis_url: str | None,
    data_dir: str | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Measure what this machine carries, in two minutes.

    Starts a store, an API and a worker of its own, as `postdate up` would, accepts and fires at
    itself as fast as it can, in short rounds, and stops and removes all of it. It prints how many
    schedules a second were accepted and fired, how late, what was full first, the memory of
    a million that wait, and how many processes --rate needs. Settings in the environment count for
    nothing here, and no store but its own is touched.

    With --live it does that with the store you run: one server, a cluster or sentinels. It asks
    first if that is in use. What it stores is below keys of its own, where no worker of yours
    looks, as its worker looks nowhere else; it is a bounded part of what there is room for, and is
    removed in the end, by a process of its own even if this one is killed, or else by the next
    bench. Others who use the store meanwhile wait some milliseconds longer; if it is a second, it
    ends.
    """
    if not live and (redis_url or data_dir):
        raise click.UsageError("--redis-url and --data-dir name the store for --live.")
    from cli.log_setup import set_up_logging
    from cli.open_files import raise_limit

    set_up_logging("warning", as_json=as_json)
    raise_limit()
    try:
        import uvloop

        ground = _live_ground(redis_url, data_dir, yes=yes) if live else _own_ground(directory)
        found = uvloop.run(_measure(ground, seconds, rate))
    except PostdateError as error:
        fail(str(error), as_json=as_json)
    except (asyncio.CancelledError, KeyboardInterrupt):
        fail("Ended before it was done.", as_json=as_json)
    from cli.bench import report

    show(report.as_json(*found), report.as_text(*found), as_json=as_json)


def _own_ground(directory: Path) -> AbstractAsyncContextManager[Ground]:
    from cli.bench.ground import own_ground

    _forget_settings()
    return own_ground(directory)


def _live_ground(
    redis_url: str | None, data_dir: str | None, *, yes: bool
) -> AbstractAsyncContextManager[Ground]:
    """Once it was looked at, and who is asked has agreed. Raises PostdateError."""
    from cli.bench.live import live_ground, look
    from cli.options import locate_store

    given = {"redis_url": redis_url, "data_dir": data_dir}
    flags = {name: value for name, value in given.items() if value is not None}
    settings = locate_store(from_environment(os.environ, flags))
    seen = asyncio.run(look(settings))
    if seen.in_use and not yes:
        click.confirm(f"{seen.in_use}. Measure it?", abort=True, err=True)
    _forget_settings()
    # What a create costs with these is what it costs you.
    os.environ["POSTDATE_WAIT_REPLICAS"] = str(settings.wait_replicas)
    os.environ["POSTDATE_SCHEDULE_RETENTION_HOURS"] = "0"  # nothing stays for a day
    return live_ground(settings, seen)


def _forget_settings() -> None:
    """A store, a lease, a limit of yours: neither we nor our children are to meet them."""
    for name in [name for name in os.environ if name.startswith("POSTDATE_")]:
        del os.environ[name]
    os.environ["POSTDATE_LOG_LEVEL"] = "error"  # they warn of each hold


async def _measure(
    on: AbstractAsyncContextManager[Ground], seconds: float, rate: float
) -> tuple[Findings, dict[str, Any]]:
    """What was found, and what there is to tell of the store."""
    from cli.bench.rounds import ROUNDS, rounds
    from cli.bench.sizing import findings
    from cli.bench.stage import staged

    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    done = []
    async with on as ground, staged(ground) as stage:
        async for each in rounds(stage, seconds):
            done.append(each)
            if sys.stderr.isatty():
                click.echo(f"\rround {len(done)} of {ROUNDS}", nl=len(done) == ROUNDS, err=True)
    return findings(done, os.cpu_count() or 1, rate), ground.told
