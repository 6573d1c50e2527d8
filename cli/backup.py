"""`postdate backup`: a copy of the embedded store's files, made while it goes on."""

from __future__ import annotations

import asyncio
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from cli.data_dir import DataDir
from cli.embedded import is_running
from cli.options import Context, command, with_store
from scheduler.errors import PostdateError
from scheduler.times import format_iso8601

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
