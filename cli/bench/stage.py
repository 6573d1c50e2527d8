"""The bench's own API, worker and target, and the CPU time that they and the store use."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cli.bench.load import LoadTarget
from cli.options import open_store
from cli.serving.children import Child, Children, TiedChild
from cli.serving.data_dir import DataDir
from cli.serving.embedded import EmbeddedValkey
from cli.serving.port import Port, reserve
from scheduler.errors import PostdateError
from scheduler.models import Plan
from scheduler.runtime.settings import LOOPBACK, Settings, without_password

if TYPE_CHECKING:
    from scheduler.store import Store

_PATIENCE_S = 60.0
_CREDITS = 10**9
_TICKS = os.sysconf("SC_CLK_TCK")


class Measured(NamedTuple):
    """The store that is measured. The bench's own one has a `data_dir`."""

    redis_url: str
    data_dir: Path | None = None
    servers: int = 1


class Setup(NamedTuple):
    """All that a round needs. `keys` are of the accounts whose schedules only wait, `firing` are
    the accounts whose schedules are fired."""

    measured: Measured
    store: Store
    port: Port
    api: Child
    worker: Child
    target: LoadTarget
    keys: list[str]
    firing: list[str]

    async def cpu_s(self) -> dict[str, float]:
        """So far, of each process. Off Linux all but client and store are 0."""
        return {
            "client": time.process_time(),
            "api": _cpu_s(self.api),
            "store": (await self.store.system.spent()).cpu_s,
            "worker": _cpu_s(self.worker),
        }


@asynccontextmanager
async def own_store(directory: Path) -> AsyncIterator[Measured]:
    """A Valkey in a new directory below; both are removed afterwards. Raises PostdateError."""
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
    yield Measured(redis_url, servers=len(servers))


@asynccontextmanager
async def staged(measured: Measured) -> AsyncIterator[Setup]:
    """Starts them on this store, and stops them. Raises PostdateError."""
    async with AsyncExitStack() as stops:
        port = await reserve("127.0.0.1", 0, patience_s=0.0)
        stops.callback(port.free)
        settings = Settings(
            redis_url=measured.redis_url,
            data_dir=measured.data_dir or Path(),
            host=port.address,
            port=port.number,
            metrics_port=0,
            allow_targets=LOOPBACK,
        )
        store = await open_store(settings)
        stops.push_async_callback(store.aclose)
        # One account each; where there are several servers, one on each shard, and so on each.
        count = 1 if measured.servers == 1 else store.shards.count
        made: list[str] = []
        if measured.data_dir is None:
            stops.push_async_callback(_remove, store, made)
        for n in range(2 * count):
            account = await store.accounts.create(
                f"bench {n}", credits=_CREDITS, plan=Plan.UNLIMITED
            )
            made.append(account.account_id)
        api, worker = [
            TiedChild(name, role, settings, arguments=["--quiet-store"], port=at)
            for name, role, at in (("API", "api", port), ("worker", "worker", None))
        ]
        stage = Setup(
            measured,
            store,
            port,
            api,
            worker,
            LoadTarget(),
            [(await store.api_keys.create(each, "bench"))[1] for each in made[:count]],
            made[count:],
        )
        children = Children()
        stops.push_async_callback(children.stop)
        await children.start([api, worker], _PATIENCE_S)
        stops.callback(stage.target.close)
        await stage.target.listen()
        yield stage


async def _remove(store: Store, accounts: Sequence[str]) -> None:
    await store.hold.end()
    for each in accounts:
        await store.changes.delete(each)


def _cpu_s(child: Child) -> float:
    """In user mode and in the kernel: two fields behind the program's name; 0 off Linux."""
    try:
        fields = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS
