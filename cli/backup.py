"""`postdate backup`, a copy of the embedded store's files, made while it goes on; and `postdate
restore`, which decides what to do with all that a restored store believes to be due."""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from cli.data_dir import DataDir
from cli.embedded import is_running
from cli.options import Context, command, with_store
from cli.parameters import moment
from scheduler.errors import PostdateError
from scheduler.times import format_iso8601, parse_iso8601

if TYPE_CHECKING:
    from scheduler.store import Store

_FILES = "appendonlydir"


@click.command(name="backup")
@click.argument("directory", type=click.Path(path_type=Path, exists=False))
@command()
def backup_command(context: Context, directory: Path) -> None:
    """Copy the data dir's store to a new DIRECTORY.

    `postdate up --data-dir DIRECTORY` can start from it. The store may be running meanwhile:
    nothing in the copy is later than the moment printed, the --fired-since of a later `postdate
    restore`. For a store elsewhere use its own tools.
    """
    if context.settings.redis_url is not None:
        raise PostdateError("The store is not this data dir's: back it up with its own tools.")
    data_dir = DataDir(Path(context.settings.data_dir))
    if not (data_dir.path / _FILES).is_dir():
        raise PostdateError(f"There is no store in {data_dir.path}.")
    try:
        directory.mkdir(mode=0o700, parents=True)
    except OSError as error:
        raise PostdateError(f"{directory} cannot be made: {error.strerror}.") from None

    async def copied(store: Store) -> int:
        async with store.system.rewrites_held_back():
            await asyncio.to_thread(_copy, data_dir, directory)
            await store.tick()
            return store.clock.now_ms()

    if is_running(data_dir):
        at_ms = with_store(
            msgspec.structs.replace(context.settings, redis_url=data_dir.url), copied
        )
    else:
        _copy(data_dir, directory)
        at_ms = time.time_ns() // 1_000_000
    at = format_iso8601(at_ms)
    context.show({"backup": str(directory), "at": at}, f"{directory} is a backup of {at}.")


def _copy(data_dir: DataDir, to: Path) -> None:
    shutil.copytree(data_dir.path / _FILES, to / _FILES)


@click.command(name="restore")
@click.option(
    "--fired-since",
    type=moment,
    required=True,
    help="When the backup was made: what was due from then on may have been fired.",
)
@click.option(
    "--fired-until",
    type=moment,
    help="When workers stopped: what was due after that was not fired. [default: now]",
)
@click.option("--expire", "how", flag_value="expire", help="End what may have been fired, unsent.")
@click.option("--fire", "how", flag_value="fire", help="Fire it, possibly a second time.")
@command()
def restore_command(
    context: Context, fired_since: str, fired_until: str | None, how: str | None
) -> None:
    """Decide about what may have been fired before a restore.

    Run it on hold, before `postdate resume`. A backup holds the schedules that waited at its
    moment, though they were fired since: they would go out again. --expire ends those due by
    --fired-until as failed, unsent; they are in the log, and can be replayed. --fire leaves them to
    the workers. Cancels, changes and creates since the backup are lost.
    """
    if how is None:
        raise click.UsageError("Say --expire or --fire.")
    since_ms = _moment_ms(fired_since)
    until_ms = None if fired_until is None else _moment_ms(fired_until)
    answer = with_store(
        context.settings, lambda store: _restore(store, since_ms, until_ms, how == "expire")
    )
    count = answer["expired" if how == "expire" else "due"]
    says = f"{count:,} may have been fired and were ended, unsent."
    if how == "fire":
        says = f"{count:,} may have been fired, and fire again."
    left = [f"It is damaged and was left as it is: {each}." for each in answer["damaged"]]
    context.show(answer, "\n".join([f"{says} `postdate resume` goes on.", *left]))
    if left:
        sys.exit(1)


def _moment_ms(text: str) -> int:
    try:
        return parse_iso8601(text)
    except ValueError as error:
        raise click.UsageError(f"{text!r} is {error}.") from error


async def _restore(
    store: Store, since_ms: int, until_ms: int | None, expire: bool
) -> dict[str, Any]:
    now_ms = store.clock.now_ms()
    until_ms = now_ms if until_ms is None else until_ms
    if not since_ms <= until_ms <= now_ms:
        raise PostdateError("--fired-since must come before --fired-until, and both before now.")
    held_since_ms = (await store.hold.look()).since_ms
    if held_since_ms is None:
        raise PostdateError("Workers may be firing: call `postdate hold` first.")
    newest_ms = await store.restore.last_entry_ms(held_since_ms)
    if newest_ms is not None and newest_ms > since_ms:
        raise PostdateError(
            f"The log goes on until {format_iso8601(newest_ms)}, so that this is no backup of"
            f" {format_iso8601(since_ms)}."
        )
    await store.restore.take_back()
    if not expire:
        return {"due": await store.restore.due(until_ms), "damaged": store.restore.damaged}
    expired = 0

    def count(ended: int) -> None:
        nonlocal expired
        expired += ended

    await store.restore.expire(until_ms, count)
    return {"expired": expired, "damaged": store.restore.damaged}
