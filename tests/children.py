"""Processes that a test starts: they do not outlive the tests, however those end."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)
# Linux means the thread that made a process, not the process of that thread: one thread makes
# them all, and lives as long as we do.
_maker = ThreadPoolExecutor(1, "starts processes")


def start(command: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
    """A Popen. On Linux the process is told to stop when this one is no more: a run that is killed
    ends no fixture."""
    stop = _stop_with_us if sys.platform == "linux" else None
    return _maker.submit(subprocess.Popen, command, preexec_fn=stop, **options).result()


def _stop_with_us() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
