"""The store that is measured: the bench's own, or an empty one that a URL names."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from cli.data_dir import DataDir
from cli.embedded import EmbeddedValkey
from cli.options import open_store
from scheduler.errors import PostdateError
from scheduler.settings import Settings, without_password


class Measured(NamedTuple):
    """`remote`: it runs on another machine."""

    redis_url: str
    data_dir: Path = Path()
    version: str = ""
    servers: int = 1
    remote: bool = False

    @property
    def own(self) -> bool:
        return not self.version

    def as_json(self) -> dict[str, Any]:
        if self.own:
            return {"own": True}
        url = without_password(self.redis_url)
        return {"own": False, "url": url, "version": self.version, "servers": self.servers}


@asynccontextmanager
async def own_store(directory: Path) -> AsyncIterator[Measured]:
    """A Valkey in a new directory below this one; both are removed afterwards. Raises
    PostdateError."""
    try:
        home = tempfile.TemporaryDirectory(prefix="postdate-bench-", dir=directory)
    except OSError as error:
        raise PostdateError(f"Nothing can be made in {directory}: {error.strerror}.") from None
    with home as path:
        data_dir = DataDir(Path(path))
        valkey = EmbeddedValkey(data_dir)
        try:
            await valkey.start()
            yield Measured(data_dir.url, data_dir.path)
        finally:
            await valkey.stop()


@asynccontextmanager
async def given_store(redis_url: str) -> AsyncIterator[Measured]:
    """The store at this URL. Raises PostdateError if it cannot be used, or has accounts."""
    async with aclosing(await open_store(Settings(redis_url=redis_url))) as store:
        _, accounts = await store.accounts.some(0)
        servers = await store.system.servers()
    if accounts:
        raise PostdateError(
            f"The store at {without_password(redis_url)} has accounts ({accounts:,}): only one"
            " without any is measured."
        )
    host = urlsplit(redis_url).hostname
    yield Measured(
        redis_url,
        version=servers[0].version,
        servers=len(servers),
        remote=host not in (None, "localhost", "127.0.0.1", "::1"),
    )
