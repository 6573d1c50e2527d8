"""As many open files as the system lets a process have: each connection is one."""

from __future__ import annotations

import resource


def raise_limit() -> None:
    """Raises the soft limit to the hard one. The usual soft limit, 1,024, is below the 4,096
    fires that a worker may have in flight."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
