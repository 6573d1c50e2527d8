"""`postdate backup`: a copy of the embedded store's files, made while it goes on."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import click
from redis.asyncio import Redis

from cli.data_dir import DataDir
from cli.embedded import is_running
from cli.options import Context, command
from scheduler.errors import PostdateError
from scheduler.store.failures import translated
from scheduler.times import format_iso8601

_FILES = "appendonlydir"
_REWRITES = "auto-aof-rewrite-percentage"
_PATIENCE_S = 600.0
_LOOK_EVERY_S = 0.2


@click.command(name="backup")
@click.argument("directory", type=click.Path(path_type=Path, exists=False))
@command()
def backup_command(context: Context, directory: Path) -> None:
    """Copy the data dir's store to a new DIRECTORY, which `postdate up --data-dir` can start from.

    It may be running meanwhile: the copy is what was on disk at the moment that is printed, the
    --fired-since of a later `postdate restore`. For a store elsewhere use its own tools.
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
    at = format_iso8601(asyncio.run(_copied(data_dir, directory)))
    context.show(
        {"backup": str(directory), "at": at},
        f"{directory} is a backup of {at}.",
    )


async def _copied(data_dir: DataDir, to: Path) -> int:
    """The moment (ms) from which on what was written may not be in the copy."""
    at_ms = time.time_ns() // 1_000_000
    if not is_running(data_dir):
        _copy(data_dir, to)
        return at_ms
    client = Redis.from_url(data_dir.url)
    try:
        with translated():
            async with _no_rewrites(client):
                seconds, micros = await client.time()
                await asyncio.to_thread(_copy, data_dir, to)
    finally:
        await client.aclose()
    return int(seconds) * 1000 + int(micros) // 1000


@asynccontextmanager
async def _no_rewrites(client: Redis) -> AsyncIterator[None]:
    """Meanwhile files are only appended to, and a copy's torn end is cut off as after a crash."""
    before = str((await client.config_get(_REWRITES))[_REWRITES])
    await client.config_set(_REWRITES, 0)
    try:
        async with asyncio.timeout(_PATIENCE_S):
            await _rewritten(client)
        yield
    finally:
        await client.config_set(_REWRITES, before)


async def _rewritten(client: Redis) -> None:
    """Returns once no rewrite is under way."""
    while (await client.info("persistence"))["aof_rewrite_in_progress"]:  # noqa: ASYNC110
        await asyncio.sleep(_LOOK_EVERY_S)


def _copy(data_dir: DataDir, to: Path) -> None:
    shutil.copytree(data_dir.path / _FILES, to / _FILES)
