"""Postdate as its users run it: real processes."""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import IO, Self

from cli.serving.data_dir import DataDir
from cli.serving.embedded import ask, is_running
from tests.support import children, store_servers
from tests.support.waiting import DEADLINE_S, free_port, until

ROOT = Path(__file__).resolve().parents[2]
_READY = re.compile(
    r"^Postdate (?:is ready: (\S+)|worker is ready(?: \(\d+ processes\))?)$", re.MULTILINE
)
_KEY = re.compile(r"\bpd_\d+_[A-Za-z0-9_-]{43}(?![A-Za-z0-9_-])")


def environment(**settings: object) -> dict[str, str]:
    """A clean environment with these settings: `port=1` is POSTDATE_PORT=1."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("POSTDATE_")}
    path = os.pathsep.join([*store_servers.stand_ins, str(ROOT), str(ROOT / "clients/python")])
    # Many run side by side here, and one of them would have the port.
    of_its_own = {"POSTDATE_METRICS_PORT": "0", **settings_environment(settings)}
    return {**kept, "PYTHONPATH": path, **of_its_own}


def settings_environment(settings: dict[str, object]) -> dict[str, str]:
    """The environment variables of these settings alone."""
    return {f"POSTDATE_{name.upper()}": str(value) for name, value in settings.items()}


def postdate_process(*arguments: str, **settings: object) -> subprocess.CompletedProcess[str]:
    """Runs one command to its end, as a shell does."""
    command = [sys.executable, "-P", "-m", "cli.main", *arguments]
    process = children.start(
        command,
        env=environment(**settings),
        cwd=tempfile.gettempdir(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            stdout, stderr = process.communicate(timeout=DEADLINE_S * 2)
        finally:
            process.kill()
    return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)


class PostdateProcess:
    """One `postdate up`, `api` or `worker`, in an environment of its own.

    `settings` are environment variables: `lease_ms=3000` is POSTDATE_LEASE_MS=3000. `up` gets
    a data dir of its own unless one is given, and any free port; `api` a free port. Unless it is
    `forked`, it and its children are new Pythons, which takes them a second each.
    """

    def __init__(
        self,
        role: str = "up",
        *arguments: str,
        module: str = "cli.main",
        forked: bool = True,
        **settings: object,
    ) -> None:
        self.role = role
        self._forked = forked
        self._module = module
        self._owns_data_dir = "data_dir" not in settings
        if self._owns_data_dir:
            settings["data_dir"] = tempfile.mkdtemp(prefix="pd-data-")
        settings.setdefault("port", 0 if role == "up" else free_port())
        self.data_dir = Path(str(settings["data_dir"]))
        self._settings = settings
        self._arguments = arguments
        self._process: subprocess.Popen[str] | None = None
        self._readers: dict[str, threading.Thread] = {}
        self._streams: dict[str, list[str]] = {"stdout": [], "stderr": []}

    @property
    def stdout(self) -> str:
        return "".join(self._streams["stdout"])

    @property
    def stderr(self) -> str:
        return "".join(self._streams["stderr"])

    @property
    def pid(self) -> int:
        return self._running.pid

    def memory_bytes(self) -> int:
        """What it has in memory right now. Linux only."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * resource.getpagesize()

    def cpu_s(self) -> float:
        """User and system time so far. Linux only."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def base_url(self) -> str:
        match = _READY.search(self.stdout)
        return match[1] if match and match[1] else f"http://127.0.0.1:{self._settings['port']}"

    @property
    def redis_url(self) -> str:
        return str(self._settings.get("redis_url") or DataDir(self.data_dir).url)

    @property
    def api_key(self) -> str:
        """The key that this start printed."""
        match = _KEY.search(self.stdout)
        assert match, f"no API key was printed:\n{self.stdout}"
        return match[0]

    def spawn(self) -> None:
        """Starts it without waiting for anything."""
        self._streams = {"stdout": [], "stderr": []}
        self._process = children.start(
            [sys.executable, "-P", "-m", self._module, self.role, *self._arguments],
            env=environment(**self._settings),
            cwd=tempfile.gettempdir(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            forked=self._forked,
        )
        self._readers = {
            name: threading.Thread(
                target=_read, args=(getattr(self._process, name), lines), daemon=True
            )
            for name, lines in self._streams.items()
        }
        for reader in self._readers.values():
            reader.start()

    def start(self, deadline_s: float = DEADLINE_S * 2) -> None:
        """Starts it and returns once it is ready; fails at once if it ends before."""
        self.spawn()
        until(self._ready_or_ended, f"{self.role} ready:\n{self.stderr}", deadline_s)
        assert self._ready(), f"{self.role} ended:\n{self.stdout}{self.stderr}"

    def signal(self, number: int) -> None:
        self._running.send_signal(number)

    def interrupt(self) -> int:
        """As Ctrl-C does; returns its exit status."""
        self.signal(signal.SIGINT)
        return self.wait()

    def stop(self) -> int:
        self.signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        """kill -9 of this one process; its children find out by themselves."""
        self._running.kill()
        self.wait()

    def wait(self, deadline_s: float = DEADLINE_S * 2) -> int:
        """Its exit status, once it has ended and all that it printed has been read."""
        status = self._running.wait(deadline_s)
        for name, reader in self._readers.items():
            # The children of a killed `up` still hold its stderr, but never its stdout.
            if name == "stdout" or status >= 0:
                reader.join(DEADLINE_S)
        return status

    def remove(self) -> None:
        """For the end of a test: stops what runs, an orphaned Valkey too, removes the files."""
        if self._process is not None and self._process.poll() is None:
            self.stop()
        if is_running(DataDir(self.data_dir)):
            ask(DataDir(self.data_dir).socket, "SHUTDOWN")
        if self._process is not None:
            until(lambda: not processes_of(self.data_dir), f"end of all of {self.data_dir}")
            for reader in self._readers.values():
                reader.join(DEADLINE_S)
        if self._owns_data_dir:
            shutil.rmtree(self.data_dir, ignore_errors=True)

    @property
    def _running(self) -> subprocess.Popen[str]:
        assert self._process is not None, "it was not started"
        return self._process

    def _ready_or_ended(self) -> bool:
        return self._running.poll() is not None or self._ready()

    def _ready(self) -> bool:
        """The first of several API processes serves before the last one is there."""
        if self.role != "api":
            return bool(_READY.search(self.stdout))
        is_whole = int(str(self._settings.get("processes", 1))) == 1 or " processes)" in self.stdout
        return is_whole and get_ok(self.base_url + "/readyz")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def processes_of(data_dir: Path) -> dict[int, str]:
    """Process ids and command lines of whatever was started for this data dir. Linux only."""
    wanted = os.fsencode(os.path.realpath(data_dir))
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
                if wanted in command or wanted in (entry / "environ").read_bytes():
                    found[int(entry.name)] = command.replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
    found.pop(os.getpid(), None)
    return found


def get_ok(url: str, timeout_s: float = 5.0) -> bool:
    """Whether it is there, and answers a GET with 200."""
    try:
        with urllib.request.urlopen(url, timeout=timeout_s) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _read(stream: IO[str], lines: list[str]) -> None:
    with stream:
        lines.extend(iter(stream.readline, ""))
