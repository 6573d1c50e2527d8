"""What is measured: a store, an API and a worker of the bench's own, and what each has used."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cli.bench.target import Target
from cli.child import Child
from cli.children import Children
from cli.data_dir import DataDir
from cli.embedded import EmbeddedValkey
from cli.options import open_store
from cli.port import Port, reserve
from cli.ready import until_served
from cli.tied import TiedChild
from scheduler.errors import PostdateError
from scheduler.models import Account, Plan
from scheduler.settings import LOOPBACK, Settings

if TYPE_CHECKING:
    from scheduler.store import Store

_PATIENCE_S = 60.0
_CREDITS = 10**9
_TICKS = os.sysconf("SC_CLK_TCK")


class Used(NamedTuple):
    """CPU seconds so far. `idle` is of all cores together; off Linux only client and store are
    known, and the others 0."""

    at_s: float
    client: float
    api: float
    store: float
    worker: float
    idle: float


class Stage(NamedTuple):
    """All that a round needs. `waiting` has what is only accepted, `firing` what is fired."""

    store: Store
    port: Port
    api: Child
    worker: Child
    target: Target
    target_url: str
    waiting: Account
    firing: Account
    key: str

    async def used(self) -> Used:
        return Used(
            time.monotonic(),
            time.process_time(),
            _cpu_s(self.api),
            (await self.store.system.spent()).cpu_s,
            _cpu_s(self.worker),
            _idle_s(),
        )

    @property
    def pids(self) -> tuple[int, int]:
        """Of API and worker: others than before, and one of them has died."""
        return self.api.pid, self.worker.pid


@asynccontextmanager
async def staged(directory: Path) -> AsyncIterator[Stage]:
    """Starts them, in a new directory below this one, and stops them: nothing is left, not even
    if this process is killed. Raises PostdateError."""
    async with AsyncExitStack() as stops:
        home = await _home(directory, stops)
        valkey = EmbeddedValkey(DataDir(home))
        stops.push_async_callback(valkey.stop)
        await valkey.start()
        port = await reserve("127.0.0.1", 0, patience_s=0.0)
        stops.callback(port.free)
        settings = Settings(
            redis_url=DataDir(home).url,
            data_dir=home,
            host=port.address,
            port=port.number,
            metrics_port=0,
            allow_targets=LOOPBACK,
        )
        store = await open_store(settings)
        stops.push_async_callback(store.aclose)
        waiting, firing = [
            await store.accounts.create(name, credits=_CREDITS, plan=Plan.UNLIMITED)
            for name in ("waiting", "firing")
        ]
        _, key = await store.accounts.create_key(waiting.account_id, "bench")
        api = TiedChild("API", "api", settings, arguments=["--quiet-store"], port=port)
        worker = TiedChild("worker", "worker", settings, arguments=["--quiet-store"])
        children = Children(settings, apis=[api], workers=[worker])
        stops.push_async_callback(children.stop)
        await children.start(_PATIENCE_S)
        await until_served(port, _PATIENCE_S)
        target = Target()
        url = await target.listen()
        stops.callback(target.close)
        yield Stage(store, port, api, worker, target, url, waiting, firing, key)


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


def _cpu_s(child: Child) -> float:
    """User and system time of a child so far."""
    try:
        fields = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _idle_s() -> float:
    """What the cores had nothing to do so far, all together."""
    try:
        fields = Path("/proc/stat").read_text().partition("\n")[0].split()
    except OSError:
        return 0.0
    return (int(fields[4]) + int(fields[5])) / _TICKS
