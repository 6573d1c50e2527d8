"""How much memory there is for the embedded store."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
_SHARE = 0.75


def store_share_bytes() -> int:
    """Three quarters of what this machine, or this container, has: the rest is for the copy that
    rewriting the append-only file needs, and for everybody else."""
    available = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with contextlib.suppress(OSError, ValueError):  # no container, or one without a limit
        available = min(available, int(_CGROUP_LIMIT.read_text()))
    return int(available * _SHARE)
