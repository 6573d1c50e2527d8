"""Examples run as their reader runs them, beside a real Postdate."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from postdate import Postdate
from tests.end_to_end.conftest import working as working  # a fixture
from tests.support import children
from tests.support.processes import ROOT
from tests.support.servers import Deployment, free_port, until

EXAMPLES = ROOT / "examples"


class Running:
    """An example's server. Its files lie in a directory of its own; `said` is what it printed."""

    def __init__(
        self, command: Sequence[str], directory: Path, port: int, environment: dict[str, str]
    ) -> None:
        self.port = port
        self._output = directory / "output.txt"
        with self._output.open("w") as output:
            self.process = children.start(
                [each.replace("9000", str(self.port)) for each in command],
                forked=False,
                cwd=directory,
                env={**os.environ, **environment, "OWN_URL": self.url},
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        until(self._listens_or_ended, f"{command} listens", deadline_s=60)
        assert self.process.poll() is None, self.said

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def said(self) -> str:
        return self._output.read_text()

    def call(self, method: str, path: str, **options: Any) -> httpx.Response:
        return httpx.request(method, self.url + path, timeout=30, **options)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

    def _listens_or_ended(self) -> bool:
        with socket.socket() as tried:
            listens = tried.connect_ex(("127.0.0.1", self.port)) == 0
        return listens or self.process.poll() is not None


class Examples:
    """Starts examples against one Postdate, each test with an account of its own."""

    def __init__(self, working: Deployment, directory: Path) -> None:
        self.customer = working.customer()
        self.directory = directory
        self.environment = {
            "POSTDATE_URL": self.customer.base_url,
            "POSTDATE_API_KEY": self.customer.key,
            "PYTHONPATH": f"{EXAMPLES}{os.pathsep}{ROOT}",
        }
        self.postdate = Postdate(self.customer.base_url, self.customer.key)
        self.running: list[Running] = []

    def start(self, *command: str, port: int = 0, **environment: str) -> Running:
        own = {**self.environment, **environment}
        made = Running(command, self.directory, port or free_port(), own)
        self.running.append(made)
        return made

    def fastapi(self, name: str, *, port: int = 0, **environment: str) -> Running:
        command = [sys.executable, "-m", "uvicorn", f"{name}:app", "--port", "9000"]
        return self.start(*command, port=port, **environment)

    def waiting(self, reference: str | None = None) -> list[str]:
        return [each.schedule_id for each in self.postdate.list(reference=reference)]

    def bring_forward(self, reference: str | None = None) -> None:
        """The one that waits is due now, as if its time had come."""
        [waiting] = self.waiting(reference)
        self.postdate.change(waiting, delay=0)


@pytest.fixture
def examples(working: Deployment, tmp_path: Path) -> Iterator[Examples]:
    made = Examples(working, tmp_path)
    yield made
    for each in made.running:
        each.stop()
    made.postdate.close()
    made.customer.close()
