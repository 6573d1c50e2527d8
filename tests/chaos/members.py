"""The API and worker processes of a run: broken, started again, and never forgotten."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Any

from tests.support.processes import PostdateProcess, processes_of

_READY_S = 90.0


class Member:
    """One command that a run breaks; `name` is as the plan has it. What all its lives wrote to
    stderr is in a file. With several `processes` every second kill is of one of these alone, which
    the command starts again."""

    def __init__(self, name: str, directory: Path, **settings: Any) -> None:
        self.name = name
        self.process = PostdateProcess(name.split()[0], forked=False, **settings)
        self.mishaps: list[str] = []
        self._processes = int(settings.get("processes", 1))
        self._kills = 0
        self._log = directory / f"{name.replace(' ', '-')}.log"
        self._expected_dead = False

    @property
    def base_url(self) -> str:
        return self.process.base_url

    def start(self) -> None:
        """Returns once it is ready. What keeps it from that is a mishap, not an error."""
        if self.process.running and not self._expected_dead:
            return
        try:
            if self.process.running:
                self.process.wait(_READY_S)
                self._keep_log("stopped")
            self.process.start(_READY_S)
            self._expected_dead = False
        except AssertionError as error:
            self.mishaps.append(f"{self.name} did not start: {error}")

    def kill(self) -> None:
        self.note_if_dead()
        self._kills += 1
        children = self._pids()[1:]
        if children and self._kills % 2:
            _send(children[-1:], signal.SIGKILL)
            return
        self.kill_whole()

    def kill_whole(self) -> None:
        """All of its processes."""
        self.note_if_dead()
        self._expected_dead = True
        _send(self._pids()[1:], signal.SIGKILL)
        self.process.kill()
        self._keep_log("killed")

    def stop(self) -> None:
        """Asks it to end; `start` waits until it has."""
        self.note_if_dead()
        if self.process.running:
            self._expected_dead = True
            self.process.signal(signal.SIGTERM)

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def remove(self) -> None:
        if self.process.running:
            self.resume()
        self.process.remove()
        self._keep_log("stopped")

    def _signal(self, number: int) -> None:
        self.note_if_dead()
        if self.process.running:
            _send(self._pids(), number)

    def _pids(self) -> list[int]:
        """Its own, and those of its processes."""
        own = self.process.pid
        if self._processes == 1:
            return [own]
        return [own, *sorted(processes_of(self.process.data_dir).keys() - {own})]

    def note_if_dead(self) -> None:
        if not self._expected_dead and not self.process.running:
            self._expected_dead = True
            last = self.process.stderr.strip().splitlines()[-1:] or ["it said nothing"]
            self.mishaps.append(f"{self.name} ended by itself: {last[0]}")

    def _keep_log(self, how: str) -> None:
        with self._log.open("a") as file:
            file.write(f"{self.process.stderr}--- {how}\n")


def _send(pids: list[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
