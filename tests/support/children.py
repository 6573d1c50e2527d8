"""Processes that a test starts: they do not outlive the tests, however those end."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.support import forks

# Linux means the thread that made a process, not the process of that thread: one thread makes
# them all, and lives as long as we do.
_maker = ThreadPoolExecutor(1, "starts processes")


def start(command: Sequence[str], *, forked: bool = True, **options: Any) -> subprocess.Popen[Any]:
    """A Popen. On Linux the process gets a signal when this one dies: a run that is killed
    ends no fixture. Postdate's own processes are forked: see `forks`."""
    stop = forks.die_with_parent if sys.platform == "linux" else None
    Popen = forks.Popen if forked else subprocess.Popen  # noqa: N806 - as the class is called
    return _maker.submit(Popen, command, preexec_fn=stop, **options).result()
