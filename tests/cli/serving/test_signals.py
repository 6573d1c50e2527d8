"""SIGTERM and Ctrl-C, whenever they come: `up`, `api` and `worker` end with status 0, and leave
nothing behind. They are started as users start them."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.servers import PostdateProcess, ValkeyProcess, processes_of, until

# Sends this process a signal at its n-th import, counted from the first one that is not of the
# standard library. Its children get none.
_AT_IMPORT = """
import os, signal, sys

class AtImport:
    has_begun = False

    def __init__(self, left, number):
        self.left, self.number = int(left), int(number)

    def find_spec(self, name, path=None, target=None):
        self.has_begun = self.has_begun or name == "click"
        self.left -= self.has_begun
        if self.left == 0:
            os.kill(os.getpid(), self.number)

if "AT_IMPORT" in os.environ:
    sys.meta_path.insert(0, AtImport(os.environ.pop("AT_IMPORT"), os.environ.pop("SEND")))
"""
SIGNALS = (signal.SIGTERM, signal.SIGINT)


def _hears_sigterm(pid: int) -> bool:
    """Linux only."""
    caught = Path(f"/proc/{pid}/status").read_text().partition("SigCgt:")[2].split()[0]
    return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)


@pytest.fixture
def starting(own_valkey: ValkeyProcess) -> Iterator[Callable[..., PostdateProcess]]:
    """Makes a process of a role that is not started yet. It and all of its own end well."""
    made: list[PostdateProcess] = []

    def make(role: str, **settings: object) -> PostdateProcess:
        if role != "up":
            settings["redis_url"] = own_valkey.url
        made.append(PostdateProcess(role, forked=False, **settings))
        return made[-1]

    yield make
    for process in made:
        try:
            assert process.wait() == 0, process.stderr
            assert "Traceback" not in process.stderr
            assert not processes_of(process.data_dir)
        finally:
            process.remove()


@pytest.mark.slow
@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("nth", [1, 10, 100, 200, 400, 600])
@pytest.mark.parametrize("role", ["up", "api", "worker"])
def test_a_signal_while_it_imports_ends_it_well(
    starting: Callable[..., PostdateProcess],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    role: str,
    nth: int,
    number: signal.Signals,
) -> None:
    (tmp_path / "sitecustomize.py").write_text(_AT_IMPORT)
    process = starting(role)
    monkeypatch.setattr("tests.support.store_servers.stand_ins", [str(tmp_path)])
    monkeypatch.setenv("AT_IMPORT", str(nth))
    monkeypatch.setenv("SEND", str(int(number)))
    process.spawn()
    until(lambda: not process.running or "ready" in process.stdout, "its end, or the ready line")
    if process.running:  # it has imported fewer modules
        process.signal(number)


@pytest.mark.slow
@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize(
    ("role", "processes"), [("up", 1), ("up", 2), ("up", 3), ("worker", 2), ("api", 3)]
)
def test_a_signal_while_others_are_started_leaves_none_of_them(
    starting: Callable[..., PostdateProcess], role: str, processes: int, number: signal.Signals
) -> None:
    """Of `up` there are one after the other itself, its Valkey, the API and a worker; of a role in
    two processes three."""
    process = starting(role, processes=2)
    process.spawn()
    until(lambda: _hears_sigterm(process.pid), "Python to begin with our code")
    until(lambda: len(processes_of(process.data_dir)) >= processes, "so many processes")
    process.signal(number)
