"""Processes that a test starts: they do not outlive the tests, however those end."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def start(command: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
    """A Popen. On Linux the process is told to stop when the thread that started it is no more:
    a run that is killed ends no fixture."""
    return subprocess.Popen(
        command, preexec_fn=_stop_with_us if sys.platform == "linux" else None, **options
    )


def _stop_with_us() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
