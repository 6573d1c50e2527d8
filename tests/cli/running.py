"""A command that runs until the test ends it, and its output."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

from tests.support import children
from tests.support.servers import environment


class Running:
    """`lines` has what it has printed so far. Its owner calls `end`."""

    def __init__(self, *arguments: str, **settings: object) -> None:
        self._process = children.start(
            [sys.executable, "-P", "-m", "cli.main", *arguments],
            env=environment(**settings),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def end(self, number: int = signal.SIGINT) -> tuple[int, str]:
        """As Ctrl-C does; exit status and stderr."""
        self._process.send_signal(number)
        try:
            status = self._process.wait(30)
        finally:
            self._process.kill()
            self._reader.join(30)
        assert self._process.stdout
        assert self._process.stderr
        with self._process.stdout, self._process.stderr:
            return status, self._process.stderr.read()

    def _read(self) -> None:
        assert self._process.stdout
        self.lines.extend(iter(self._process.stdout.readline, ""))
