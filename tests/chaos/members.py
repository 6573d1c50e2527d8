"""The API and worker processes of a run: broken, started again, and never forgotten."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Any

from tests.processes import PostdateProcess

_READY_S = 90.0


class Member:
    """One process that a run breaks; `name` is as the plan has it. What all its lives wrote to
    stderr is in a file."""

    def __init__(self, name: str, directory: Path, **settings: Any) -> None:
        self.name = name
        self.process = PostdateProcess(name.split()[0], forked=False, **settings)
        self.mishaps: list[str] = []
        self._log = directory / f"{name.replace(' ', '-')}.log"
        self._expected_dead = False

    @property
    def base_url(self) -> str:
        return self.process.base_url

    def start(self) -> None:
        """Returns once it is ready. What keeps it from that is a mishap, not an error."""
        try:
            self.process.start(_READY_S)
            self._expected_dead = False
        except AssertionError as error:
            self.mishaps.append(f"{self.name} did not start: {error}")

    def kill(self) -> None:
        self._note_if_dead()
        self._expected_dead = True
        self.process.kill()
        self._keep_log("killed")

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def look(self) -> None:
        """Notes if it ended by itself."""
        self._note_if_dead()

    def remove(self) -> None:
        if self.process.running:
            self.thaw()
        self.process.remove()
        self._keep_log("stopped")

    def _signal(self, number: int) -> None:
        self._note_if_dead()
        if self.process.running:
            self.process.signal(number)

    def _note_if_dead(self) -> None:
        if not self._expected_dead and not self.process.running:
            self._expected_dead = True
            last = self.process.stderr.strip().splitlines()[-1:] or ["it said nothing"]
            self.mishaps.append(f"{self.name} ended by itself: {last[0]}")

    def _keep_log(self, how: str) -> None:
        with self._log.open("a") as file:
            file.write(f"{self.process.stderr}--- {how}\n")


def start_all(members: list[Member]) -> None:
    """Starts them side by side; returns once all are ready."""
    starts = [threading.Thread(target=member.start) for member in members]
    for each in starts:
        each.start()
    for each in starts:
        each.join()
