"""A real Valkey of the tests' own."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Self
from urllib.parse import quote

from cli.serving.embedded import ask, find_server, server_arguments
from tests.support import children
from tests.support.waiting import DEADLINE_S, until


class ValkeyProcess:
    """A real server on a Unix socket, as durable as the embedded one: `kill` loses nothing.

    With `port` it listens on TCP too. `options` are further lines of its configuration.
    """

    def __init__(self, *, port: int = 0, options: Mapping[str, object] | None = None) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="pd-valkey-"))
        self.socket = self.directory / "valkey.sock"
        self.url = "unix://" + quote(str(self.socket))
        self.tcp_url = f"redis://127.0.0.1:{port}/0" if port else None
        self.options: dict[str, object] = {"port": port, **(options or {})}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns once it answers and has loaded what it had."""
        log = self.directory / "valkey.log"
        extra = [w for name, value in self.options.items() for w in (f"--{name}", str(value))]
        with log.open("ab") as output:
            self._process = children.start(
                [find_server(), *server_arguments(self.directory, self.socket, log), *extra],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        try:
            until(lambda: ask(self.socket, "PING") == "+PONG", f"Valkey, see {log}")
        except BaseException:
            self.kill()
            raise

    def flush(self) -> None:
        """Forgets everything, scripts too, as a new server would have it."""
        assert ask(self.socket, "FLUSHALL") == "+OK"
        assert ask(self.socket, "SCRIPT FLUSH") == "+OK"

    def pause(self) -> None:
        """It and its connections stay, but it answers no call until `resume`."""
        self._running.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._running.send_signal(signal.SIGCONT)

    def fill(self) -> None:
        """Until `empty` it has no room: it refuses what needs more, but what may be done anyway."""
        assert ask(self.socket, "CONFIG SET maxmemory 1") == "+OK"

    def empty(self) -> None:
        assert ask(self.socket, "CONFIG SET maxmemory 0") == "+OK"

    def kill(self) -> None:
        self._running.kill()
        self._ended()

    def stop(self) -> None:
        self._running.terminate()
        self._ended()

    def remove(self) -> None:
        """For the end of a test: kills it if it runs, and removes its files."""
        if self._process is not None:
            self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "it was not started"
        return self._process

    def _ended(self) -> None:
        self._running.wait(DEADLINE_S)
        self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()
