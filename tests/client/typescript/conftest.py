"""The TypeScript client, built as its users get it."""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.programs import lack_of
from tests.support.processes import ROOT, environment

PACKAGE = ROOT / "clients/typescript"
_OLDEST_NODE = 20
_PATIENCE_S = 240

Node = Callable[..., str]


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The client's directory, with its packages of npm and `dist` as the sources say."""
    if not _has_node():
        pytest.skip(lack_of(f"Node.js {_OLDEST_NODE}"))
    # One of xdist's processes builds it, and the others find it built.
    with (tmp_path_factory.getbasetemp().parent / "typescript.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        run(ROOT, "make", "--no-print-directory", "typescript")
    return PACKAGE


@pytest.fixture(scope="session")
def node(package: Path) -> Node:
    """Runs Node.js in the client's directory, with these settings of Postdate; returns stdout."""
    return lambda *arguments, **settings: run(package, "node", *arguments, **settings)


def program(package: Path, name: str, *arguments: str) -> str:
    """Runs a program of npm's."""
    return run(package, f"node_modules/.bin/{name}", *arguments)


def _has_node() -> bool:
    if not (shutil.which("node") and shutil.which("npm")):
        return False
    version = json.loads(run(ROOT, "node", "-p", "JSON.stringify(process.versions)"))["node"]
    return int(version.partition(".")[0]) >= _OLDEST_NODE


def run(where: Path, *command: str, **settings: object) -> str:
    """Runs a program to its end, which must be a good one; returns stdout."""
    done = subprocess.run(
        command,
        cwd=where,
        env=environment(**settings),
        timeout=_PATIENCE_S,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout
