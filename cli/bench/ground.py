"""What is measured on: a store of the bench's own, or one that others use."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from cli.child import Child
from cli.data_dir import DataDir
from cli.embedded import EmbeddedValkey
from scheduler.errors import PostdateError


class Most(NamedTuple):
    """What a round does at most: what it accepts (None: what there is time for), what it fires,
    and what it has on its way to the store at a time beside the API."""

    accepted: int | None
    fired: int
    at_once: int


class Ground(msgspec.Struct):
    """`background_cores` is what others had of the store's CPU before the bench began, and `remote`
    that its CPU is not this machine's. `told` is about the store; it is whole once it was left."""

    redis_url: str
    most: Most
    data_dir: Path = Path()
    servers: int = 1
    remote: bool = False
    background_cores: float = 0.0
    # Of API and worker, and what they keep open.
    arguments: list[str] = []
    pass_fds: tuple[int, ...] = ()
    trouble: str = ""
    told: dict[str, Any] = {}


@asynccontextmanager
async def own_ground(directory: Path) -> AsyncIterator[Ground]:
    """A Valkey in a new directory below this one. Nothing is left of it, not even if this process
    is killed. Raises PostdateError."""
    async with AsyncExitStack() as stops:
        home = await _home(directory, stops)
        valkey = EmbeddedValkey(DataDir(home))
        stops.push_async_callback(valkey.stop)
        await valkey.start()
        yield Ground(DataDir(home).url, Most(None, 20_000, 1000), home, told={"own": True})


async def _home(directory: Path, stops: AsyncExitStack) -> Path:
    """A new directory, and a process that removes it once we have gone, or the stack ends."""
    try:
        home = Path(tempfile.mkdtemp(prefix="postdate-bench-", dir=directory))
    except OSError as error:
        raise PostdateError(f"Nothing can be made in {directory}: {error.strerror}.") from None
    theirs, ours = os.pipe()
    argv = [sys.executable, "-P", "-m", "cli.bench.sweeper", str(theirs), str(home)]
    sweeper = Child("sweeper", argv, pass_fds=(theirs,))
    try:
        await sweeper.start()
    finally:
        os.close(theirs)
    stops.push_async_callback(sweeper.wait)
    stops.callback(os.close, ours)
    return home
