"""The bench's own API, worker and target, and the CPU time that they and the store use."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from cli.bench.load import LoadTarget
from cli.children import Child, Children, TiedChild
from cli.data_dir import DataDir
from cli.embedded import EmbeddedValkey
from cli.options import open_store
from cli.port import Port, reserve
from scheduler.errors import PostdateError
from scheduler.models import Plan
from scheduler.settings import LOOPBACK, Settings, without_password

if TYPE_CHECKING:
    from scheduler.store import Store

_PATIENCE_S = 60.0
_CREDITS = 10**9
_TICKS = os.sysconf("SC_CLK_TCK")


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


class Used(NamedTuple):
    """CPU seconds so far; `idle` of all cores. Off Linux all but client and store are 0."""

    at_s: float
    client: float
    api: float
    store: float
    worker: float
    idle: float


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

    async def used(self) -> Used:
        return Used(
            time.monotonic(),
            time.process_time(),
            _cpu_s(self.api),
            (await self.store.system.spent()).cpu_s,
            _cpu_s(self.worker),
            _seconds("/proc/stat", 4),  # idle, and idle while the disk works
        )

    @property
    def pids(self) -> tuple[int, int]:
        """Of API and worker; they change if one of them dies."""
        return self.api.pid, self.worker.pid


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
    host = urlsplit(redis_url).hostname
    yield Measured(
        redis_url,
        version=servers[0].version,
        servers=len(servers),
        remote=host not in (None, "localhost", "127.0.0.1", "::1"),
    )


@asynccontextmanager
async def staged(measured: Measured) -> AsyncIterator[Setup]:
    """Starts them on this store, and stops them. Raises PostdateError."""
    async with AsyncExitStack() as stops:
        port = await reserve("127.0.0.1", 0, patience_s=0.0)
        stops.callback(port.free)
        settings = Settings(
            redis_url=measured.redis_url,
            data_dir=measured.data_dir,
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
        if not measured.own:
            stops.push_async_callback(_remove, store, made)
        waiting = await _accounts(store, "waiting", count, made)
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
            [(await store.api_keys.create(each, "bench"))[1] for each in waiting],
            await _accounts(store, "firing", count, made),
        )
        children = Children()
        stops.push_async_callback(children.stop)
        await children.start([api, worker], _PATIENCE_S)
        stops.callback(stage.target.close)
        await stage.target.listen()
        yield stage


async def _accounts(store: Store, name: str, count: int, made: list[str]) -> list[str]:
    """Makes accounts, each on the shard that has the fewest, and adds them to `made`."""
    for n in range(count):
        account = await store.accounts.create(f"{name} {n}", credits=_CREDITS, plan=Plan.UNLIMITED)
        made.append(account.account_id)
    return made[-count:]


async def _remove(store: Store, accounts: Sequence[str]) -> None:
    await store.hold.end()
    for each in accounts:
        await store.deletion.delete(each)


def _cpu_s(child: Child) -> float:
    return _seconds(f"/proc/{child.pid}/stat", 11)  # in user mode and in the kernel


def _seconds(path: str, first: int) -> float:
    """Two neighbouring fields of the file's line, behind the program's name; 0 off Linux."""
    try:
        fields = Path(path).read_text().partition("\n")[0].rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[first]) + int(fields[first + 1])) / _TICKS
